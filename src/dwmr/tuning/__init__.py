"""Hyperparameters: what is searched (`spaces`), who goes on (`halving`), the journal that processes share (`journal`),
the stages of a campaign (`plan`), running it (`campaign`), and what it found (`report`)."""

from dwmr.tuning.campaign import prepare, tune
from dwmr.tuning.report import preset_file, save, summary_files, write_preset

__all__ = ["prepare", "preset_file", "save", "summary_files", "tune", "write_preset"]
