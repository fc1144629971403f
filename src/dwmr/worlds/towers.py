"""Worlds of towers, of which an action takes the top piece and puts it on another one: blocks, and discs on pegs."""

import itertools
import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dwmr.seeding import below, shuffled
from dwmr.worlds.puzzle import Puzzle
from dwmr.worlds.tiles import colours

BLOCK = 12  # pixels of a cell
DISC_ROW, PEG_COLUMN = 8, 24

_MAX_SMALL = 10_000  # states of a true graph
_BLOCKS = colours("d84038 426ed2 54b054 f2c43c 9650b4 f08cb4 5ac8d2")
_DISCS = colours("d63c32 f09628 ecd23c 50aa46 3cb4be 3c5ac8 8246aa dc6eaa 463c3c")


@dataclass(frozen=True)
class Towers(Puzzle):
    """Labels (pieces, columns): the towers from top to bottom, 0 where there is no piece, else its number.

    The actions are the pairs of columns to take the top piece from and to put it on.
    """

    @property
    @abstractmethod
    def columns(self) -> int: ...

    @cached_property
    def moves(self) -> list[tuple[int, int]]:
        return list(itertools.permutations(range(self.columns), 2))

    @property
    def action_names(self) -> tuple[str, ...]:
        return tuple(f"from-{one + 1}-to-{other + 1}" for one, other in self.moves)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        classes, channels, height, width = self.pictures.shape
        return channels, (classes - 1) * height, self.columns * width

    def grid(self, pieces: int, towers: Iterable[Sequence[int]]) -> np.ndarray:
        """The labels of towers, each from top to bottom."""
        grid = np.zeros((pieces, self.columns), np.uint8)
        for column, tower in enumerate(towers):
            grid[pieces - len(tower) :, column] = tower
        return grid


@dataclass(frozen=True)
class Blocks(Towers):
    """Stack all blocks in the first column, block 1 at the top. A state holds the blocks of each column, bottom first.

    Taking from an empty column changes nothing.

    Args:
        blocks: number of blocks, 2 to 7.
        columns: number of columns, 3 to 6.
    """

    blocks: int = 5
    columns: int = 4

    name = "blocks"
    allowed = {"blocks": range(2, 8), "columns": range(3, 7)}  # noqa: RUF012

    @property
    def small_levels(self) -> bool:
        orders, heights = math.factorial(self.blocks), math.comb(self.blocks + self.columns - 1, self.blocks)
        return orders * heights <= _MAX_SMALL

    def random_state(self, generator: np.random.Generator) -> tuple[tuple[int, ...], ...]:
        """The blocks and the borders between columns, in any order."""
        columns: list[list[int]] = [[]]
        for item in shuffled(generator, self.blocks + self.columns - 1).tolist():
            if item < self.blocks:
                columns[-1].append(item + 1)
            else:
                columns.append([])
        return tuple(map(tuple, columns))

    def step(self, state: tuple[tuple[int, ...], ...], action: int) -> tuple[tuple[int, ...], ...]:
        origin, end = self.moves[action]
        if not state[origin]:
            return state
        columns = list(state)
        columns[end] = (*state[end], state[origin][-1])
        columns[origin] = state[origin][:-1]
        return tuple(columns)

    def solved(self, state: tuple[tuple[int, ...], ...]) -> bool:
        return state[0] == tuple(range(self.blocks, 0, -1))

    def labels(self, state: tuple[tuple[int, ...], ...]) -> np.ndarray:
        return self.grid(self.blocks, [column[::-1] for column in state])

    def state_name(self, state: tuple[tuple[int, ...], ...]) -> str:
        return " | ".join(" ".join(map(str, column)) for column in state)

    @property
    def pictures(self) -> np.ndarray:
        """Nothing, and the blocks as squares with an edge."""
        pictures = np.full((self.blocks + 1, BLOCK, BLOCK, 3), (40, 40, 48), np.uint8)
        pictures[0] = (236, 238, 242)
        pictures[1:, 1:-1, 1:-1] = _BLOCKS[: self.blocks, None, None]
        return pictures.transpose(0, 3, 1, 2)


@dataclass(frozen=True)
class Hanoi(Towers):
    """Bring all discs to the last of three pegs. A state holds the peg of each disc, the smallest first.

    No disc goes onto a smaller one. Disc 1 is the smallest.

    Args:
        discs: number of discs, 2 to 9.
    """

    discs: int = 6

    name = "hanoi"
    allowed = {"discs": range(2, 10)}  # noqa: RUF012
    columns = 3
    small_levels = True

    def random_state(self, generator: np.random.Generator) -> tuple[int, ...]:
        return tuple(below(generator, self.columns, self.discs).tolist())

    def step(self, state: tuple[int, ...], action: int) -> tuple[int, ...]:
        origin, end = self.moves[action]
        for disc, peg in enumerate(state):
            if peg == origin:
                return (*state[:disc], end, *state[disc + 1 :])
            if peg == end:
                break  # a smaller disc is in the way
        return state

    def solved(self, state: tuple[int, ...]) -> bool:
        return set(state) == {self.columns - 1}

    def labels(self, state: tuple[int, ...]) -> np.ndarray:
        discs = list(enumerate(state, 1))
        return self.grid(self.discs, [[disc for disc, at in discs if at == peg] for peg in range(self.columns)])

    def state_name(self, state: tuple[int, ...]) -> str:
        return "pegs " + " ".join(str(peg + 1) for peg in state)

    @property
    def pictures(self) -> np.ndarray:
        """A piece of a peg, and the discs as bars."""
        pictures = np.full((self.discs + 1, DISC_ROW, PEG_COLUMN, 3), (250, 246, 236), np.uint8)
        middle = PEG_COLUMN // 2
        pictures[:, :, middle - 1 : middle + 1] = (120, 100, 90)
        for disc in range(1, self.discs + 1):
            half = 2 + disc * (middle - 3) // self.discs
            pictures[disc, 1:, middle - half : middle + half] = _DISCS[disc - 1]
        return pictures.transpose(0, 3, 1, 2)
