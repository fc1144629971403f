"""Hyperparameter search: the space (`spaces`), the memory of a study (`study`), and running it (`campaign`)."""

from dwmr.errors import InputError

try:
    import optuna  # noqa: F401 - a clear message, before any module here needs it
except ImportError as missing:
    raise InputError("tuning needs Optuna; pip install 'dwmr[tune]'") from missing

from dwmr.tuning.campaign import prepare, tune
from dwmr.tuning.study import place_of

__all__ = ["place_of", "prepare", "tune"]
