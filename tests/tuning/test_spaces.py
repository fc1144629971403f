"""The search spaces: every point of them is a configuration that can be trained."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna import create_trial
from optuna.distributions import BaseDistribution

from dwmr.errors import InputError
from dwmr.presets import PRESETS, preset
from dwmr.training.objectives import OBJECTIVES
from dwmr.training.trainer import check_choices
from dwmr.tuning.spaces import (
    Choice,
    Range,
    Space,
    Whole,
    as_data,
    check_space,
    options,
    options_of,
    search_space,
    values_of,
    without,
)

NAMES = [name for name in PRESETS if name != "auto"]  # which chooses its own settings


def space_of(name: str) -> Space:
    return search_space(preset(name))


def points(name: str) -> st.SearchStrategy[dict[str, object]]:
    """Any point, the corners among them."""

    def along(dimension: BaseDistribution) -> st.SearchStrategy[object]:
        if isinstance(dimension, Choice):
            return st.sampled_from(dimension.choices)
        if isinstance(dimension, Whole):
            return st.integers(int(dimension.low), int(dimension.high))
        return st.floats(dimension.low, dimension.high)

    return st.fixed_dictionaries({key: along(dimension) for key, dimension in space_of(name).items()})


@given(st.sampled_from(NAMES).flatmap(lambda name: st.tuples(st.just(name), points(name))))
def test_every_point_is_a_valid_configuration(drawn):
    name, values = drawn
    config = preset(name).replace(**options(values))
    check_choices(config)
    assert values_of(config, space_of(name)) == values


@pytest.mark.parametrize("name", NAMES)
def test_both_ends_of_every_range_are_valid_and_the_start_lies_within(name):
    config, space = preset(name), space_of(name)
    check_space(config, space)
    values = values_of(config, space)
    assert config.replace(**options(values)) == config
    create_trial(value=0.0, params=values, distributions=space)  # Optuna refuses values outside


@pytest.mark.parametrize("name", NAMES)
def test_only_what_reaches_the_loss_is_searched(name):
    config, space = preset(name), space_of(name)
    objective = OBJECTIVES[config.model]
    weights = {"var", "cor", "cos", "loc", "rec", "kl"}
    assert weights & set(space) == {term for term in weights & set(objective.terms) if getattr(config.hyper, term) > 0}
    assert ("noise" in space) == objective.noise
    strong = config.name in ("iceslider/strong", "iceslider-noisy/strong")  # their hinge is elsewhere, and stays
    assert ("gamma" in space) == ("var" in objective.terms and not strong)
    assert ("high" in space) == ("loc" in objective.terms)
    assert "pred" not in space
    assert ({"scheme", "tau", "tau_factor"} <= set(space)) == (config.model != "deepcubeai")


def test_the_schedules_of_the_regularizers_share_a_factor():
    assert options_of("reg_factor") == ("var_factor", "cor_factor", "cos_factor")
    assert options({"reg_factor": 0.98, "lr": 1e-3}) == {
        "var_factor": 0.98,
        "cor_factor": 0.98,
        "cos_factor": 0.98,
        "lr": 1e-3,
    }


def test_noise_does_not_change_the_space():
    for model in set(OBJECTIVES) - {"symbols"}:  # of auto, which is not tuned
        assert space_of(f"8puzzle/{model}") == space_of(f"8puzzle-noisy/{model}")
        assert space_of(f"iceslider/{model}") == space_of(f"iceslider-noisy/{model}")


def test_the_windows_of_the_two_benchmarks():
    puzzle, ice = space_of("8puzzle/dwmr"), space_of("iceslider/dwmr")
    assert (puzzle["low"], puzzle["high"]) == (Whole(2, 4), Whole(8, 12))
    assert ice["high"] == Whole(3, 9)
    assert "low" not in ice
    assert preset("iceslider/dwmr").hyper.low == 0


def test_what_is_fixed_is_not_searched():
    space = space_of("8puzzle/dwmr")
    assert set(space) - set(without(space, ["lr", "cos_factor", "epochs"])) == {"lr", "reg_factor"}


def test_a_corner_that_cannot_work_is_refused():
    with pytest.raises(InputError, match="within the 8 bits"):
        check_space(preset("generic/dwmr").replace(bits=8, high=6), space_of("generic/dwmr"))


def test_a_space_as_data():
    space = {"a": Range(0.1, 1, log=True), "b": Whole(1, 3), "c": Choice(("x", "y"))}
    assert as_data(space) == {"a": [0.1, 1, "log"], "b": [1, 3, "whole"], "c": ["x", "y"]}


def test_a_preset_that_chooses_its_own_settings_is_refused():
    with pytest.raises(InputError, match="the preset auto chooses its own settings"):
        search_space(preset("auto"))
