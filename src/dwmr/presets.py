"""Named configurations: ``benchmark/model``.

The faithful presets follow the paper's networks and settings. Its hyperparameters are not published; these are
start values, the same for every model of a benchmark where they share a term.
"""

from __future__ import annotations

from typing import Any

from dwmr.config import Config
from dwmr.errors import unknown
from dwmr.objectives import OBJECTIVES

_PUZZLE: dict[str, Any] = {
    "encoder": "conv",
    "predictor": "mlp",
    "decoder": "conv",
    "bits": 64,
    "standardize": True,
    "probe": "affine",
    "epochs": 40,
    "lr": 1e-3,
    "gamma": 0.4,
    "low": 3,
    "high": 10,
    "tau": 0.9,
}

_ICE: dict[str, Any] = {
    "encoder": "patch",
    "predictor": "conv",
    "decoder": "patch",
    "bits": 192,
    "standardize": False,
    "probe": "grid",
    "epochs": 20,
    "lr": 1e-3,
    "var": 2.3,
    "cor": 1.9,
    "cos": 3.0,
    "gamma": 0.36,
    "low": 0,
    "high": 6,
    "tau": 0.95,
}

_GENERIC: dict[str, Any] = {"low": 0, "high": 10, "epochs": 20}

BENCHMARKS: dict[str, dict[str, Any]] = {
    "8puzzle": _PUZZLE,
    "8puzzle-noisy": _PUZZLE,
    "iceslider": _ICE,
    "iceslider-noisy": _ICE,
    "generic": _GENERIC,
}

PRESETS: dict[str, Config] = {
    f"{benchmark}/{model}": Config().replace(
        benchmark=benchmark, model=model, **({"scheme": objective.scheme} if objective.scheme else {}), **values
    )
    for benchmark, values in BENCHMARKS.items()
    for model, objective in OBJECTIVES.items()
}


def preset(name: str, **values: Any) -> Config:
    """The preset of that name, with other values where given: ``preset("8puzzle/dwmr", epochs=5)``."""
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    return PRESETS[name].replace(**values)
