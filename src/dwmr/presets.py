"""Named configurations, ``world/model`` such as ``8puzzle/dwmr+ae``.

The faithful presets have the paper's networks and settings. The paper does not publish its hyperparameters: what
`dwmr tune` found for a preset is in ``tuned/world/model.json``, with its provenance, and replaces the values here.
"""

import json
from importlib import resources
from typing import Any

from dwmr.config import Config
from dwmr.errors import unknown

Values = dict[str, Any]

# In each preset first the networks, then what holds for the whole update, then the loss terms.
_PUZZLE = (
    Values(encoder="conv", predictor="mlp", decoder="conv", bits=64, epochs=40)
    | Values(lr=2e-3, pred_factor=1.05, tau=0.9)
    | Values(var=2.3, cor=0.6, cos=1.8, loc=1.4, loc_factor=0.98, gamma=0.41, low=4, high=10)
)
_ICE = (
    Values(encoder="patch", predictor="conv", decoder="patch", bits=192, epochs=20, standardize=False, probe="grid")
    | Values(lr=1e-3, tau=0.95)
    | Values(var=2.3, cor=1.9, cos=3.0, gamma=0.36, low=0, high=6)
)

WORLD_VALUES: dict[str, Values] = {
    "8puzzle": _PUZZLE,
    "8puzzle-noisy": _PUZZLE,
    "iceslider": _ICE,
    "iceslider-noisy": _ICE,
    "digitjump": _ICE | {"bits": 256},  # twelve labels per cell, four bits each
    "generic": {"low": 0, "high": 10, "epochs": 20},
}

# DeepCubeAI weighs squared errors summed over pixels and over bits equally. In terms of their means, as used here,
# that is 64 to 1 on IceSlider and 121 to 1 on the 8-puzzle. With 1 to 1 the code follows the prediction alone.
DEEPCUBEAI = Values(scheme="joint", rec=64.0, pred_factor=1.0)

# What the strong presets add to the faithful ones, or change. An encoder that reads single tiles separates them at
# once; one that reads the whole board needs longer, and then reads it better.
_STRONG_BY_TILES = (
    Values(encoder="tiles", predictor="residual", bits=63)
    | Values(cross=True, cross_from=2, cross_to=5, cosine=True, lr=2e-3, pred_factor=1.0, tau=0.97)
    | Values(var=2.0, cor=2.0, cos=0.5, loc=10.0, loc_factor=1.0, gamma=0.4, low=2, high=8, agree=4.0)
)
_STRONG_BY_BOARD = (
    Values(encoder="conv", predictor="residual", bits=64, scheme="two_step_st")
    | Values(cross=True, cross_from=15, cross_to=25, cosine=True, cosine_from=20, lr=2.4e-3, lr_factor=1.01)
    | Values(pred_factor=1.05, tau=0.92, tau_factor=0.98, gamma=0.44, low=4, high=8, agree=4.0)
    | Values(var=1.0, cor=0.5, cos=1.15, var_factor=1.025, cor_factor=1.025, cos_factor=1.025)
    | Values(loc=4.0, loc_factor=0.985)
)
# With noise the digits separate later. With agreement and a rate that falls from epoch 20, two digits became one in
# two of four runs.
_STRONG_WITH_NOISE = Values(cross_from=20, cross_to=30, cosine_from=30, cos=1.6)
_STRONG_ICE = (
    Values(predictor="far", by_cell=True, init_from_slow_features=True, predictor_first=1)
    | Values(cross=True, cross_from=0, cross_to=1, cosine=True, lr=2e-3, tau=0.9)
    | Values(cos=0.0, gamma=0.1, cross_gamma=0.1, agree=4.0)
)

STRONG: dict[str, Values] = {
    "8puzzle": _STRONG_BY_BOARD,
    "8puzzle-noisy": _STRONG_BY_BOARD | _STRONG_WITH_NOISE,
    "iceslider": _STRONG_ICE,
    # A bit that separates rock and agent from ice, and one for the agent alone, are correlated by 0.24. With noise a
    # narrower margin leaves the first undecided where the agent stands.
    "iceslider-noisy": _STRONG_ICE | {"margin": 0.3},
    # Twelve tiles differ in eleven directions, and on DigitJump the agent's are the least slow, so each has a bit. The
    # start from slow features names every tile, so the encoder keeps it and the predictor learns alone: once that is
    # exact, the encoder could learn nothing but noise.
    "digitjump": Values(predictor="lines", bits=704, scheme="two_step_st", init_from_slow_features=True)
    | Values(epochs=12, predictor_first=12, cosine=True, lr=3e-3, cos=0.0, triplets=64),
    "generic": Values(predictor="residual", cross=True, cosine=True, lr=2e-3),
}

MODELS = ("ae", "beta-vae", "deepcubeai", "dwmr", "dwmr+ae", "dwmr+beta-vae", "strong")


def _untuned(world: str, model: str, values: Values) -> Config:
    return Config().replace(benchmark=world, model=model, **WORLD_VALUES[world] | values)


def _tuned(name: str) -> Values | None:
    file = resources.files("dwmr").joinpath("tuned", *f"{name}.json".split("/"))
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None


_UNTUNED = [
    *(
        _untuned(world, model, {"strong": STRONG[world], "deepcubeai": DEEPCUBEAI}.get(model, {}))
        for world in WORLD_VALUES
        for model in MODELS
    ),
    *(_untuned(world, "strong", _STRONG_BY_TILES) for world in ("8puzzle", "8puzzle-noisy")),
    Config().replace(benchmark="auto", model="auto", lr=2e-3, cosine=True),
]

# {"values": by option, "provenance": trials, seeds, code version, …} of each tuned preset.
TUNED = {config.name: found for config in _UNTUNED if (found := _tuned(config.name)) is not None}

PRESETS: dict[str, Config] = {
    config.name: config.replace(**TUNED.get(config.name, {}).get("values", {})) for config in _UNTUNED
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
