"""Whatever is made from a seed never changes: data folders, environments, planning tasks and true graphs."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from dwmr.data.collect import collect_world
from dwmr.worlds.registry import WORLDS, find_world, tasks_of

pytest.importorskip("sklearn")

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "worlds.json").read_text(encoding="utf-8"))
ENVIRONMENTS = {
    "dwmr/IceSlider-v0": {"min_solution": 1, "noise": 0.2},
    "dwmr/DigitJump-v0": {"noop": True},
    "dwmr/SlidingTiles-v0": {"size": 2, "digits": "sklearn", "noise": 0.5},
}
each_world = pytest.mark.parametrize("name", [name for name in WORLDS if name not in ("doorkey", "fourrooms")])
"""Levels of the two left out are those of the installed MiniGrid."""


def folder_digest(folder):
    """One hash of the names and bytes of all arrays in a data folder."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*.npy")):
        found.update(path.relative_to(folder).as_posix().encode() + b"\n" + path.read_bytes())
    return found.hexdigest()


@each_world
def test_data_folders(name, tmp_path):
    collect_world(name, tmp_path / "data", transitions=400, digits="sklearn")
    assert folder_digest(tmp_path / "data") == GOLDEN["data"][name]


@pytest.mark.parametrize("name", GOLDEN["environments"])
def test_data_folders_of_environments(name, tmp_path):
    pytest.importorskip("gymnasium")
    from dwmr.data.gym_collect import collect_env

    collect_env(name, tmp_path / "data", transitions=60, seed=4, env_options=ENVIRONMENTS[name])
    assert folder_digest(tmp_path / "data") == GOLDEN["environments"][name]


@each_world
def test_planning_tasks(name):
    found = hashlib.sha256()
    for kind, tasks in tasks_of(name, trials=2, seed=3, digits="sklearn").items():
        for task in tasks:
            found.update(f"{kind} {task.name} {task.optimal}".encode())
            found.update(task.paint(task.start).tobytes() + task.paint(task.goal).tobytes())
    assert found.hexdigest() == GOLDEN["tasks"][name]


@pytest.mark.parametrize("name", GOLDEN["graphs"])
def test_true_graphs(name):
    found = hashlib.sha256()
    for graph in find_world(name).with_digits("sklearn").true_graphs([1250, 1251], seed=3):
        found.update(graph.name.encode() + repr(list(graph.states)).encode() + graph.images.tobytes())
        found.update(np.ascontiguousarray(graph.table, dtype=np.int64).tobytes())
    assert found.hexdigest() == GOLDEN["graphs"][name]
