"""Worlds small enough to know by heart, as dynamics: a state is a number, and a table says where actions lead."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor

from dwmr.planning.benchmark import TrueDynamics
from dwmr.worlds.sliding_tiles import SlidingTiles
from dwmr.worlds.tasks import StateNumbers, Task


class Graph:
    """States 0 to n − 1 with the table (n, actions) of where actions lead; −1: not possible. ``width`` words hold one
    state, so that codes of more than 64 bits are tried too."""

    def __init__(self, table: np.ndarray, width: int = 1) -> None:
        self.table, self.width = torch.tensor(np.array(table)), width

    @property
    def n_actions(self) -> int:
        return self.table.shape[1]

    def words(self, states: list[int]) -> Tensor:
        """States as codes; the last word tells them apart, the others are alike."""
        codes = torch.full((len(states), self.width), -1)
        codes[:, -1] = torch.tensor(states)
        return codes

    def successors(self, words: Tensor) -> tuple[Tensor, Tensor | None]:
        ends = self.table[words[:, -1]]
        children = torch.full((*ends.shape, self.width), -1)
        children[..., -1] = ends
        return children, ends >= 0


def distances(table: np.ndarray, start: int) -> dict[int, int]:
    """Fewest actions to every state that can be reached, by plain breadth-first search."""
    found = {start: 0}
    queue = [start]
    for state in queue:
        for end in table[state].tolist():
            if end >= 0 and end not in found:
                found[end] = found[state] + 1
                queue.append(end)
    return found


def tile_dynamics(rows: int = 3, cols: int = 3) -> TrueDynamics:
    """The true rules of sliding tiles."""
    return TrueDynamics(_tile_rules((rows, cols)), 4)


def tile_codes(board: np.ndarray) -> Tensor:
    """The code (1, 1) of a board for `tile_dynamics`."""
    return torch.tensor([[_tile_rules(board.shape).number(board)]])


@cache
def _tile_rules(shape: tuple[int, int]) -> StateNumbers:
    return StateNumbers(SlidingTiles(shape))


def true_code(task: Task, state: object) -> Tensor:
    """The code (1, 1) of a task's state for `true_agent`."""
    return torch.tensor([[task.rules.number(state)]])
