"""Worlds with an agent on an 8×8 grid, whose actions are a table of moves."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import ClassVar, NamedTuple

import numpy as np

from dwmr.seeding import rng
from dwmr.worlds import tiles
from dwmr.worlds.actions import NAMES
from dwmr.worlds.tasks import Task
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
        return shortest_path(self.moves, self.start, self.goal)


class GridState(NamedTuple):
    """A level and the cell where the agent is."""

    level: Level
    agent: int


@dataclass(frozen=True)
class GridWorld(World):
    """A world whose state is a `GridState`; subclasses define its levels, labels and tiles."""

    action_names = NAMES
    image_shape = (3, SIZE * tiles.SIDE, SIZE * tiles.SIDE)
    small_levels = True
    task_kinds: ClassVar[tuple[str, ...]] = ("levels",)

    @abstractmethod
    def level(self, seed: int) -> Level:
        """The level of a seed."""

    @abstractmethod
    def label_with_agent(self, label: int) -> int:
        """What the label of a cell becomes where the agent is."""

    @abstractmethod
    def tile_set(self) -> np.ndarray:
        """uint8 (classes, 8, 8, 3): the picture of each label."""

    def reset(self, seed: int) -> GridState:
        level = self.level(seed)
        return GridState(level, level.start)

    def step(self, state: GridState, action: int) -> GridState:
        return GridState(state.level, state.level.moves[state.agent][action])

    def solved(self, state: GridState) -> bool:
        return state.agent == state.level.goal

    def labels(self, state: GridState) -> np.ndarray:
        board = bytearray(state.level.board)
        board[state.agent] = self.label_with_agent(board[state.agent])
        return np.frombuffer(board, np.uint8).reshape(SIZE, SIZE)

    def _labels_along(self, start: GridState, actions: Sequence[int]) -> np.ndarray:
        level = start.level
        cells = list(accumulate(actions, lambda cell, action: level.moves[cell][action], initial=start.agent))
        boards = np.tile(np.frombuffer(level.board, np.uint8), (len(cells), 1))
        boards[np.arange(len(cells)), cells] = [self.label_with_agent(level.board[cell]) for cell in cells]
        return boards.reshape(-1, SIZE, SIZE)

    def draw(
        self, labels: np.ndarray, generator: np.random.Generator | None = None, split: str = "train"
    ) -> np.ndarray:
        return tiles.paint(labels, self.tile_set())

    def state_name(self, state: GridState) -> str:
        return f"row {state.agent // SIZE}, column {state.agent % SIZE}"

    def task(self, number: int, kind: str = "", seed: int = 0) -> Task:
        level = self.level(number)
        optimal = len(level.solution() or ())
        generator = rng(seed, "planning", self.name, number)
        return Task(
            f"level {number}", self, GridState(level, level.start), GridState(level, level.goal), optimal, generator
        )


def shortest_path(table: Table, start: int, goal: int) -> tuple[int, ...] | None:
    """Fewest actions from start to goal, None if the goal cannot be reached.

    Breadth first, first in first out, actions in order: of several shortest paths always the same one.
    """
    ways: dict[int, tuple[int, ...]] = {start: ()}
    queue = [start]
    for cell in queue:
        if cell == goal:
            return ways[cell]
        for action, end in enumerate(table[cell]):
            if end not in ways:
                ways[end] = (*ways[cell], action)
                queue.append(end)
    return None


def reachable(successors: Sequence[Iterable[int]], start: int) -> set[int]:
    """Every cell that can be reached from start, itself among them."""
    found = {start}
    queue = [start]
    for cell in queue:
        for end in successors[cell]:
            if end not in found:
                found.add(end)
                queue.append(end)
    return found
