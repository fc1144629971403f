"""Blocks world: coloured blocks in columns; the top block of a column is moved onto another column."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dwmr.seeding import shuffled
from dwmr.worlds.puzzle import Puzzle
from dwmr.worlds.tiles import colours

SIDE = 12

_MAX_SMALL = 10_000  # states of a true graph
_BACKGROUND, _EDGE = (236, 238, 242), (40, 40, 48)
_COLOURS = colours("d84038 426ed2 54b054 f2c43c 9650b4 f08cb4 5ac8d2")

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
    allowed = {"blocks": range(2, 8), "columns": range(3, 7)}  # noqa: RUF012

    @cached_property
    def _moves(self) -> list[tuple[int, int]]:
        return list(itertools.permutations(range(self.columns), 2))

    @property
    def action_names(self) -> tuple[str, ...]:
        return tuple(f"from-{one + 1}-to-{other + 1}" for one, other in self._moves)

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

    @property
    def pictures(self) -> np.ndarray:
        """Nothing, and the blocks as squares with an edge."""
        pictures = np.full((self.blocks + 1, SIDE, SIDE, 3), _EDGE, np.uint8)
        pictures[0] = _BACKGROUND
        pictures[1:, 1:-1, 1:-1] = _COLOURS[: self.blocks, None, None]
        return pictures.transpose(0, 3, 1, 2)
