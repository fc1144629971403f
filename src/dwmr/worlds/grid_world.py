"""Worlds with an agent on an 8×8 grid, whose actions are a table of moves."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from dwmr.worlds import tiles
from dwmr.worlds.actions import NAMES
from dwmr.worlds.tasks import breadth_first
from dwmr.worlds.world import World

SIZE = 8
N_CELLS = SIZE * SIZE

Table = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Level:
    """A level never changes. Its 64 cells count row by row.

    board  the label of each cell without the agent
    start  the cell where the agent begins
    moves  for each cell, the cell where each action ends; a blocked move ends where it began
    """

    board: bytes
    start: int
    goal: int
    moves: Table = field(compare=False, repr=False)

    def solution(self) -> tuple[int, ...] | None:
        """The fewest actions from the start to the goal, None if it cannot be reached."""
        ways = breadth_first(self.start, self.moves.__getitem__)
        return next((way for cell, way in ways if cell == self.goal), None)


class GridState(NamedTuple):
    """A level and the cell where the agent is."""

    level: Level
    agent: int


@dataclass(frozen=True)
class GridWorld(World):
    """A world whose state is a `GridState`.

    Attributes:
        with_agent: what the label of a cell becomes where the agent is.
    """

    with_agent: ClassVar[Sequence[int]]
    action_names = NAMES
    image_shape = (3, SIZE * tiles.SIDE, SIZE * tiles.SIDE)
    small_levels = True

    @abstractmethod
    def level(self, seed: int) -> Level:
        """The level of a seed."""

    def reset(self, seed: int) -> GridState:
        level = self.level(seed)
        return GridState(level, level.start)

    def step(self, state: GridState, action: int) -> GridState:
        return GridState(state.level, state.level.moves[state.agent][action])

    def solved(self, state: GridState) -> bool:
        return state.agent == state.level.goal

    def labels(self, state: GridState) -> np.ndarray:
        board = bytearray(state.level.board)
        board[state.agent] = self.with_agent[board[state.agent]]
        return np.frombuffer(board, np.uint8).reshape(SIZE, SIZE)

    def state_name(self, state: GridState) -> str:
        return f"row {state.agent // SIZE}, column {state.agent % SIZE}"


def reachable(successors: Sequence[Iterable[int]], start: int) -> set[int]:
    """Every cell that can be reached from start, itself among them."""
    return {cell for cell, _ in breadth_first(start, successors.__getitem__)}
