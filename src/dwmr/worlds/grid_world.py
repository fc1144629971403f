"""Worlds with an agent on an 8×8 grid, whose actions are a table of moves."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from dwmr.seeding import rng
from dwmr.worlds import tiles
from dwmr.worlds.actions import NAMES
from dwmr.worlds.tasks import Task
from dwmr.worlds.world import World

SIZE = 8
N_CELLS = SIZE * SIZE
MAX_TRIES = 1_000_000

Position = tuple[int, int]
Table = Sequence[Sequence[int]]


class Level(Protocol):
    """A level never changes. Cells count row by row."""

    @property
    def start(self) -> Position:
        """(row, col) where the agent begins."""

    @property
    def goal(self) -> Position: ...

    @property
    def moves(self) -> Table:
        """For each of the 64 cells, the cell where each action ends. A blocked move ends where it began."""

    @property
    def board(self) -> np.ndarray:
        """uint8 (8, 8), read-only: the labels without the agent."""


@dataclass(frozen=True, order=True)
class GridState:
    """A level and the cell where the agent is."""

    level: Any
    agent: int


@dataclass(frozen=True)
class GridWorld(World):
    """A world whose state is a `GridState`; subclasses define its levels, labels and tiles."""

    action_names = NAMES
    image_shape = (3, SIZE * tiles.SIDE, SIZE * tiles.SIDE)
    small_levels = True
    task_kinds: ClassVar[tuple[str, ...]] = ("levels",)

    @abstractmethod
    def level(self, seed: int) -> Any:
        """The `Level` of a seed."""

    @abstractmethod
    def tile_set(self) -> np.ndarray:
        """uint8 (classes, 8, 8, 3): the picture of each label."""

    def reset(self, seed: int) -> GridState:
        level = self.level(seed)
        return GridState(level, cell_of(level.start))

    def step(self, state: GridState, action: int) -> GridState:
        return GridState(state.level, state.level.moves[state.agent][action])

    def solved(self, state: GridState) -> bool:
        return state.agent == cell_of(state.level.goal)

    def draw(
        self, labels: np.ndarray, generator: np.random.Generator | None = None, split: str = "train"
    ) -> np.ndarray:
        return tiles.paint(labels, self.tile_set())

    def state_name(self, state: GridState) -> str:
        return f"row {state.agent // SIZE}, column {state.agent % SIZE}"

    def task(self, number: int, kind: str = "", seed: int = 0) -> Task:
        level = self.level(number)
        start, goal = (GridState(level, cell_of(position)) for position in (level.start, level.goal))
        generator = rng(seed, "planning", self.name, number)
        return Task(f"level {number}", self, start, goal, len(solve(level)), generator)


def cell_of(position: Position) -> int:
    """Cell number of (row, col)."""
    return position[0] * SIZE + position[1]


def solve(level: Level) -> tuple[int, ...]:
    """A shortest solution, as actions; of several always the same one."""
    solution = shortest_path(level.moves, cell_of(level.start), cell_of(level.goal))
    if solution is None:
        raise ValueError("the level has no solution")
    return solution


def shortest_path(table: Table, start: int, goal: int) -> tuple[int, ...] | None:
    """Fewest actions from start to goal, None if the goal cannot be reached.

    Breadth first, first in first out, actions in order: of several shortest paths always the same one.
    """
    came_from: dict[int, tuple[int, int]] = {start: (start, -1)}
    queue = [start]
    for cell in queue:
        if cell == goal:
            break
        for action, end in enumerate(table[cell]):
            if end not in came_from:
                came_from[end] = (cell, action)
                queue.append(end)
    if goal not in came_from:
        return None
    path = []
    cell = goal
    while cell != start:
        cell, action = came_from[cell]
        path.append(action)
    return tuple(reversed(path))


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
