"""Every preset by name."""

import json
from pathlib import Path

import pytest

from dwmr import preset
from dwmr.errors import InputError
from dwmr.presets import PRESETS, TUNED, changes
from dwmr.training.objectives import OBJECTIVES
from dwmr.tuning.spaces import options, options_of, search_space, values_of

MODELS = ["ae", "beta-vae", "deepcubeai", "dwmr", "dwmr+ae", "dwmr+beta-vae"]
PAPER = [
    f"{benchmark}/{model}"
    for benchmark in ("8puzzle", "8puzzle-noisy", "iceslider", "iceslider-noisy")
    for model in MODELS
]


def test_the_24_of_the_paper_and_the_generic_ones_exist():
    assert len(PAPER) == 24
    assert set(PAPER) <= set(PRESETS)
    assert {f"generic/{model}" for model in MODELS} <= set(PRESETS)
    assert sorted(OBJECTIVES) == [*MODELS, "strong", "symbols"]
    assert "auto" in PRESETS
    assert {f"{name.split('/')[0]}/strong" for name in PAPER} <= set(PRESETS)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_knows_its_name(name):
    assert preset(name).name == name


GOLDEN = json.loads(Path(__file__).with_name("golden").joinpath("presets.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", sorted(GOLDEN.keys() - {"defaults"}))
def test_values_are_those_of_version_0_1(name):
    """An option that was removed since had its default value in every preset."""
    now = preset(name).flat()
    before = {option: GOLDEN[name].get(option, default) for option, default in GOLDEN["defaults"].items()}
    assert {option: now[option] for option in before if option in now} == {
        option: value for option, value in before.items() if option in now
    }
    assert not GOLDEN[name].keys() - now.keys()


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_settings(name):
    config = preset(name)
    puzzle = name.startswith("8puzzle")
    assert (config.bits, config.epochs, config.batch_size) == ((64, 40, 256) if puzzle else (192, 20, 256))
    assert config.standardize == puzzle
    assert config.scheme in (("joint",) if config.model == "deepcubeai" else ("two_step", "two_step_st"))
    assert config.hyper.pred == 1
    assert config.triplets == 0
    assert config.schedules


@pytest.mark.parametrize("name", TUNED)
def test_tuning_moved_only_what_is_searched(name):
    space = search_space(preset(name))
    assert set(TUNED[name]["values"]) == {option for dimension in space for option in options_of(dimension)}
    assert options(values_of(preset(name), space)) == TUNED[name]["values"]


def test_an_unknown_name():
    with pytest.raises(InputError, match="unknown preset 'iceslider/dwm'"):
        preset("iceslider/dwm")


def test_other_values_where_given():
    config = preset("8puzzle/dwmr", epochs=5, lr=0.01)
    assert (config.epochs, config.hyper.lr) == (5, 0.01)
    assert preset("8puzzle/dwmr").epochs == 40
    assert changes(config) == {"epochs": 5, "lr": 0.01}
    assert changes(preset("8puzzle/dwmr")) == {}
    assert changes(config.replace(benchmark="mine")) == {}


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(InputError, match=r"unknown preset 'iceslider/dwm'; did you mean 'iceslider/dwmr'"):
        preset("iceslider/dwm")
