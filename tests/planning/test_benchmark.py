import json

import pytest
import torch

from dwmr import InputError
from dwmr.evaluation.intervals import wilson
from dwmr.planning import PLANNERS, Agent, CodeGoal
from dwmr.planning.acting import Limits
from dwmr.planning.benchmark import (
    ENTRIES,
    TaskWorld,
    TrueWorld,
    evaluate_planner,
    read_results,
    solve_task,
    summarize,
    true_agent,
)
from dwmr.worlds.registry import tasks_of
from tests.planning.graphs import true_code

TRIAL = {"ending": "done", "solved": True, "plan_found": True, "plan_right": True, "exhausted": False}
TRIAL |= {"optimal": 4, "actions": 4, "replans": 0, "random_actions": 0, "expanded": 10, "generated": 40}
TRIAL |= {"seconds": 0.5}


def test_the_figures_of_four_trials():
    trials = [
        TRIAL,
        TRIAL | {"actions": 6, "replans": 2, "seconds": 1.5, "plan_right": False},
        TRIAL | {"solved": False, "plan_right": False},
        TRIAL | {"ending": "no plan", "solved": False, "plan_found": False, "plan_right": False, "exhausted": True},
    ]
    figures = summarize(trials)
    assert (figures["solved"], figures["of"]) == (2, 4)
    assert figures["length_over_optimal"] == 1.25
    assert figures["share_optimal"] == 50
    assert (figures["plan_found"], figures["plan_found_but_wrong"], figures["exhausted"]) == (3, 2, 1)
    assert figures["claimed_wrongly"] == 1
    assert figures["replans_mean"] == 0.5
    assert figures["generated_per_second"] == pytest.approx(160 / 3)
    assert figures["seconds_median"] == 0.5


def test_wilson_intervals():
    assert wilson(0, 10) == pytest.approx([0, 27.75], abs=0.01)
    assert wilson(99, 100) == pytest.approx([94.55, 99.82], abs=0.01)
    assert wilson(100, 100)[1] == 100


def test_the_true_rules_solve_every_kind_of_task():
    blind = Agent(lambda images: torch.zeros(len(images), 1, dtype=torch.int64), None, bits=64)
    for name in ("iceslider", "digitjump", "8puzzle"):
        tasks = tasks_of(name, trials=2, digits="sklearn")
        entry = evaluate_planner(tasks, blind, "simulator")
        assert (entry["solved"], entry["of"], entry["exhausted"]) == (2, 2, 0)
        assert entry["length_over_optimal"] == 1
        assert entry["tasks"] == next(iter(tasks))
        assert {*tasks} - {entry["tasks"]} <= {*entry}


def test_only_results_are_read_as_results(tmp_path):
    path = tmp_path / "planning.json"
    assert read_results(path) == {}
    path.write_text(json.dumps({"iceslider": {"astar": {"solved": 3}}}))
    assert read_results(path)["iceslider"]["astar"]["solved"] == 3
    path.write_text("[]")
    with pytest.raises(InputError, match="not a file of planning results"):
        read_results(path)


def test_unknown_entries_are_refused():
    blind = Agent(lambda images: torch.zeros(len(images), 1, dtype=torch.int64), None, bits=64)
    assert {"simulator", "greedy_step", "random", "batch_astar"} <= set(ENTRIES)
    with pytest.raises(InputError, match="unknown planner"):
        solve_task(tasks_of("iceslider", trials=1)["min_solution_1"][0], blind, "dijkstra", Limits())


@pytest.mark.parametrize("name", ["iceslider", "8puzzle", "digitjump"])
def test_a_search_with_the_true_rules_finds_the_optimal_length(name):
    tasks = tasks_of(name, trials=2, digits="sklearn")
    for task in [task for kind in tasks.values() for task in kind]:
        goal = CodeGoal(true_code(task, task.goal))
        plan = PLANNERS["breadth_first"](true_agent(task).dynamics, true_code(task, task.start), goal)
        assert len(plan.actions) == task.optimal
        assert task.solved_by(plan.actions)
        assert not task.solved_by(plan.actions[:-1])


def test_acting_in_a_task_follows_the_rules():
    task = tasks_of("iceslider", trials=1)["min_solution_1"][0]
    world = TaskWorld(task)
    assert world.observe().shape == (3, 64, 64)
    assert not world.task.reached(world.state)
    for action in PLANNERS["breadth_first"](
        true_agent(task).dynamics, true_code(task, task.start), CodeGoal(true_code(task, task.goal))
    ).actions:
        world.act(action)
    assert world.task.reached(world.state)


def test_the_true_world_shows_the_number_of_its_state():
    task = tasks_of("iceslider", trials=1)["min_solution_8"][0]
    shown = true_agent(task).encode(TrueWorld(task).observe()[None])
    assert shown.tolist() == true_code(task, task.start).tolist()
    assert shown.tolist() != true_code(task, task.goal).tolist()
