"""DigitJump: jump exactly as many cells as the digit under the agent says, from the first cell to the last.

Levels are a function of the seed alone and agree with the public puzzlegen rules. Cells count row by row.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from dwmr.worlds import tiles
from dwmr.worlds.actions import MOVES, target
from dwmr.worlds.grid_world import (
    MAX_TRIES,
    N_CELLS,
    SIZE,
    GridState,
    GridWorld,
    Position,
    Table,
    cell_of,
    shortest_path,
)

MAX_DIGIT = 6


@dataclass(frozen=True)
class Level:
    """The digits 1 to 6 of the 64 cells, row by row."""

    digits: tuple[int, ...]

    start: ClassVar[Position] = (0, 0)
    goal: ClassVar[Position] = (SIZE - 1, SIZE - 1)

    @cached_property
    def moves(self) -> Table:
        """A jump off the grid stays."""
        return [
            tuple(target(SIZE, SIZE, cell, action, digit) for action in MOVES) for cell, digit in enumerate(self.digits)
        ]

    @cached_property
    def board(self) -> np.ndarray:
        return np.array(self.digits, np.uint8).reshape(SIZE, SIZE) - np.uint8(1)


def make_level(seed: int) -> Level:
    """The level of a seed: the first that can be solved."""
    rng = random.Random(seed)
    for _ in range(MAX_TRIES):
        level = Level(tuple(rng.randint(1, MAX_DIGIT) for _ in range(N_CELLS)))
        if shortest_path(level.moves, cell_of(level.start), cell_of(level.goal)) is not None:
            return level
    raise ValueError(f"no solvable level in {MAX_TRIES:,} tries (seed {seed})")


@dataclass(frozen=True)
class DigitJump(GridWorld):
    """Jump to the goal. Labels: digit − 1, and 6 more where the agent is."""

    name = "digitjump"
    walk_stream = "dwmr.envs.digit_jump"
    sizes = {"train": 40_000, "val": 10_000, "test": 10_000}  # noqa: RUF012
    n_classes = 2 * MAX_DIGIT
    agent_labels = tuple(range(MAX_DIGIT, 2 * MAX_DIGIT))

    def level(self, seed: int) -> Level:
        return make_level(seed)

    def labels(self, state: GridState) -> np.ndarray:
        grid = state.level.board.copy()
        grid.flat[state.agent] += MAX_DIGIT
        return grid

    def tile_set(self) -> np.ndarray:
        return tiles.digit_jump()
