"""Finds the grid on which images are drawn cell by cell, and the symbols that its cells show.

Nothing but frames is used. The grid chosen is the one that describes the frames in the fewest bits: those that name the
symbol of every cell, and those that draw each symbol once. Cells cut in the wrong places show more symbols.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from dwmr.errors import InputError
from dwmr.seeding import rng

FRAMES = 64  # used for the search, evenly over the data
MIN_PITCH = 3
MAX_PITCH = 64
MAX_SYMBOLS = 256
MAX_NEW = 0.01  # share of the frames in the second half of the data that may show a symbol the first half does not
BITS_PER_BYTE = 8
CHUNK = 1024


@dataclass(frozen=True)
class CellGrid:
    """``rows`` × ``cols`` cells of ``height`` × ``width`` pixels, the first at pixel (``top``, ``left``).

    The pitch may be a fraction of a pixel; then cells overlap by a pixel. Cells may reach over the border of the image.
    """

    rows: int
    cols: int
    height: float
    width: float
    top: int = 0
    left: int = 0

    def __str__(self) -> str:
        return f"{self.rows}x{self.cols}:{self.height:.17g}x{self.width:.17g}{self.top:+d}{self.left:+d}"

    @staticmethod
    def parse(text: str) -> CellGrid:
        """The inverse of ``str``: ``8x8:8x8+0+0`` is 8×8 cells of 8×8 pixels, with the first in the corner."""
        found = re.fullmatch(r"(\d+)x(\d+):([\d.]+)x([\d.]+)([+-]\d+)([+-]\d+)", text)
        if found is None:
            raise InputError(
                f"expected a grid such as 8x8:8x8+0+0 (rows, columns: height, width, top, left), got {text!r}"
            )
        rows, cols, height, width, top, left = found.groups()
        return CellGrid(int(rows), int(cols), float(height), float(width), int(top), int(left))

    @property
    def count(self) -> int:
        return self.rows * self.cols

    @property
    def patch(self) -> tuple[int, int]:
        """Rows and columns of pixels that a cell sees."""
        return math.ceil(self.height), math.ceil(self.width)

    def lines(self) -> tuple[np.ndarray, np.ndarray]:
        """The pixel rows (rows, height) and the pixel columns (cols, width) of the cells."""
        height, width = self.patch
        first_rows = np.rint(self.top + self.height * np.arange(self.rows)).astype(int)
        first_cols = np.rint(self.left + self.width * np.arange(self.cols)).astype(int)
        return first_rows[:, None] + np.arange(height), first_cols[:, None] + np.arange(width)

    def cut(self, images: np.ndarray) -> np.ndarray:
        """Images (N, C, H, W) as patches (N, rows, cols, C, height, width); pixels outside of the image are 0."""
        index, inside = self.pixels(images.shape[1:])
        flat = images.reshape(*images.shape[:2], -1)
        patches = np.where(inside, flat[:, :, index], 0).astype(images.dtype)
        return np.ascontiguousarray(patches.transpose(0, 2, 3, 1, 4, 5))

    def pixels(self, image_shape: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray]:
        """The places of each cell's pixels in a flattened channel, (rows, cols, height, width), and which of them lie
        inside of the image; those outside have place 0."""
        _, height, width = image_shape
        rows, cols = self.lines()
        y, x = rows[:, None, :, None], cols[None, :, None, :]
        inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
        return np.where(inside, y * width + x, 0), inside


@dataclass(frozen=True)
class Symbols:
    """What the cells of a grid show: patches uint8 (S, C, height, width), the most frequent first, and the share of
    all cells that show each."""

    grid: CellGrid
    patches: np.ndarray
    shares: np.ndarray

    def __len__(self) -> int:
        return len(self.patches)


class _Windows:
    """Hashes of rectangles of pixels, from sums over all pixels above and to the left.

    The pixel at (y, x) counts as a random number for its value, times a^y · b^x. A rectangle's sum, times a^-y · b^-x
    of its corner, depends on its content alone. All of it is arithmetic modulo 2^64.
    """

    def __init__(self, frames: np.ndarray) -> None:
        count, channels, height, width = frames.shape
        random = rng(0, "window hashes")
        values = random.integers(1, 2**64, (channels, 256), dtype=np.uint64)
        a, b = (int(number) | 1 for number in random.integers(2**64, size=2, dtype=np.uint64))
        # Beyond the border by up to a pitch on either side.
        self.row_inverse = _powers(pow(a, -1, 2**64), height), _powers(a, MAX_PITCH + 1)
        self.col_inverse = _powers(pow(b, -1, 2**64), width), _powers(b, MAX_PITCH + 1)
        pixels = np.zeros((count, height, width), np.uint64)
        for channel in range(channels):
            pixels += values[channel][frames[:, channel]]
        pixels *= _powers(a, height)[:, None] * _powers(b, width)
        self.sums = np.zeros((count, height + 1, width + 1), np.uint64)
        self.sums[:, 1:, 1:] = pixels.cumsum(1, dtype=np.uint64).cumsum(2, dtype=np.uint64)
        self.shape = height, width

    def of(self, grid: CellGrid) -> np.ndarray:
        """The hash of every cell of every frame, (N, rows, cols)."""
        rows, cols = grid.lines()
        height, width = self.shape
        top, bottom = np.clip(rows[:, 0], 0, height), np.clip(rows[:, -1] + 1, 0, height)
        left, right = np.clip(cols[:, 0], 0, width), np.clip(cols[:, -1] + 1, 0, width)
        sums = self.sums
        total = sums[:, bottom][:, :, right] - sums[:, top][:, :, right]
        total = total - sums[:, bottom][:, :, left] + sums[:, top][:, :, left]
        return total * (_at(self.row_inverse, rows[:, 0])[:, None] * _at(self.col_inverse, cols[:, 0]))


def _powers(base: int, count: int) -> np.ndarray:
    """1, base, base², … modulo 2^64."""
    powers = [1]
    while len(powers) < count:
        powers.append(powers[-1] * base % 2**64)
    return np.array(powers, np.uint64)


def _at(inverse: tuple[np.ndarray, np.ndarray], places: np.ndarray) -> np.ndarray:
    after, before = inverse
    return np.where(places >= 0, after[np.maximum(places, 0)], before[np.maximum(-places, 0)])


def find_symbols(obs: np.ndarray, next_obs: np.ndarray) -> Symbols | None:
    """The grid of the images and the symbols of its cells; None if the cells show too many, as they do in photographs,
    with noise, and where things move by less than a cell."""
    chosen = np.linspace(0, len(obs) - 1, min(FRAMES, len(obs))).astype(int)
    grid = find_grid(obs[chosen])
    return None if grid is None else symbols_of(grid, obs, next_obs)


def find_grid(frames: np.ndarray) -> CellGrid | None:
    """The grid that describes frames uint8 (N, C, H, W) in the fewest bits; None if none beats the pixels."""
    frames = np.ascontiguousarray(frames)
    count, channels, height, width = frames.shape
    windows = _Windows(frames)

    def cost(grid: CellGrid) -> float:
        _, counts = np.unique(windows.of(grid), return_counts=True)
        names = -(counts * np.log2(counts / counts.sum())).sum()
        return float(names) + len(counts) * channels * math.prod(grid.patch) * BITS_PER_BYTE

    best = min(_square_grids(height, width), key=cost, default=None)
    if best is None:
        return None
    for _ in range(2):  # cells need not be square
        best = min([best, *_with_rows(best, height)], key=cost)
        best = min([best, *_with_cols(best, width)], key=cost)
    single = len(np.unique(frames.reshape(count, -1), axis=0)) * channels * height * width * BITS_PER_BYTE
    return best if cost(best) < single else None


def axis_divisions(size: int) -> Iterator[tuple[int, float, int]]:
    """Number, pitch and start of the cells along a side, for every way to divide it."""
    largest = min(size // 2, MAX_PITCH)
    for pitch in range(MIN_PITCH, largest + 1):
        for start in range(pitch):
            first = start - pitch if start else 0
            yield math.ceil((size - first) / pitch), float(pitch), first
    for number in range(2, size // MIN_PITCH + 1):
        if size % number and size / number <= largest:
            yield number, size / number, 0


def _square_grids(height: int, width: int) -> Iterator[CellGrid]:
    starts: dict[float, list[tuple[int, int]]] = {}
    for number, pitch, first in axis_divisions(width):
        starts.setdefault(pitch, []).append((number, first))
    for rows, pitch, top in axis_divisions(height):
        for cols, left in starts.get(pitch, ()):
            yield CellGrid(rows, cols, pitch, pitch, top, left)


def _with_rows(grid: CellGrid, height: int) -> Iterator[CellGrid]:
    for rows, pitch, top in axis_divisions(height):
        yield replace(grid, rows=rows, height=pitch, top=top)


def _with_cols(grid: CellGrid, width: int) -> Iterator[CellGrid]:
    for cols, pitch, left in axis_divisions(width):
        yield replace(grid, cols=cols, width=pitch, left=left)


def symbols_of(grid: CellGrid, obs: np.ndarray, next_obs: np.ndarray) -> Symbols | None:
    """The symbols that the cells of a grid show; None if they are too many, or new ones keep coming."""
    found: dict[int, int] = {}
    patches: list[np.ndarray] = []
    new = later = 0
    chunk = min(CHUNK, -(-len(obs) // 2))
    for start in range(0, len(obs), chunk):
        for frames in (obs[start : start + chunk], next_obs[start : start + chunk]):
            frames = np.ascontiguousarray(frames)
            hashes = _Windows(frames).of(grid)
            names, first, counts = np.unique(hashes, return_index=True, return_counts=True)
            unknown = [
                (name, place) for name, place in zip(names.tolist(), first.tolist(), strict=True) if name not in found
            ]
            if start >= len(obs) // 2:
                later += len(frames)
                new += len({place // grid.count for _, place in unknown})  # frames that are the first to show something
            for name, place in unknown:
                frame, row, col = np.unravel_index(place, hashes.shape)
                found[name] = 0
                patches.append(grid.cut(frames[frame : frame + 1])[0, row, col])
            if len(found) > MAX_SYMBOLS:
                return None
            for name, count in zip(names.tolist(), counts.tolist(), strict=True):
                found[name] += count
    if new > MAX_NEW * later or len(found) < 2:
        return None
    # A cell that reaches over the border may look as another one inside of the image, whose hash differs.
    looks, symbol_of = np.unique(np.stack(patches).reshape(len(patches), -1), axis=0, return_inverse=True)
    totals = np.bincount(symbol_of.ravel(), list(found.values()))
    order = np.argsort(-totals, kind="stable")
    return Symbols(grid, looks[order].reshape(len(looks), *patches[0].shape), totals[order] / totals.sum())
