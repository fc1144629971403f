"""The ideal observer of noisy tiles."""

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dwmr.seeding import rng
from dwmr.worlds import ice_slider, tiles
from dwmr.worlds.noise import add_noise

FILE = Path(__file__).parents[2] / "experiments" / "ceilings.py"
spec = importlib.util.spec_from_file_location("ceilings", FILE)
ceilings = importlib.util.module_from_spec(spec)
spec.loader.exec_module(ceilings)


def boards(count: int) -> np.ndarray:
    world = ice_slider.IceSlider(min_solution=1)
    return np.stack([world.labels(replace(world.reset(seed), agent=8 + seed)) for seed in range(count)])


def test_the_bytes_probabilities_are_those_of_the_noise():
    table = ceilings.byte_probabilities(0.5)
    assert table.sum(1) == pytest.approx(1)
    seen = add_noise(np.full(400_000, 200, np.uint8), rng(0, "test"), 0.5)
    counted = np.bincount(seen, minlength=256) / len(seen)
    assert counted == pytest.approx(table[200], abs=1e-3)
    assert counted[255] == pytest.approx(table[200, 255], abs=3e-3)  # what clipping heaps up
    assert table[200, 255] > 0.3


def test_without_noise_to_speak_of_it_reads_every_board():
    states = boards(5)
    frames = add_noise(ice_slider.IceSlider().draw(states), rng(0, "little"), 0.05)
    likelihoods = ceilings.log_likelihoods(frames, tiles.ice_slider(), 0.05)
    assert np.array_equal(ceilings.read_tiles(likelihoods, np.zeros(4)), states.reshape(5, 64))
    assert np.array_equal(ceilings.read_boards(likelihoods, 0.2), states.reshape(5, 64))


def test_the_prior_decides_where_the_frame_says_nothing():
    likelihoods = np.zeros((1, 2, 4))
    assert ceilings.read_tiles(likelihoods, np.log([0.1, 0.2, 0.3, 0.4])).tolist() == [[3, 3]]
    by_cell = np.log([[0.7, 0.1, 0.1, 0.1], [0.1, 0.7, 0.1, 0.1]])
    assert ceilings.read_tiles(likelihoods, by_cell).tolist() == [[0, 1]]


def test_a_board_has_one_agent_and_one_goal_or_the_agent_on_it():
    likelihoods = np.full((2, 4, 4), -10.0)
    likelihoods[:, :, ice_slider.ICE] = 0
    likelihoods[:, 0, ice_slider.AGENT] = 5
    likelihoods[:, 1, ice_slider.AGENT] = 4  # by itself this cell, too, would be read as an agent
    likelihoods[0, 2, ice_slider.GOAL] = 3
    agent, goal, ice = ice_slider.AGENT, ice_slider.GOAL, ice_slider.ICE
    assert ceilings.read_boards(likelihoods, 0.5).tolist() == [[agent, ice, goal, ice], [agent, ice, ice, ice]]


def test_the_committed_file_is_by_benchmark_and_observer():
    found = json.loads((FILE.parent / "results" / "ceilings.json").read_text())
    observers = found["iceslider-noisy"]
    assert {"tile, uniform prior", "tile, label prior", "tile, cell prior", "board"} <= set(observers)
    assert (
        observers["board"]["encoding"]["board_accuracy"]
        >= observers["tile, uniform prior"]["encoding"]["board_accuracy"]
    )
