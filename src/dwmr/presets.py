"""Named configurations, ``world/model`` such as ``8puzzle/dwmr+ae``.

The faithful presets have the paper's networks and settings. The paper does not publish its hyperparameters: what
`dwmr tune` found for a preset is in ``tuned/world/model.json``, with its provenance, and replaces the values here.
"""

import json
from importlib import resources
from typing import Any

from dwmr.config import Config
from dwmr.errors import unknown

_PUZZLE: dict[str, Any] = {
    "encoder": "conv",
    "predictor": "mlp",
    "decoder": "conv",
    "bits": 64,
    "standardize": True,
    "probe": "affine",
    "epochs": 40,
    "lr": 2e-3,
    "pred_factor": 1.05,
    "var": 2.3,
    "cor": 0.6,
    "cos": 1.8,
    "loc": 1.4,
    "loc_factor": 0.98,
    "gamma": 0.41,
    "low": 4,
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

_JUMP: dict[str, Any] = _ICE | {"bits": 256}  # twelve labels per cell, four bits each

_GENERIC: dict[str, Any] = {"low": 0, "high": 10, "epochs": 20}

WORLD_VALUES: dict[str, dict[str, Any]] = {
    "8puzzle": _PUZZLE,
    "8puzzle-noisy": _PUZZLE,
    "iceslider": _ICE,
    "iceslider-noisy": _ICE,
    "digitjump": _JUMP,
    "generic": _GENERIC,
}

# DeepCubeAI weighs squared errors summed over pixels and over bits equally. In terms of their means, as used here,
# that is 64 to 1 on IceSlider and 121 to 1 on the 8-puzzle. With 1 to 1 the code follows the prediction alone.
DEEPCUBEAI: dict[str, Any] = {"scheme": "joint", "rec": 64.0, "pred_factor": 1.0}

# What the strong presets add to the faithful ones, or change. An encoder that reads single tiles separates them at
# once; one that reads the whole board needs longer, and then reads it better.
_STRONG_BY_TILES: dict[str, Any] = {
    "encoder": "tiles",
    "predictor": "residual",
    "bits": 63,
    "cross": True,
    "cross_from": 2,
    "cross_to": 5,
    "cosine": True,
    "lr": 2e-3,
    "pred_factor": 1.0,
    "var": 2.0,
    "cor": 2.0,
    "cos": 0.5,
    "loc": 10.0,
    "loc_factor": 1.0,
    "gamma": 0.4,
    "low": 2,
    "high": 8,
    "agree": 4.0,
    "tau": 0.97,
}
_STRONG_BY_BOARD: dict[str, Any] = {
    "encoder": "conv",
    "predictor": "residual",
    "bits": 64,
    "scheme": "two_step_st",
    "cross": True,
    "cross_from": 15,
    "cross_to": 25,
    "cosine": True,
    "cosine_from": 20,
    "lr": 2.4e-3,
    "lr_factor": 1.01,
    "pred_factor": 1.05,
    "var": 1.0,
    "cor": 0.5,
    "cos": 1.15,
    **dict.fromkeys(("var_factor", "cor_factor", "cos_factor"), 1.025),
    "loc": 4.0,
    "loc_factor": 0.985,
    "gamma": 0.44,
    "low": 4,
    "high": 8,
    "agree": 4.0,
    "tau": 0.92,
    "tau_factor": 0.98,
}
# With noise the digits separate later. With agreement and a rate that falls from epoch 20, two digits became one in
# two of four runs.
_STRONG_WITH_NOISE: dict[str, Any] = {"cross_from": 20, "cross_to": 30, "cosine_from": 30, "cos": 1.6}
_STRONG_ICE: dict[str, Any] = {
    "predictor": "far",
    "cross": True,
    "cross_from": 0,
    "cross_to": 1,
    "by_cell": True,
    "init_from_slow_features": True,
    "predictor_first": 1,
    "cosine": True,
    "lr": 2e-3,
    "cos": 0.0,
    "gamma": 0.1,
    "cross_gamma": 0.1,
    "agree": 4.0,
    "tau": 0.9,
}
# A bit that separates rock and agent from ice, and one for the agent alone, are correlated by 0.24. With noise a
# narrower margin leaves the first undecided where the agent stands.
_STRONG_ICE_WITH_NOISE: dict[str, Any] = {"margin": 0.3}
# Twelve tiles differ in eleven directions, and on DigitJump the agent's are the least slow, so each has a bit. The
# start from slow features names every tile, so the encoder keeps it and the predictor learns alone: once that is
# exact, the encoder could learn nothing but noise.
_STRONG_JUMP: dict[str, Any] = {
    "predictor": "lines",
    "bits": 704,
    "scheme": "two_step_st",
    "init_from_slow_features": True,
    "epochs": 12,
    "predictor_first": 12,
    "cosine": True,
    "lr": 3e-3,
    "cos": 0.0,
    "triplets": 64,
}

STRONG: dict[str, dict[str, Any]] = {
    "8puzzle": _STRONG_BY_BOARD,
    "8puzzle-noisy": _STRONG_BY_BOARD | _STRONG_WITH_NOISE,
    "iceslider": _STRONG_ICE,
    "iceslider-noisy": _STRONG_ICE | _STRONG_ICE_WITH_NOISE,
    "digitjump": _STRONG_JUMP,
    "generic": {"predictor": "residual", "cross": True, "cosine": True, "lr": 2e-3},
}


MODELS = ("ae", "beta-vae", "deepcubeai", "dwmr", "dwmr+ae", "dwmr+beta-vae", "strong")


def _untuned(world: str, model: str, values: dict[str, Any]) -> Config:
    return Config().replace(benchmark=world, model=model, **WORLD_VALUES[world] | values)


def _tuned(name: str) -> dict[str, Any] | None:
    file = resources.files("dwmr").joinpath("tuned", *f"{name}.json".split("/"))
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None


_UNTUNED = [
    _untuned(world, model, {"strong": STRONG[world], "deepcubeai": DEEPCUBEAI}.get(model, {}))
    for world in WORLD_VALUES
    for model in MODELS
]
_UNTUNED += [_untuned(world, "strong", _STRONG_BY_TILES) for world in ("8puzzle", "8puzzle-noisy")]

_UNTUNED.append(Config().replace(benchmark="auto", model="auto", lr=2e-3, cosine=True))

# {"values": by option, "provenance": trials, seeds, code version, …} of each tuned preset.
TUNED: dict[str, dict[str, Any]] = {
    config.name: found for config in _UNTUNED if (found := _tuned(config.name)) is not None
}

PRESETS: dict[str, Config] = {
    config.name: config.replace(**TUNED[config.name]["values"]) if config.name in TUNED else config
    for config in _UNTUNED
}


def preset(name: str, **values: Any) -> Config:
    """The preset of that name, with changed values: ``preset("8puzzle/dwmr", epochs=5)``."""
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    return PRESETS[name].replace(**values)


def changes(config: Config) -> dict[str, Any]:
    """The options in which a configuration differs from its preset."""
    given = PRESETS[config.name].flat() if config.name in PRESETS else {}
    return {name: value for name, value in config.flat().items() if name in given and given[name] != value}
