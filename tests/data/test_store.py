"""Stores: whole, or refused."""

import json

import numpy as np
import pytest

from dwmr.data import store
from dwmr.errors import InputError

ARRAYS = {"obs": np.arange(24, dtype=np.uint8).reshape(2, 3, 4), "actions": np.array([1, 0])}


@pytest.fixture
def saved(tmp_path):
    """A store of the kind "frames"."""
    store.save(tmp_path / "s", "frames", ARRAYS | {"n_actions": 2}, {"seed": 7})
    return tmp_path / "s"


def edit_header(path, **changes) -> None:
    header = json.loads((path / store.HEADER).read_text())
    (path / store.HEADER).write_text(json.dumps({**header, **changes}))


def test_round_trip(saved):
    assert store.is_store(saved)
    stored = store.load(saved, "frames")
    assert set(stored) == {*ARRAYS, "n_actions", "about"}
    assert stored["n_actions"] == 2
    assert stored["about"] == {"seed": 7}
    for name, array in ARRAYS.items():
        assert np.array_equal(stored[name], array)
        assert stored[name].dtype == array.dtype


def test_arrays_are_read_only_memory_maps(saved):
    array = store.load(saved, "frames")["obs"]
    assert isinstance(array, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 0


def test_an_existing_path_is_left_alone(saved):
    before = {path.name: path.read_bytes() for path in saved.iterdir()}
    with pytest.raises(FileExistsError, match="exists already"):
        store.save(saved, "frames", {"obs": np.zeros(1)}, {})
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == before
    assert [path.name for path in saved.parent.iterdir()] == ["s"]


def test_an_array_of_objects_is_not_written(tmp_path):
    with pytest.raises(ValueError, match=r"[Oo]bject"):
        store.save(tmp_path / "s", "frames", {"x": np.array([{}])}, {})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kept", [0, 5, 100, 140, 151])
def test_a_truncated_array(saved, kept):
    path = saved / "obs.npy"
    assert path.stat().st_size == 152
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(InputError, match=r"obs\.npy is truncated or not an array file"):
        store.load(saved, "frames")


def test_a_damaged_array_header(saved):
    path = saved / "obs.npy"
    whole = path.read_bytes()
    for position in range(128):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        try:
            assert np.array_equal(store.load(saved, "frames")["obs"], ARRAYS["obs"])
        except InputError as error:
            assert "obs.npy" in str(error)  # noqa: PT017 — some bytes are mere padding, and may change


def test_a_missing_array(saved):
    (saved / "actions.npy").unlink()
    with pytest.raises(InputError, match=r"actions\.npy is missing, but the header lists it"):
        store.load(saved, "frames")


@pytest.mark.parametrize("other", [ARRAYS["obs"][:1], ARRAYS["obs"].astype(np.int16)])
def test_an_exchanged_array(saved, other):
    np.save(saved / "obs.npy", other)
    with pytest.raises(InputError, match=r"obs\.npy holds .*the header says \|u1 \[2, 3, 4\]"):
        store.load(saved, "frames")


def test_a_pickled_array(saved):
    np.save(saved / "obs.npy", np.array([{}, {}]), allow_pickle=True)
    with pytest.raises(InputError, match=r"obs\.npy is truncated or not an array file"):
        store.load(saved, "frames")


@pytest.mark.parametrize("content", [b"", b"{", b"[1, 2]", b"\xff\xfe\x00", b'{"format": "dwmr-arr'])
def test_a_damaged_header(saved, content):
    (saved / store.HEADER).write_bytes(content)
    with pytest.raises(InputError, match=r"header\.json is damaged"):
        store.load(saved, "frames")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "zarr"}, "not a dwmr store: its format is 'zarr'"),
        ({"version": 2}, "store version 2; this dwmr reads version 1"),
        ({"kind": "other"}, "holds 'other', expected 'frames'"),
        ({"arrays": ["obs"]}, r"header\.json is damaged"),
        ({"arrays": {"obs": {}}}, r"header\.json is damaged"),
        ({"values": None}, r"header\.json is damaged"),
    ],
)
def test_a_foreign_header(saved, changes, message):
    edit_header(saved, **changes)
    with pytest.raises(InputError, match=message):
        store.load(saved, "frames")


def test_paths_without_a_store(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        store.load(tmp_path / "absent", "frames")
    with pytest.raises(InputError, match=r"not a dwmr store: it has no header\.json"):
        store.load(tmp_path, "frames")
