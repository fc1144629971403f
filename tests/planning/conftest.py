"""A small run of IceSlider, its data, and images to plan between."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

import dwmr
from dwmr.data.collect import collect_world
from dwmr.worlds.registry import tasks_of


@pytest.fixture(scope="session")
def planning_data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan") / "ice"
    collect_world("iceslider", folder, transitions=400)
    return folder


@pytest.fixture(scope="session")
def planning_run(planning_data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan") / "run"
    splits = dwmr.load_splits(planning_data)
    config = dwmr.preset("iceslider/dwmr", epochs=1, batch_size=64)
    dwmr.train(config, train=splits.train, val=splits.val, out=folder, progress=False)
    return folder


@pytest.fixture(scope="session")
def images(tmp_path_factory):
    """A start, the same picture again, so that any model has a plan, and the goal of a level."""
    folder = tmp_path_factory.mktemp("images")
    task = tasks_of("iceslider", trials=1)["min_solution_1"][0]
    start, goal = task.paint(task.start), task.paint(task.goal)
    Image.fromarray(start.transpose(1, 2, 0)).save(folder / "start.png")
    np.save(folder / "same.npy", start)
    np.save(folder / "goal.npy", goal.transpose(1, 2, 0))
    np.save(folder / "small.npy", start[:, :32])
    (folder / "text.png").write_text("no image")
    return folder
