"""Hyperparameters: what is searched (`spaces`), who goes on (`halving`), the journal that processes share (`journal`),
the stages of a campaign (`plan`), running it (`campaign`), and what it found (`report`)."""

from dwmr.tuning.campaign import prepare, tune
from dwmr.tuning.report import save, write_preset

__all__ = ["prepare", "save", "tune", "write_preset"]
