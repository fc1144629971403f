"""What version 0.1 wrote can still be used: a run folder, a data folder. (A study is refused: tests/tuning.)"""

import shutil
from pathlib import Path

import numpy as np
import pytest

import dwmr

WRITTEN = Path(__file__).parent / "golden" / "written-by-0.1"


@pytest.fixture(scope="module")
def data():
    return dwmr.load_transitions(WRITTEN / "data")


def test_a_data_folder_is_read(data):
    assert (len(data), data.image_shape, data.n_actions, data.n_classes) == (48, (1, 8, 8), 3, 3)


def test_a_run_folder_gives_the_same_codes(data):
    model = dwmr.WorldModel.load(WRITTEN / "run", device="cpu")
    assert np.array_equal(model.encode(data.obs).numpy(), np.load(WRITTEN / "codes.npy"))


def test_a_run_can_be_resumed(data, tmp_path):
    """Its options had other names then."""
    shutil.copytree(WRITTEN / "run", tmp_path / "run")
    changed = {"predictor": "conv", "bits": 6, "batch_size": 16, "low": 0, "high": 3}
    config = dwmr.preset("iceslider/strong", epochs=2, **changed)
    assert config.init_from_slow_features
    words = {"train": data, "out": tmp_path / "run", "seed": 3, "device": "cpu", "progress": False}
    run = dwmr.train(config, resume=True, **words)
    assert [record["epoch"] for record in run.metrics] == [1, 2]
