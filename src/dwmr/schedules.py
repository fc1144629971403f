"""How quantities change over a run: pure functions of the epoch (0, 1, 2, …)."""

from __future__ import annotations

from dwmr.config import HYPER_NAMES, Config

TAU_CAP = 0.9999


def exponential(start: float, factor: float, epoch: int) -> float:
    """``start`` multiplied by ``factor`` at the end of every epoch."""
    return start * factor**epoch


def values_at(config: Config, epoch: int) -> dict[str, float]:
    """All the hyperparameters of an epoch. The decay of the target encoder never exceeds 0.9999."""
    values = {}
    for name in HYPER_NAMES:
        factor = getattr(config.factors, name) if config.schedules else 1.0
        values[name] = exponential(getattr(config.hyper, name), factor, epoch)
    values["tau"] = min(values["tau"], TAU_CAP)
    return values
