"""How quantities change over a run: pure functions of the epoch (0, 1, 2, …)."""

import math

from dwmr.config import HYPER_NAMES, TERMS, Config

TAU_CAP = 0.9999


def values_at(config: Config, epoch: int) -> dict[str, float]:
    """All the hyperparameters of an epoch. The decay of the target encoder never exceeds 0.9999."""
    values = {}
    for name in HYPER_NAMES:
        factor = getattr(config.factors, name) if config.schedules else 1.0
        values[name] = getattr(config.hyper, name) * factor**epoch
    values["tau"] = min(values["tau"], TAU_CAP)
    fall = half_cosine(epoch - config.cosine_from, config.epochs - config.cosine_from) if config.cosine else 1.0
    rise = min(1.0, (epoch + 1) / (config.warmup + 1))
    values["lr"] *= rise * fall
    if config.cross:
        across = ramp(epoch, config.cross_from, config.cross_to)
        for name in ("var", "cor"):
            values[name] *= 1 - across
            values[f"cross_{name}"] *= across
        values["agree"] *= across
    if epoch < config.predictor_first:
        values |= dict.fromkeys(TERMS, 0.0)
    return values


def half_cosine(epoch: int, epochs: int) -> float:
    """1 up to epoch 0, then half a cosine that falls to 0 after ``epochs``."""
    return (1 + math.cos(math.pi * epoch / epochs)) / 2 if epoch > 0 else 1.0


def ramp(epoch: int, start: int, end: int) -> float:
    """0 up to the epoch ``start``, 1 from ``end`` on, straight between."""
    if epoch >= end:
        return 1.0
    return max(0.0, (epoch - start) / (end - start))
