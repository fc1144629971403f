"""Run folders: whole, or refused in words."""

import json

import pytest
import torch

from dwmr import InputError, WorldModel, preset, train
from dwmr.models.run_folder import CHECKPOINT, RUN, create_run, read_info

TINY = preset("generic/dwmr", bits=12, epochs=1, batch_size=16)


@pytest.fixture(scope="module")
def trained(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    train(TINY, train=tiny, out=folder, seed=5)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def run(trained, tmp_path):
    """A copy of a run folder that may be damaged."""
    for name, content in trained.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


def edit(run, **changes) -> None:
    stored = json.loads((run / RUN).read_text())
    (run / RUN).write_text(json.dumps({**stored, **changes}))


def test_what_a_run_says_of_itself(run, tiny):
    info = read_info(run)
    assert (info.config, info.seed, info.image_shape, info.n_actions) == (TINY, 5, (1, 8, 8), 3)
    assert (info.decoder, info.own_parts, info.data) == (False, (), tiny.fingerprint())
    assert info.versions["torch"] == torch.__version__


def test_a_field_that_an_older_run_lacks_takes_its_default(run, tiny):
    config = json.loads((run / RUN).read_text())["config"]
    del config["schedules"], config["hyper"]["temperature"]
    edit(run, config=config)
    assert read_info(run).config == TINY
    assert WorldModel.load(run).encode(tiny.obs).shape == (64, 12)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_truncated_checkpoint(run, share):
    whole = (run / CHECKPOINT).read_bytes()
    (run / CHECKPOINT).write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(InputError, match=r"checkpoint\.safetensors is truncated or not a checkpoint"):
        WorldModel.load(run)


def test_a_missing_checkpoint(run):
    (run / CHECKPOINT).unlink()
    with pytest.raises(InputError, match=r"has no checkpoint\.safetensors"):
        WorldModel.load(run)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\x00", b'{"format": "dwmr-run"}'])
def test_a_damaged_run_file(run, content):
    (run / RUN).write_bytes(content)
    with pytest.raises(InputError, match=r"run\.json"):
        WorldModel.load(run)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "other"}, "not the file of a dwmr run: its format is 'other'"),
        ({"version": 2}, "run version 2; this dwmr reads version 1"),
        ({"image_shape": [1, 8]}, "must be whole numbers"),
        ({"n_actions": "4"}, "must be whole numbers"),
        ({"config": []}, "damaged"),
        ({"config": {"momentum": 0.9}}, "unknown option 'momentum'"),
        ({"config": {"bits": 16}}, "do not fit these networks"),
        ({"n_actions": 4}, "do not fit these networks"),
    ],
)
def test_a_run_file_of_another_run(run, changes, message):
    edit(run, **changes)
    with pytest.raises(InputError, match=message):
        WorldModel.load(run)


def test_a_folder_that_is_no_run(tmp_path):
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(InputError, match=r"is not a run folder: it has no run\.json"):
            WorldModel.load(path)


def test_a_run_is_never_begun_over_one_that_another_process_began(run):
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    with pytest.raises(FileExistsError):
        create_run(run, read_info(run), {})
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before


def test_resuming_a_damaged_run_changes_nothing(run, tiny):
    (run / CHECKPOINT).write_bytes(b"damaged")
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    with pytest.raises(InputError, match="truncated or not a checkpoint"):
        train(TINY, train=tiny, out=run, seed=5, resume=True)
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before
