"""The planning commands as a user meets them."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def to_goal(planning_run, planning_data, images):
    """Plan from the start of a level to its goal."""
    ends = ("--start", images / "start.png", "--goal", images / "goal.npy")
    return ("plan", planning_run, "--data", planning_data, "--device", "cpu", "--seconds", 0.5, *ends)


def test_a_plan_between_images_with_a_strip(cli, planning_run, planning_data, images, to_goal, tmp_path):
    ends = ("--start", images / "start.png", "--goal", images / "same.npy")
    status, out, _ = cli("plan", planning_run, "--data", planning_data, *ends, "--planner", "astar")
    assert status == 0
    assert "astar: solved, 0 actions" in out
    strip = tmp_path / "strip.png"
    status, out, _ = cli(*to_goal, "--json", "--strip", strip)
    assert status == 0
    found = json.loads(out)
    assert found["outcome"] in ("solved", "exhausted", "out of budget")
    assert found["drawn_by"] == "a decoder fitted afterwards"
    assert strip.read_bytes().startswith(b"\x89PNG")


def test_a_budget_that_ends_is_reported(cli, to_goal):
    status, out, _ = cli(*to_goal, "--seconds", 0)
    assert status == 0
    assert "out of budget, 0 actions" in out
    assert "the limit of seconds was reached: the actions lead near the goal" in out


def test_a_task_is_tried_in_its_world(cli, planning_run, planning_data, tmp_path):
    words = ("plan-level", planning_run, "--data", planning_data, "--seconds", 0.1)
    status, out, _ = cli(*words, "--strip", tmp_path / "acted.png")
    assert status == 0
    assert "task 0 (level 2000, kind min_solution_8): breadth_first, goal " in out
    assert "rendered by a decoder fitted afterwards" in out
    status, out, _ = cli(*words, "--task", 54, "--json")
    assert status == 0
    assert json.loads(out)["task"] == "level 2054, kind min_solution_8"


def test_entries_are_added_to_a_results_file(cli, planning_run, planning_data, tmp_path):
    results = tmp_path / "planning.json"
    words = ("plan-tasks", planning_run, "--data", planning_data, "--trials", 1, "--seconds", 0.1, "--out", results)
    status, out, _ = cli(*words, "--planner", "greedy_step")
    assert status == 0
    assert "Tasks solved in the real world: min_solution_8" in out
    first = json.loads(results.read_text())["iceslider"]
    status, out, _ = cli(*words, "--planner", "simulator", "--planner", "random", "--json")
    assert status == 0
    stored = json.loads(results.read_text())["iceslider"]
    assert stored == first | json.loads(out)["iceslider"]
    assert list(stored) == ["greedy_step", "simulator", "random"]
    for entry in stored.values():
        assert {"solved", "of", "interval", "length_over_optimal", "min_solution_1", "machine"} <= set(entry)


def test_a_heuristic_is_trained_and_used(cli, planning_run, planning_data, to_goal):
    words = ("train-heuristic", planning_run, "--data", planning_data, "--updates", 12, "--batch", 8)
    status, out, _ = cli(*words)
    assert status == 0
    assert "heuristic.safetensors: 12 updates" in out
    assert cli(*to_goal, "--planner", "batch_astar")[0] == 0
    status, _, err = cli(*words)
    assert status == 2
    assert err.endswith("exists already; choose another name, or replace it with --overwrite\n")
    (planning_run / "planning" / "heuristic.safetensors").unlink()


@pytest.fixture
def own_run(planning_run, tmp_path):
    """The run as it would be of a user's own data: its world has no name."""
    folder = tmp_path / "own"
    folder.mkdir()
    stored = json.loads((planning_run / "run.json").read_text())
    stored["config"]["benchmark"] = "generic"
    stored["world"] = ""
    (folder / "run.json").write_text(json.dumps(stored))
    (folder / "checkpoint.safetensors").write_bytes((planning_run / "checkpoint.safetensors").read_bytes())
    return folder


def test_a_run_of_own_data_is_prepared_with_its_data(cli, own_run, planning_data, to_goal):
    ends = to_goal[4:]
    status, _, err = cli("plan", own_run, *ends)
    assert status == 2
    assert err == "error: 'generic' has no data of its own; pass yours with --data PATH\n"
    assert cli("plan", own_run, "--data", planning_data, *ends)[0] == 0
    assert cli("plan", own_run, *ends)[0] == 0


@pytest.mark.parametrize("words", [["plan-level"], ["plan-tasks"], ["export", "--to", "pddl", "--task", 0]])
def test_a_run_of_own_data_has_no_levels(cli, own_run, planning_data, tmp_path, words):
    out = ["--out", tmp_path / "out"] if words[0] == "export" else []
    for data in ([], ["--data", planning_data]):
        status, _, err = cli(words[0], own_run, *words[1:], *out, *data)
        assert status == 2
        assert err == (
            f"error: {own_run} was not trained on a built-in world, so it has no levels; "
            f"plan between two images with: dwmr plan {own_run} --start START --goal GOAL\n"
        )


def test_a_heuristic_needs_the_data_of_the_run(cli, own_run):
    status, _, err = cli("train-heuristic", own_run)
    assert status == 2
    assert err.endswith("has no data of its own; pass yours with --data PATH\n")


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["plan", "--start", "start.png"], "issing option '--goal'"),
        (["plan", "--start", "small.npy", "--goal", "goal.npy"], "uint8 of shape (3, 32, 64), the run takes uint8 of"),
        (["plan", "--start", "start.png", "--goal", "text.png"], "cannot be read as an image"),
        (["plan", "--start", "start.png", "--goal", "nowhere.png"], "does not exist"),
        (["plan-level", "--task", "99999"], "--task must be between 0 and 99, the tasks of iceslider, got 99999"),
        (["plan-level", "--strip", "new.jpg"], "name a file that ends in .png, got 'new.jpg'"),
        (["plan-level", "--planner", "simulator"], "unknown planner 'simulator'"),
        (["plan-tasks", "--planner", "dijkstra"], "unknown planner 'dijkstra'"),
    ],
)
def test_wrong_input_is_one_line(cli, planning_run, planning_data, images, words, fault):
    words = [str(images / word) if word.endswith((".png", ".npy")) else word for word in words]
    status, _, err = cli(words[0], planning_run, "--data", planning_data, "--device", "cpu", *words[1:])
    assert status == 2
    assert fault in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_the_helps_agree_on_data_and_tasks(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    for command in ("plan", "plan-level", "plan-tasks", "train-heuristic"):
        assert "Default: the standard data of the run's world" in shown(cli, command)
    for command in ("plan-level", "export"):
        assert "Number of the task: 0 to 99, or 0 to 199 for the 8-puzzle." in shown(cli, command)
    for command in ("plan", "plan-level", "plan-tasks"):  # training a heuristic always needs the data
        assert "the first call of a planning command, which prepares the run for all of them" in shown(cli, command)


def shown(cli, command):
    return " ".join(cli(command, "--help")[1].replace("│", " ").split())


def test_a_run_with_networks_of_the_user_is_refused(cli, planning_run, planning_data, tmp_path):
    folder = tmp_path / "own"
    folder.mkdir()
    stored = json.loads((planning_run / "run.json").read_text())
    stored["config"] |= {"encoder": "custom", "predictor": "custom"}
    (folder / "run.json").write_text(json.dumps(stored))
    (folder / "checkpoint.safetensors").write_bytes((planning_run / "checkpoint.safetensors").read_bytes())
    for command in ("plan-level", "evaluate"):
        status, _, err = cli(command, folder, "--data", planning_data)
        assert status == 2
        assert f"{folder} has a custom encoder and predictor, which the command line cannot load" in err
        assert f'use Python: dwmr.WorldModel.load("{folder}", encoder=…, predictor=…)' in err
    status, _, err = cli("plan-tasks", tmp_path)
    assert status == 2
    assert "is not a run folder" in err
