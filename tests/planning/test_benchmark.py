import dataclasses
import json

import pytest
import torch

from dwmr import InputError
from dwmr.evaluation.intervals import wilson
from dwmr.planning import Agent, benchmark
from dwmr.planning.benchmark import ENTRIES, Results, Setting, Trial, TrialLog, evaluate_planner, summarize, try_tasks
from dwmr.worlds.registry import tasks_of

TRIAL = Trial("a", "done", True, True, True, False, 4, 4, 0, 0, 10, 40, 0.5)


def test_the_figures_of_four_trials():
    trials = [
        TRIAL,
        dataclasses.replace(TRIAL, actions=6, replans=2, seconds=1.5, plan_right=False),
        dataclasses.replace(TRIAL, solved=False, plan_right=False),
        dataclasses.replace(TRIAL, ending="no plan", solved=False, plan_found=False, plan_right=False, exhausted=True),
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
        entry = evaluate_planner(
            tasks,
            blind,
            "simulator",
            Setting(simulated="batch_astar" if name != "8puzzle" else "breadth_first"),
            progress=False,
        )
        assert (entry["solved"], entry["of"], entry["exhausted"]) == (2, 2, 0)
        assert entry["length_over_optimal"] == 1
        assert entry["tasks"] == next(iter(tasks))


def test_entries_are_stored_beside_each_other(tmp_path):
    ice = Results(tmp_path / "deep" / "planning.json", "iceslider")
    assert ice.entry("astar") is None
    ice.store("astar", {"solved": 3, "made_with": {"a": 1}})
    ice.store("random", {"solved": 0, "made_with": {"a": 1}})
    Results(ice.path, "8puzzle").store("astar", {"solved": 9, "made_with": {"a": 1}})
    assert ice.entry("astar")["solved"] == 3
    ice.check(["astar", "greedy"], {"a": 1})
    with pytest.raises(InputError, match="an entry of astar on iceslider that was made with another run"):
        ice.check(["greedy", "astar"], {"a": 2})
    assert set(json.loads(ice.path.read_text())["iceslider"]) == {"astar", "random"}
    ice.path.write_text("[]")
    with pytest.raises(InputError, match="not a file of planning results"):
        ice.store("astar", {})


def test_a_killed_evaluation_continues_where_it_stopped(tmp_path, monkeypatch):
    results, made_with = Results(tmp_path / "planning.json", "iceslider"), {"preset": "iceslider/dwmr", "radius": 0}
    blind = Agent(lambda images: torch.zeros(len(images), 1, dtype=torch.int64), None, bits=64)
    tried = []
    real = benchmark.solve_task
    monkeypatch.setattr(benchmark, "solve_task", lambda task, *rest: tried.append(task.name) or real(task, *rest))

    def evaluate(values=made_with):
        log = TrialLog(results.log_path("simulator"), values)
        return log, evaluate_planner(tasks_of("iceslider", trials=3), blind, "simulator", log=log, progress=False)

    log, whole = evaluate()
    assert len(tried) == 6
    tried.clear()
    assert evaluate()[1] == whole
    assert not tried
    lines = log.path.read_text().splitlines()
    log.path.write_text("\n".join([*lines[:4], lines[4][:20]]))  # killed while the fourth trial was written
    again = evaluate()[1]
    assert tried == ["level 2000, longer than 1", "level 2001, longer than 1", "level 2002, longer than 1"]
    assert (again["solved"], again["expanded_mean"]) == (whole["solved"], whole["expanded_mean"])
    tried.clear()
    evaluate({**made_with, "radius": 1})
    assert len(tried) == 6
    results.store("simulator", whole)
    assert list(tmp_path.iterdir()) == [results.path]


def test_unknown_entries_are_refused():
    assert {"simulator", "greedy_step", "random", "batch_astar"} <= set(ENTRIES)
    with pytest.raises(InputError, match="unknown planner"):
        try_tasks([], None, "dijkstra")
