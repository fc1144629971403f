"""The 15-puzzle: a picture cut into tiles, or handwritten numerals."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dwmr.errors import unknown
from dwmr.seeding import shuffled
from dwmr.worlds import sliding_tiles, tiles
from dwmr.worlds.actions import MOVES, NAMES, target
from dwmr.worlds.digits import load_digits
from dwmr.worlds.puzzle import Puzzle, odd
from dwmr.worlds.world import World

SIZE = 4
SIDE = 16  # pixels of a tile of the picture
STYLES = ("picture", "digits")

_MOVES = [[target(SIZE, SIZE, cell, action) for action in MOVES] for cell in range(SIZE**2)]
_SOLVED = bytes(range(SIZE**2))


@dataclass(frozen=True)
class FifteenPuzzle(Puzzle):
    """Order the tiles, the blank first. The actions move the blank. A state holds the tile in each cell, row by row.

    Labels: 0 for the blank, else the number of the tile.

    Args:
        style: ``picture`` cuts a picture into tiles; ``digits`` draws the numbers in fresh handwriting in every frame.
        digits: source of the digits, as `dwmr.worlds.digits.load_digits` takes it.
    """

    style: str = "picture"
    digits: str = "mnist"

    name = "15puzzle"
    action_names = NAMES
    n_classes = SIZE**2
    many_states = True

    def __post_init__(self) -> None:
        if self.style not in STYLES:
            raise unknown("style", self.style, STYLES)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        if self.style == "digits":
            return sliding_tiles.SlidingTiles(SIZE).image_shape
        return 3, SIZE * SIDE, SIZE * SIDE

    def random_state(self, generator: np.random.Generator) -> bytes:
        """One of two boards that differ by two tiles can be solved."""
        board = shuffled(generator, SIZE**2).tolist()
        blank = board.index(0)
        if odd(board) != (sum(divmod(blank, SIZE)) % 2 == 1):
            one, other = (cell for cell, tile in enumerate(board) if tile in (1, 2))
            board[one], board[other] = board[other], board[one]
        return bytes(board)

    def step(self, state: bytes, action: int) -> bytes:
        blank = state.index(0)
        board = bytearray(state)
        end = _MOVES[blank][action]
        board[blank], board[end] = board[end], 0
        return bytes(board)

    def solved(self, state: bytes) -> bool:
        return state == _SOLVED

    def labels(self, state: bytes) -> np.ndarray:
        return np.frombuffer(state, np.uint8).reshape(SIZE, SIZE).copy()

    def state_name(self, state: bytes) -> str:
        return "/".join(" ".join(map(str, row)) for row in self.labels(state))

    def draw(self, labels: np.ndarray, generator: np.random.Generator, split: str = "train") -> np.ndarray:
        if self.style == "digits":
            return sliding_tiles.draw(labels, load_digits(self.digits, split), generator)
        return tiles.mosaic(labels, _pieces())

    def with_digits(self, source: str) -> World:
        return replace(self, digits=source)

    def drawing(self, split: str) -> dict[str, Any]:
        return {"digits": load_digits(self.digits, split).source} if self.style == "digits" else {}


@functools.cache
def _pieces() -> np.ndarray:
    """uint8 (16, 3, 16, 16): the tiles of the picture, the blank black."""
    pieces = picture().reshape(SIZE, SIDE, SIZE, SIDE, 3).transpose(0, 2, 4, 1, 3).reshape(-1, 3, SIDE, SIDE).copy()
    pieces[0] = 0
    return pieces


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
