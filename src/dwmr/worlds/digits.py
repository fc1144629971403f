"""Images of handwritten digits by label. No image is in two splits."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from dwmr.errors import InputError, unknown
from dwmr.files import cache_folder
from dwmr.worlds.mnist import CONTENT_SHA256, SIDE, content_sha256, load_mnist, read_folder

SPLITS = ("train", "val", "test")


@dataclass(frozen=True, eq=False)
class Digits:
    """Digits by label.

    Attributes:
        by_label: ten arrays uint8 (count, 28, 28), white on black; ``by_label[d]`` are images of digit d.
        source: ``mnist``, ``sklearn``, or ``idx:`` and a hash of a folder's content.
    """

    by_label: tuple[np.ndarray, ...]
    source: str

    def __post_init__(self) -> None:
        for digit, images in enumerate(self.by_label):
            if not len(images):
                raise InputError(f"{self.source}: there is no image of the digit {digit}")

    @cached_property
    def counts(self) -> np.ndarray:
        """int64 (10,): the number of images of each digit."""
        return np.array([len(images) for images in self.by_label])

    @cached_property
    def pictures(self) -> np.ndarray:
        """A black picture, then the images of all digits by label."""
        return np.concatenate([np.zeros((1, SIDE, SIDE), np.uint8), *self.by_label])


def load_digits(source: str | os.PathLike[str] = "mnist", split: str = "train") -> Digits:
    """Digits of one split; the arrays are shared between calls and read-only.

    Args:
        source: ``mnist`` (downloaded once into `dwmr.files.cache_folder`), ``sklearn`` (1,797 digits that come with
            scikit-learn), or a folder with four IDX files like those of MNIST.
        split: ``train``, ``val`` or ``test``. For MNIST the first 50,000 training images, the other 10,000,
            and the 10,000 test images; for a folder likewise, with a sixth of the training images as ``val``.

    Raises:
        DigitsUnavailable: no source of MNIST could be reached.
        InputError: unknown source or split, or the folder's files are missing or damaged.
    """
    if split not in SPLITS:
        raise unknown("split", split, SPLITS)
    if source == "sklearn":
        return _sklearn()[split]
    return _mnist(cache_folder() if source == "mnist" else Path(source).expanduser(), source == "mnist")[split]


@functools.lru_cache(maxsize=1)
def _mnist(folder: Path, cached: bool) -> dict[str, Digits]:
    """The splits of MNIST, or of a folder of IDX files."""
    if not cached and not folder.is_dir():
        raise InputError(f"unknown digits {str(folder)!r}; expected mnist, sklearn or a folder of IDX files")
    arrays = load_mnist(folder) if cached else read_folder(folder)
    digest = content_sha256(arrays)
    source = "mnist" if digest == CONTENT_SHA256 else f"idx:{digest[:12]}"
    images, labels = arrays.train_images, arrays.train_labels
    cut = len(images) - len(images) // 6
    return {
        "train": Digits(_by_label(images[:cut], labels[:cut]), source),
        "val": Digits(_by_label(images[cut:], labels[cut:]), source),
        "test": Digits(_by_label(arrays.test_images, arrays.test_labels), source),
    }


@functools.lru_cache(maxsize=1)
def _sklearn() -> dict[str, Digits]:
    """70% of each label for training, 15% for validation, the rest for testing."""
    try:
        from sklearn import datasets
    except ImportError as error:
        raise InputError("the digits 'sklearn' need scikit-learn: pip install 'dwmr[digits]'") from error
    stored = datasets.load_digits()
    by_label = _by_label(_enlarge(stored.images.astype(np.int64)), stored.target)
    bounds = {"train": (0, 70), "val": (70, 85), "test": (85, 100)}
    return {
        split: Digits(tuple(d[len(d) * low // 100 : len(d) * high // 100] for d in by_label), "sklearn")
        for split, (low, high) in bounds.items()
    }


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
