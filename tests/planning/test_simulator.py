import pytest

from dwmr.planning import PLANNERS, CodeGoal
from dwmr.planning.simulator import TaskWorld, TrueWorld, true_code, true_codes, true_dynamics
from dwmr.worlds.registry import tasks_of


@pytest.mark.parametrize("name", ["iceslider", "8puzzle", "digitjump"])
def test_a_search_with_the_true_rules_finds_the_optimal_length(name):
    tasks = tasks_of(name, trials=2, digits="sklearn")
    for task in [task for kind in tasks.values() for task in kind]:
        goal = CodeGoal(true_code(task, task.goal))
        plan = PLANNERS["breadth_first"](true_dynamics(task), true_code(task, task.start), goal)
        assert len(plan.actions) == task.optimal
        assert task.solved_by(plan.actions)
        assert not task.solved_by(plan.actions[:-1])


def test_acting_in_a_task_follows_the_rules():
    task = tasks_of("iceslider", trials=1)["min_solution_1"][0]
    world = TaskWorld(task)
    assert world.observe().shape == (3, 64, 64)
    assert not world.solved
    for action in PLANNERS["breadth_first"](
        true_dynamics(task), true_code(task, task.start), CodeGoal(true_code(task, task.goal))
    ).actions:
        world.act(action)
    assert world.solved


def test_the_true_world_shows_the_number_of_its_state():
    task = tasks_of("iceslider", trials=1)["min_solution_8"][0]
    shown = true_codes(TrueWorld(task).observe()[None])
    assert shown.tolist() == true_code(task, task.start).tolist()
    assert shown.tolist() != true_code(task, task.goal).tolist()
