import numpy as np
import pytest
import torch

from dwmr import InputError
from dwmr.planning import PLANNERS, CodeGoal
from dwmr.planning.board_rules import fewest_moves
from dwmr.planning.tasks import TaskWorld, TrueWorld, tasks_of, true_codes
from dwmr.worlds import sliding_tiles


@pytest.mark.parametrize(
    ("benchmark", "kinds"),
    [("iceslider", ["min_solution_8", "min_solution_1"]), ("8puzzle", ["pairs"]), ("digitjump", ["levels"])],
)
def test_optimal_lengths_are_those_of_the_true_rules(benchmark, kinds):
    found = tasks_of(benchmark, trials=2, digits="sklearn")
    assert list(found) == kinds
    for task in [task for tasks in found.values() for task in tasks]:
        goal = CodeGoal(task.word(task.goal))
        plan = PLANNERS["breadth_first"](task.rules(torch.device("cpu")), task.word(task.start), goal)
        assert len(plan.actions) == task.optimal
        assert task.solved_by(plan.actions)
        assert not task.solved_by(plan.actions[:-1])


def test_levels_are_longer_than_asked():
    found = tasks_of("iceslider", trials=3)
    assert all(task.optimal > 8 for task in found["min_solution_8"])
    assert all(task.optimal > 1 for task in found["min_solution_1"])


def test_a_noisy_world_is_drawn_anew_at_every_look():
    clean, noisy = (tasks_of(name, trials=1)["min_solution_8"][0] for name in ("iceslider", "iceslider-noisy"))
    world = TaskWorld(noisy)
    assert (world.look() != world.look()).any()
    assert np.array_equal(TaskWorld(clean).look(), TaskWorld(clean).look())
    assert world.look().shape == (3, 64, 64)


def test_the_true_world_shows_its_state():
    task = tasks_of("iceslider", trials=1)["min_solution_8"][0]
    assert true_codes(TrueWorld(task).look()[None]).tolist() == [[task.start.agent]]


def test_fewest_moves_by_hand():
    goal = sliding_tiles.goal_board(3, 3)
    assert fewest_moves(goal, goal) == 0
    assert fewest_moves(sliding_tiles.step(goal, 1), goal) == 1
    assert fewest_moves(np.array([[8, 6, 7], [2, 5, 4], [3, 0, 1]]), np.array([[1, 2, 3], [4, 5, 6], [7, 8, 0]])) == 31
    with pytest.raises(ValueError, match="no moves lead"):
        fewest_moves(goal, np.array([[0, 2, 1], [3, 4, 5], [6, 7, 8]]))


def test_other_benchmarks_have_no_tasks():
    with pytest.raises(InputError, match="unknown benchmark with tasks"):
        tasks_of("generic")
