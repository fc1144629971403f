"""The 15-puzzle: a picture cut into tiles, or handwritten numerals."""

import functools
from dataclasses import dataclass

import numpy as np

from dwmr.worlds.puzzle import Puzzle
from dwmr.worlds.sliding_tiles import TileBoard
from dwmr.worlds.tiles import mosaic

SIZE = 4
SIDE = 16  # pixels of a tile of the picture


@dataclass(frozen=True)
class FifteenPuzzle(TileBoard, Puzzle):
    """Order the tiles, the blank first. The actions move the blank.

    Args:
        style: ``picture`` cuts a picture into tiles; ``digits`` draws the numbers in fresh handwriting in every frame.
    """

    style: str = "picture"

    name = "15puzzle"
    allowed = {"style": ("picture", "digits")}  # noqa: RUF012
    shape = (SIZE, SIZE)
    many_states = True

    @property
    def image_shape(self) -> tuple[int, int, int]:
        return super().image_shape if self.style == "digits" else (3, SIZE * SIDE, SIZE * SIDE)

    @property
    def pictures(self) -> np.ndarray:
        """The tiles of the picture, the blank black."""
        pieces = picture().reshape(SIZE, SIDE, SIZE, SIDE, 3).transpose(0, 2, 4, 1, 3).reshape(-1, 3, SIDE, SIDE)
        pieces[0] = 0
        return pieces

    def draw(self, labels: np.ndarray, generator: np.random.Generator, split: str = "train") -> np.ndarray:
        return super().draw(labels, generator, split) if self.style == "digits" else mosaic(labels, self.pictures)


@functools.cache
def picture() -> np.ndarray:
    """uint8 (64, 64, 3): the sun, a cloud, hills, a lake and a boat, in colours that change from pixel to pixel."""
    row, col = np.mgrid[: SIZE * SIDE, : SIZE * SIDE]
    layers = (
        (row >= 0, (60 + 3 * col, 120 + 2 * row, 255 - 2 * row)),  # sky
        ((row - 14) ** 2 + (col - 44) ** 2 < 100, (255, 230 - row, 20 + row)),  # sun
        (3 * (row - 10) ** 2 + (col - 16) ** 2 < 140, (240, 240, 255 - col)),  # cloud
        (row > 24 + abs(col - 14), (30 + 4 * col, 150 - 2 * col, 40 + row)),  # hills
        (row > 30 + abs(col - 52) // 2, (20 + 2 * col, 4 * (row - 20), 30)),
        (row > 46, (3 * col, 190 - 2 * col, 100 + 2 * (col % 8) + row)),  # lake
        ((row > 50) & (row < 56) & (abs(col - 22) < 62 - row), (150, 40, 30)),  # boat and sail
        ((row > 36) & (row < 50) & (col > 22) & (col < row - 14), (250, 250, 230)),
    )
    scene = np.zeros((SIZE * SIDE, SIZE * SIDE, 3), np.int64)
    for mask, colour in layers:
        scene[mask] = np.stack(np.broadcast_arrays(*colour, row)[:3], -1)[mask]
    return scene.clip(0, 255).astype(np.uint8)
