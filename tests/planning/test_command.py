"""`dwmr plan` and `dwmr train-heuristic` as a user meets them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

import dwmr
from dwmr.data.collect import collect_world
from dwmr.worlds.registry import tasks_of


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan") / "ice"
    collect_world("iceslider", folder, transitions=400, progress=False)
    return folder


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan") / "run"
    splits = dwmr.load_splits(data)
    config = dwmr.preset("iceslider/dwmr", epochs=1, batch_size=64)
    dwmr.train(config, train=splits.train, val=splits.val, out=folder, progress=False)
    return folder


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """A start and a goal that shows the same, so that any model has a plan; and the goal of a level."""
    folder = tmp_path_factory.mktemp("images")
    task = tasks_of("iceslider", trials=1)["min_solution_1"][0]
    start, goal = task.paint(task.start), task.paint(task.goal)
    Image.fromarray(start.transpose(1, 2, 0)).save(folder / "start.png")
    np.save(folder / "same.npy", start)
    np.save(folder / "goal.npy", goal.transpose(1, 2, 0))
    np.save(folder / "small.npy", start[:, :32])
    (folder / "text.png").write_text("no image")
    return folder


def test_a_plan_between_images_with_a_strip(cli, run, data, images, tmp_path):
    words = ("plan", run, "--data", data, "--device", "cpu", "--nodes", 2000, "--planner", "astar")
    status, out, _ = cli(*words, "--start", images / "start.png", "--goal", images / "same.npy")
    assert status == 0
    assert "astar: solved, 0 actions" in out
    strip = tmp_path / "strip.png"
    status, out, _ = cli(
        *words, "--start", images / "start.png", "--goal", images / "goal.npy", "--json",
        "--strip", strip, "--imagined", "nearest",
    )  # fmt: skip
    assert status == 0
    found = json.loads(out)
    assert found["outcome"] in ("solved", "exhausted", "out of budget")
    assert found["generated"] <= 2000
    assert found["drawn_by"] == "the nearest training frame"
    assert strip.read_bytes().startswith(b"\x89PNG")
    with Image.open(tmp_path / "strip.gif") as animation:
        assert b"nearest training frame" in animation.info["comment"]


def test_a_budget_that_ends_is_said(cli, run, data, images):
    status, out, _ = cli(
        "plan", run, "--data", data, "--start", images / "start.png", "--goal", images / "goal.npy", "--nodes", 1
    )
    assert status == 0
    assert "out of budget, 0 actions" in out
    assert "the budget of nodes ended: this is the best way known" in out


def test_a_task_is_tried_in_its_world(cli, run, data, tmp_path):
    status, out, _ = cli(
        "plan", run, "--data", data, "--level", 0, "--nodes", 500, "--max-actions", 5, "--strip", tmp_path / "s.png"
    )
    assert status == 0
    assert "level 2000, longer than 8: breadth_first says" in out
    assert "drawn by a decoder fitted afterwards" in out
    assert (run / "painter.safetensors").exists()


def test_evaluation_goes_on_where_it_was(cli, run, data, tmp_path):
    results = tmp_path / "planning.json"
    words = (
        "plan",
        run,
        "--data",
        data,
        "--evaluate",
        "--trials",
        1,
        "--max-actions",
        5,
        "--nodes",
        200,
        "--out",
        results,
    )
    status, out, _ = cli(*words, "--planner", "greedy")
    assert status == 0
    assert "Tasks solved in the real world: min_solution_8" in out
    first = results.read_text()
    status, out, _ = cli(*words, "--planner", "greedy", "--planner", "simulator", "--planner", "random", "--json")
    assert status == 0
    shown = json.loads(out)["iceslider"]
    assert shown["greedy"] == json.loads(first)["iceslider"]["greedy"]
    assert shown["simulator"]["solved"] == 1 or shown["simulator"]["of"] == 1
    stored = json.loads(results.read_text())["iceslider"]
    assert set(stored) == {"greedy", "simulator", "random"}
    for entry in stored.values():
        assert {"solved", "of", "interval", "length_over_optimal", "min_solution_1", "machine"} <= set(entry)


def test_a_heuristic_is_trained_and_used(cli, run, data, images):
    status, out, _ = cli(
        "train-heuristic", run, "--data", data, "--updates", 12, "--batch", 8, "--walk", 4, "--width", 16
    )
    assert status == 0
    assert "heuristic.safetensors: 12 updates" in out
    status, out, _ = cli(
        "plan", run, "--data", data, "--start", images / "start.png", "--goal", images / "goal.npy",
        "--heuristic", "value", "--planner", "batch_astar", "--nodes", 400,
    )  # fmt: skip
    assert status == 0
    (run / "heuristic.safetensors").unlink()


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--start", "start.png"], "ask for one thing"),
        (["--evaluate", "--level", "1"], "ask for one thing"),
        (["--start", "small.npy", "--goal", "goal.npy"], "uint8 of shape (3, 32, 64), the run takes uint8 of shape (3"),
        (["--start", "start.png", "--goal", "text.png"], "cannot be read as an image"),
        (["--start", "start.png", "--goal", "nowhere.png"], "does not exist"),
        (["--level", "0", "--planner", "simulator"], "unknown planner 'simulator'"),
        (["--evaluate", "--planner", "dijkstra"], "unknown planner 'dijkstra'"),
        (["--evaluate", "--heuristic", "manhattan"], "unknown heuristic"),
        (["--evaluate", "--heuristic", "value", "--trials", "1"], "dwmr train-heuristic RUN"),
        (["--evaluate", "--goal-by", "word"], "unknown kind of goal"),
        (["--level", "0", "--imagined", "dream"], "unknown way to draw"),
    ],
)
def test_wrong_input_is_one_line(cli, run, data, images, words, fault):
    words = [str(images / word) if word.endswith((".png", ".npy")) else word for word in words]
    status, _, err = cli("plan", run, "--data", data, "--device", "cpu", *words)
    assert status == 2
    assert fault in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_a_run_without_a_known_predictor_is_refused(cli, run, data, tmp_path, images):
    folder = tmp_path / "own"
    folder.mkdir()
    stored = json.loads((run / "run.json").read_text())
    stored["config"]["predictor"] = "custom"
    (folder / "run.json").write_text(json.dumps(stored))
    (folder / "checkpoint.safetensors").write_bytes((run / "checkpoint.safetensors").read_bytes())
    status, _, err = cli("plan", folder, "--data", data, "--level", 0)
    assert status == 2
    assert "made with predictor of one's own" in err
    status, _, err = cli("plan", tmp_path, "--evaluate")
    assert status == 2
    assert "is not a run folder" in err
