"""Bootstrap intervals: the units by hand, the intervals against resampling row by row."""

from __future__ import annotations

import numpy as np
import pytest

from dwmr import Transitions, evaluate
from dwmr.evaluation.intervals import COVERAGE, MAX_UNIT, board_intervals, independent_units, resampled
from dwmr.evaluation.metrics import board_scores
from dwmr.seeding import below, rng
from tests.evaluation.ring import ring_model, ring_transitions


def walks(first_cells: list[int], lengths: list[int], labelled: bool = True) -> Transitions:
    """Episodes of some lengths; each begins with its own board of one cell, then the cell is 0."""
    count = sum(lengths)
    state = np.zeros((count, 1), int)
    state[np.cumsum([0, *lengths[:-1]]), 0] = first_cells
    images = np.zeros((count, 1, 4, 4), np.uint8)
    labels = {"state": state, "next_state": state, "n_classes": 10} if labelled else {}
    episode = np.repeat(np.arange(len(lengths)), lengths)
    return Transitions(images, np.zeros(count, int), images, n_actions=1, episode=episode, **labels)


def test_episodes_that_begin_with_the_same_board_are_one_unit():
    assert independent_units(walks([5, 5, 2, 2], [2, 2, 2, 2])).tolist() == [1, 1, 1, 1, 0, 0, 0, 0]


def test_without_labels_each_episode_is_a_unit():
    assert independent_units(walks([5, 5], [2, 1], labelled=False)).tolist() == [0, 0, 1]


def test_a_long_walk_is_cut_into_pieces():
    units = independent_units(walks([0], [2 * MAX_UNIT + 1]))
    assert np.bincount(units).tolist() == [MAX_UNIT, MAX_UNIT, 1]


def test_without_episodes_each_transition_is_a_unit():
    images = np.zeros((3, 1, 4, 4), np.uint8)
    assert independent_units(Transitions(images, np.zeros(3, int), images, n_actions=1)).tolist() == [0, 1, 2]


@pytest.fixture
def readings():
    """60 boards of 3 cells and 4 labels in 7 units, two thirds of the cells read correctly."""
    generator = rng(0, "readings")
    true, guess = below(generator, 4, (2, 60, 3))
    read = np.where(below(generator, 3, (60, 3)) > 0, true, guess)
    changed = below(generator, 2, (60, 3)) > 0
    units = np.sort(np.concatenate([np.arange(7), below(generator, 7, 53)]))
    return true, read, changed, units


def test_intervals_agree_with_resampling_row_by_row(readings):
    true, read, changed, units = readings
    each = []
    for times in resampled(7, 50, seed=3).astype(int):
        rows = np.concatenate([np.flatnonzero(units == unit) for unit in range(7) for _ in range(times[unit])])
        each.append(board_scores(true[rows], read[rows], 4, changed[rows]))
    found = board_intervals(true, read, 4, changed, units, seed=3, resamples=50)
    ends = [(100 - COVERAGE) / 2, (100 + COVERAGE) / 2]
    assert found == {
        name: pytest.approx(list(np.percentile([scores[name] for scores in each], ends))) for name in each[0]
    }


def test_a_resample_draws_as_many_units_as_there_are(readings):
    times = resampled(7, 100, seed=0)
    assert set(times.sum(1)) == {7}
    assert (times != resampled(7, 100, seed=1)).any()


def test_independent_units_give_the_binomial_width():
    generator = rng(1, "readings")
    true = below(generator, 2, (4000, 2))
    read = np.where(below(generator, 10, (4000, 2)) > 0, true, 1 - true)
    changed = np.zeros_like(true, bool)
    accuracy = board_scores(true, read, 2, changed)["accuracy"]
    found = board_intervals(true, read, 2, changed, np.arange(4000))
    low, high = found["accuracy"]
    assert low < accuracy < high
    assert high - low == pytest.approx(100 * 2 * 1.96 * (0.1 * 0.9 / 8000) ** 0.5, rel=0.15)
    assert found["changed_cells_f1"] is None  # nothing ever changes


def test_evaluate_returns_intervals_on_request():
    data = ring_transitions()
    found = evaluate(ring_model(), train=data, test=data, intervals=True)["intervals"]
    assert found["encoding"]["accuracy"] == found["imagination"]["f1"] == [100, 100]
    assert found["units"] >= 1
    assert "intervals" not in evaluate(ring_model(), train=data, test=data)
