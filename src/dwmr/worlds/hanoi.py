"""Towers of Hanoi: move the discs from peg to peg, never a larger one onto a smaller one."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from dwmr.seeding import below
from dwmr.worlds.puzzle import Puzzle
from dwmr.worlds.tiles import colours

PEGS = 3
ROW, COLUMN = 8, 24  # pixels of a cell

_MOVES = tuple(itertools.permutations(range(PEGS), 2))
_BACKGROUND, _PEG = (250, 246, 236), (120, 100, 90)
_COLOURS = colours("d63c32 f09628 ecd23c 50aa46 3cb4be 3c5ac8 8246aa dc6eaa 463c3c")


@dataclass(frozen=True)
class Hanoi(Puzzle):
    """Bring all discs to the last peg. A state holds the peg of each disc, the smallest first.

    Labels (discs, 3): the column of a peg from top to bottom, 0 where it is free, else the number of the disc there;
    1 is the smallest. The six actions are the pairs of pegs to take the top disc from and to put it on.

    Args:
        discs: number of discs, 2 to 9.
    """

    discs: int = 6

    name = "hanoi"
    allowed = {"discs": range(2, 10)}  # noqa: RUF012
    action_names = tuple(f"from-{one + 1}-to-{other + 1}" for one, other in _MOVES)
    small_levels = True

    @property
    def image_shape(self) -> tuple[int, int, int]:
        return 3, self.discs * ROW, PEGS * COLUMN

    def random_state(self, generator: np.random.Generator) -> tuple[int, ...]:
        return tuple(below(generator, PEGS, self.discs).tolist())

    def step(self, state: tuple[int, ...], action: int) -> tuple[int, ...]:
        origin, end = _MOVES[action]
        for disc, peg in enumerate(state):
            if peg == origin:
                return (*state[:disc], end, *state[disc + 1 :])
            if peg == end:
                break  # a smaller disc is in the way
        return state

    def solved(self, state: tuple[int, ...]) -> bool:
        return set(state) == {PEGS - 1}

    def labels(self, state: tuple[int, ...]) -> np.ndarray:
        grid = np.zeros((self.discs, PEGS), np.uint8)
        free = [self.discs - 1] * PEGS
        for disc in range(self.discs, 0, -1):
            peg = state[disc - 1]
            grid[free[peg], peg] = disc
            free[peg] -= 1
        return grid

    def state_name(self, state: tuple[int, ...]) -> str:
        return "pegs " + " ".join(str(peg + 1) for peg in state)

    @property
    def pictures(self) -> np.ndarray:
        """A piece of a peg, and the discs as bars."""
        pictures = np.full((self.discs + 1, ROW, COLUMN, 3), _BACKGROUND, np.uint8)
        middle = COLUMN // 2
        pictures[:, :, middle - 1 : middle + 1] = _PEG
        for disc in range(1, self.discs + 1):
            half = 2 + disc * (middle - 3) // self.discs
            pictures[disc, 1:, middle - half : middle + half] = _COLOURS[disc - 1]
        return pictures.transpose(0, 3, 1, 2)
