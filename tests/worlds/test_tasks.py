"""Planning tasks of the registered worlds."""

import numpy as np
import pytest

from dwmr import InputError
from dwmr.worlds import ice_slider
from dwmr.worlds.ice_slider import IceSlider
from dwmr.worlds.registry import find_world, tasks_of
from dwmr.worlds.sliding_tiles import SlidingTiles, goal_board, step
from dwmr.worlds.tasks import StateNumbers, distance


@pytest.mark.parametrize(
    ("name", "kinds"),
    [("iceslider", ["min_solution_8", "min_solution_1"]), ("8puzzle", ["pairs"]), ("digitjump", ["levels"])],
)
def test_kinds_of_tasks(name, kinds):
    assert list(tasks_of(name, trials=1, digits="sklearn")) == kinds


def test_levels_are_longer_than_asked():
    found = tasks_of("iceslider", trials=3)
    assert all(task.optimal > 8 for task in found["min_solution_8"])
    assert all(task.optimal > 1 for task in found["min_solution_1"])


def test_a_plan_is_judged_by_the_rules():
    level = find_world("iceslider").task(0, "min_solution_1")
    assert level.optimal == 3
    assert level.solved_by([3, 2, 3])
    assert not level.solved_by([3, 2])
    assert find_world("digitjump").task(0).solved_by([3, 3, 1, 1, 1])


def test_a_noisy_frame_is_different_each_time():
    clean, noisy = (tasks_of(name, trials=1)["min_solution_8"][0] for name in ("iceslider", "iceslider-noisy"))
    assert (noisy.paint(noisy.start) != noisy.paint(noisy.start)).any()
    assert np.array_equal(clean.paint(clean.start), clean.paint(clean.start))


def test_pairs_of_boards_differ_and_do_not_depend_on_how_many_are_asked_for():
    pytest.importorskip("sklearn")
    few, more = (tasks_of("8puzzle", trials=trials, digits="sklearn")["pairs"] for trials in (3, 201))
    assert (len(few), len(more)) == (3, 201)
    for one, other in zip(few, more):
        assert np.array_equal(one.start, other.start)
        assert np.array_equal(one.goal, other.goal)
        assert not np.array_equal(one.start, one.goal)


def test_fewest_moves_by_hand():
    puzzle, goal = SlidingTiles(3, digits="sklearn"), goal_board(3, 3)
    assert distance(puzzle, goal, goal) == 0
    assert distance(puzzle, step(goal, 1), goal) == 1
    hardest = np.array([[8, 6, 7], [2, 5, 4], [3, 0, 1]])
    assert distance(puzzle, hardest, np.array([[1, 2, 3], [4, 5, 6], [7, 8, 0]])) == 31


def test_every_solvable_board_is_explored():
    puzzle = SlidingTiles(2, digits="sklearn")
    states, table = StateNumbers(puzzle).explore(puzzle.reset(0))
    assert (len(states), table.shape) == (12, (12, 4))
    for board, ends in zip(states, table):
        for action, end in enumerate(ends):
            assert np.array_equal(puzzle.step(board, action), states[end])


def test_levels_without_a_solution_and_other_names_have_no_tasks(monkeypatch):
    level = ice_slider.build_level((False,) * 64, start=3, goal=35)
    monkeypatch.setattr(IceSlider, "level", lambda world, seed: level)
    with pytest.raises(InputError, match="level 7 of iceslider cannot be solved"):
        IceSlider().task(7)
    with pytest.raises(InputError, match="'generic' has no planning tasks; the worlds with tasks are 8puzzle"):
        tasks_of("generic")
    with pytest.raises(InputError, match="3×3 only, got 4"):
        SlidingTiles(4, digits="sklearn").tasks()
