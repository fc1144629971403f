"""Blocks world: coloured blocks in columns; the top block of a column is moved onto another column."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass

import numpy as np

from dwmr.seeding import shuffled
from dwmr.worlds import tiles
from dwmr.worlds.puzzle import Puzzle

SIDE = 12
MAX_BLOCKS, MAX_COLUMNS = 7, 6

_MAX_SMALL = 10_000  # states of a true graph
_BACKGROUND, _EDGE = (236, 238, 242), (40, 40, 48)
_COLOURS = (
    (216, 64, 56),
    (66, 110, 210),
    (84, 176, 84),
    (242, 196, 60),
    (150, 80, 180),
    (240, 140, 180),
    (90, 200, 210),
)

Columns = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Blocks(Puzzle):
    """Stack all blocks in the first column, block 1 at the top. A state holds the blocks of each column, bottom first.

    Labels (blocks, columns): 0 where there is no block, else the number of the block. The actions are the pairs of
    columns to take the top block from and to put it on; taking from an empty column changes nothing.

    Args:
        blocks: number of blocks, 2 to 7.
        columns: number of columns, 3 to 6.
    """

    blocks: int = 5
    columns: int = 4

    name = "blocks"
    many_states = False

    def __post_init__(self) -> None:
        if not (2 <= self.blocks <= MAX_BLOCKS and 3 <= self.columns <= MAX_COLUMNS):
            raise ValueError(
                f"expected 2 to {MAX_BLOCKS} blocks and 3 to {MAX_COLUMNS} columns, "
                f"got {self.blocks} and {self.columns}"
            )

    @property
    def _moves(self) -> tuple[tuple[int, int], ...]:
        return _pairs(self.columns)

    @property
    def action_names(self) -> tuple[str, ...]:
        return tuple(f"from-{one + 1}-to-{other + 1}" for one, other in self._moves)

    @property
    def n_classes(self) -> int:
        return self.blocks + 1

    @property
    def image_shape(self) -> tuple[int, int, int]:
        return 3, self.blocks * SIDE, self.columns * SIDE

    @property
    def small_levels(self) -> bool:
        orders, heights = math.factorial(self.blocks), math.comb(self.blocks + self.columns - 1, self.blocks)
        return orders * heights <= _MAX_SMALL

    def random_state(self, generator: np.random.Generator) -> Columns:
        """The blocks and the borders between columns, in any order."""
        columns: list[list[int]] = [[]]
        for item in shuffled(generator, self.blocks + self.columns - 1).tolist():
            if item < self.blocks:
                columns[-1].append(item + 1)
            else:
                columns.append([])
        return tuple(map(tuple, columns))

    def step(self, state: Columns, action: int) -> Columns:
        origin, end = self._moves[action]
        if not state[origin]:
            return state
        columns = list(state)
        columns[end] = (*state[end], state[origin][-1])
        columns[origin] = state[origin][:-1]
        return tuple(columns)

    def solved(self, state: Columns) -> bool:
        return state[0] == tuple(range(self.blocks, 0, -1))

    def labels(self, state: Columns) -> np.ndarray:
        grid = np.zeros((self.blocks, self.columns), np.uint8)
        for number, column in enumerate(state):
            for height, block in enumerate(column, 1):
                grid[self.blocks - height, number] = block
        return grid

    def state_name(self, state: Columns) -> str:
        return " | ".join(" ".join(map(str, column)) for column in state)

    def draw(
        self, labels: np.ndarray, generator: np.random.Generator | None = None, split: str = "train"
    ) -> np.ndarray:
        return tiles.mosaic(labels, _pictures())


@functools.cache
def _pairs(columns: int) -> tuple[tuple[int, int], ...]:
    return tuple(itertools.permutations(range(columns), 2))


@functools.cache
def _pictures() -> np.ndarray:
    """uint8 (8, 3, 12, 12): nothing, and the blocks as squares with an edge."""
    pictures = np.empty((MAX_BLOCKS + 1, SIDE, SIDE, 3), np.uint8)
    pictures[0] = _BACKGROUND
    pictures[1:] = _EDGE
    pictures[1:, 1:-1, 1:-1] = np.array(_COLOURS, np.uint8)[:, None, None]
    return pictures.transpose(0, 3, 1, 2)
