"""DigitJump: jump exactly as many cells as the digit under the agent says, from the first cell to the last.

Levels are a function of the seed alone and agree with the public puzzlegen rules. Cells count row by row.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dwmr.worlds import tiles
from dwmr.worlds.actions import NOOP, target
from dwmr.worlds.grid_world import N_CELLS, SIZE, GridState, shortest_path

START, GOAL = 0, N_CELLS - 1
MAX_DIGIT = 6
N_CLASSES = 2 * MAX_DIGIT

MAX_TRIES = 1_000_000


@dataclass(frozen=True)
class Level:
    """The digits 1 to 6 of the 64 cells, row by row."""

    digits: tuple[int, ...]

    @property
    def digit_grid(self) -> np.ndarray:
        """uint8 (8, 8)."""
        return np.array(self.digits, np.uint8).reshape(SIZE, SIZE)


def make_level(seed: int) -> Level:
    """The level of a seed: the first that can be solved."""
    rng = random.Random(seed)
    for _ in range(MAX_TRIES):
        digits = tuple(rng.randint(1, MAX_DIGIT) for _ in range(N_CELLS))
        if shortest_path(_jumps(digits), START, GOAL) is not None:
            return Level(digits)
    raise ValueError(f"no solvable level in {MAX_TRIES:,} tries (seed {seed})")


def solve(level: Level) -> tuple[int, ...]:
    """A shortest solution, as actions; of several always the same one."""
    solution = shortest_path(_jumps(level.digits), START, GOAL)
    if solution is None:
        raise ValueError("the level has no solution")
    return solution


@functools.lru_cache(maxsize=4096)
def destinations(level: Level) -> np.ndarray:
    """int64 (64, 5), read-only: the cell where each action ends, so a step is ``table[agents, actions]``."""
    table = np.array(_jumps(level.digits), dtype=np.int64)
    table.flags.writeable = False
    return table


def labels(digits: np.ndarray, agents: np.ndarray) -> np.ndarray:
    """uint8 (N, 8, 8): digit − 1, and 6 more where the agent is.

    ``digits`` is (N, 8, 8), or (8, 8) for one level; ``agents`` are cells, (N,).
    """
    grid = np.empty((len(agents), SIZE, SIZE), np.uint8)
    grid[:] = digits
    grid -= 1
    grid.reshape(-1, N_CELLS)[np.arange(len(agents)), agents] += MAX_DIGIT
    return grid


def draw(labels: np.ndarray) -> np.ndarray:
    """Labels (N, 8, 8) as images, uint8 (N, 3, 64, 64)."""
    return tiles.paint(labels, tiles.digit_jump())


@dataclass(frozen=True)
class DigitJump:
    """The puzzle as `dwmr.worlds.gym_env` wants it."""

    n_classes = N_CLASSES
    observation_shape = (SIZE * tiles.SIDE, SIZE * tiles.SIDE, 3)

    def reset(self, seed: int) -> GridState[Level]:
        return GridState(make_level(seed), START)

    def step(self, state: GridState[Level], action: int) -> GridState[Level]:
        return replace(state, agent=int(destinations(state.level)[state.agent, action]))

    def solved(self, state: GridState[Level]) -> bool:
        return state.agent == GOAL

    def labels(self, state: GridState[Level]) -> np.ndarray:
        return labels(state.level.digit_grid, np.array([state.agent]))[0]

    def draw(self, state: GridState[Level], generator: np.random.Generator) -> np.ndarray:
        return draw(self.labels(state)[None])[0].transpose(1, 2, 0)


def _jumps(digits: Sequence[int]) -> list[tuple[int, ...]]:
    """Table of moves. A jump off the grid stays."""
    return [
        tuple(target(SIZE, SIZE, cell, action, digit) for action in range(NOOP + 1))
        for cell, digit in enumerate(digits)
    ]
