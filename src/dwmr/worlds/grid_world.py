"""What the puzzles with an agent on an 8×8 grid share: their state, and search over a table of moves.

A table of moves holds, for each of the 64 cells (counted row by row), the cell where each of the five actions
ends. A move that is blocked ends where it began.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

SIZE = 8
N_CELLS = SIZE * SIZE

Position = tuple[int, int]
Table = Sequence[Sequence[int]]
LevelT = TypeVar("LevelT")


@dataclass(frozen=True)
class GridState(Generic[LevelT]):
    """A level and the cell where the agent is."""

    level: LevelT
    agent: int


def cell_of(position: Position) -> int:
    """Cell number of (row, col)."""
    return position[0] * SIZE + position[1]


def shortest_path(table: Table, start: int, goal: int) -> tuple[int, ...] | None:
    """Fewest actions from start to goal, None if there is no way.

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


def predecessors(table: Table) -> list[list[int]]:
    """For each cell, the cells from which one action ends there."""
    before: list[list[int]] = [[] for _ in table]
    for cell, ends in enumerate(table):
        for end in ends:
            before[end].append(cell)
    return before
