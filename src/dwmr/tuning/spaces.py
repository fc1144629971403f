"""What tuning searches: for each family of worlds and each model, ranges and choices by name.

The ranges are those of the paper's authors, except for τ: they stopped at 0.93, below the start value of IceSlider;
here it is searched up to 0.98. The weight of the prediction is always 1, as in the paper; its schedule is searched.
A dimension moves one option of a configuration, or several that share a value (`SHARED`).
"""

from collections.abc import Collection, Mapping
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.distributions import CategoricalDistribution as Choice
from optuna.distributions import FloatDistribution as Range
from optuna.distributions import IntDistribution as Whole

from dwmr.config import Config
from dwmr.errors import InputError
from dwmr.training.objectives import OBJECTIVES

Space = dict[str, BaseDistribution]

SHARED: dict[str, tuple[str, ...]] = {"reg_factor": ("var_factor", "cor_factor", "cos_factor")}

ALWAYS: Space = {
    "lr": Range(1e-4, 5e-3, log=True),
    "lr_factor": Range(0.97, 1.03),
    "pred_factor": Range(1.0, 1.1),
}

# Models that have one scheme alone (DeepCubeAI's joint step) have no target network either.
FREE_SCHEME: Space = {
    "scheme": Choice(("two_step", "two_step_st")),
    "tau": Range(0.66, 0.98),
    "tau_factor": Range(0.97, 1.03),
}

OF_TERM: dict[str, Space] = {  # by loss term
    "var": {"var": Range(0.2, 10, log=True), "gamma": Range(0.26, 0.44), "reg_factor": Range(0.97, 1.03)},
    "cor": {"cor": Range(0.2, 10, log=True)},
    "cos": {"cos": Range(0.2, 10, log=True)},
    "loc": {"loc": Range(0.2, 10, log=True), "loc_factor": Range(0.96, 1.0)},
    "rec": {"rec": Range(0.2, 100, log=True), "rec_factor": Range(0.9, 1.0)},
    "kl": {"kl": Range(0.01, 1, log=True)},
}

# The number of bits that an action should flip, for models with the term loc.
WINDOW: dict[str, Space] = {
    "8puzzle": {"low": Whole(2, 4), "high": Whole(8, 12)},
    "iceslider": {"high": Whole(3, 9)},
    "digitjump": {"high": Whole(3, 9)},
    "generic": {"low": Whole(0, 3), "high": Whole(4, 12)},
}


def search_space(start: Config) -> Space:
    """The dimensions of a preset that have an effect on its loss."""
    if start.model not in OBJECTIVES:
        raise InputError(f"the preset {start.model} chooses its own settings, so there is nothing to tune")
    objective = OBJECTIVES[start.model]
    space = dict(ALWAYS)
    if objective.scheme is None:
        space |= FREE_SCHEME
    for term in objective.terms:
        space |= OF_TERM.get(term, {})
    if "loc" in objective.terms:
        space |= WINDOW[start.benchmark.removesuffix("-noisy")]
    if objective.noise:
        space["noise"] = Range(0.0, 2.0)
    if start.model == "strong":  # terms that it switches off, or sets outside the range, keep their value
        flat = start.flat()
        space = {name: dimension for name, dimension in space.items() if _inside(flat[options_of(name)[0]], dimension)}
    return space


def without(space: Space, fixed: Collection[str]) -> Space:
    """The space without the dimensions that move an option named in ``fixed``."""
    return {name: dimension for name, dimension in space.items() if not {name, *options_of(name)}.intersection(fixed)}


def options_of(name: str) -> tuple[str, ...]:
    """The options that a dimension moves."""
    return SHARED.get(name, (name,))


def options(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dimension as values by option, for `Config.replace`."""
    return {option: value for name, value in values.items() for option in options_of(name)}


def as_data(space: Space) -> dict[str, Any]:
    """The space for JSON: [low, high, "log" or "whole"] of a range, the values of a choice."""
    found: dict[str, Any] = {}
    for name, dimension in space.items():
        if isinstance(dimension, Choice):
            found[name] = list(dimension.choices)
        elif isinstance(dimension, Range | Whole):
            kind = ["whole"] if isinstance(dimension, Whole) else ["log"] * dimension.log
            found[name] = [dimension.low, dimension.high, *kind]
    return found


def _inside(value: Any, dimension: BaseDistribution) -> bool:
    if isinstance(dimension, Range | Whole):
        return dimension.low <= value <= dimension.high and (isinstance(dimension, Range) or value % 1 == 0)
    return isinstance(dimension, Choice) and value in dimension.choices


def values_of(config: Config, space: Space) -> dict[str, Any]:
    """The values of a configuration in each dimension."""
    flat = config.flat()
    return {name: flat[options_of(name)[0]] for name in space}


def check_space(config: Config, space: Space) -> None:
    """Refuse a space with a corner that is not a valid configuration, such as a window wider than the code."""
    for corner in (0, 1):
        config.replace(**options({name: ends[corner] for name, ends in as_data(space).items()}))
