"""The true rules as dynamics: what a planner finds with them is what a perfect model would have given.

A code is the state itself, packed: a cell's number, or four bits for each tile.
"""

from __future__ import annotations

import functools

import numpy as np
import torch
from torch import Tensor

from dwmr.worlds import sliding_tiles
from dwmr.worlds.actions import MOVES, target

N_ACTIONS = len(MOVES)
_TILE_BITS = 4


class TableDynamics:
    """An agent on a grid: the table (cells, actions) says where it goes. A code (1 word) is the agent's cell."""

    n_actions = N_ACTIONS

    def __init__(self, table: np.ndarray, device: torch.device | str = "cpu") -> None:
        self._table = torch.tensor(np.array(table[:, :N_ACTIONS]), device=device)

    def successors(self, words: Tensor) -> tuple[Tensor, Tensor | None]:
        return self._table[words[:, 0]].unsqueeze(-1), None


class TileDynamics:
    """Sliding tiles of up to 16 cells: a code (1 word) holds four bits a cell. Only valid moves are possible."""

    n_actions = N_ACTIONS

    def __init__(self, rows: int = 3, cols: int = 3, device: torch.device | str = "cpu") -> None:
        order, possible = _swaps(rows, cols)
        self._order = torch.tensor(order, device=device)
        self._possible = torch.tensor(possible, device=device)
        self._shifts = _TILE_BITS * torch.arange(rows * cols, device=device)

    def successors(self, words: Tensor) -> tuple[Tensor, Tensor | None]:
        tiles = (words >> self._shifts) & (2**_TILE_BITS - 1)
        blank = tiles.argmin(1)
        moved = tiles.unsqueeze(1).expand(-1, self.n_actions, -1).gather(2, self._order[blank])
        return (moved << self._shifts).sum(-1, keepdim=True), self._possible[blank]


def pack_boards(boards: np.ndarray) -> Tensor:
    """Boards (N, rows, cols) of up to 16 cells as codes (N, 1)."""
    tiles = torch.from_numpy(boards.reshape(len(boards), -1).astype(np.int64))
    return (tiles << (_TILE_BITS * torch.arange(tiles.shape[1]))).sum(1, keepdim=True)


def _swaps(rows: int, cols: int) -> tuple[np.ndarray, np.ndarray]:
    """For each cell of the blank and each action: which cell's tile each cell has afterwards, and if it is valid."""
    cells = rows * cols
    order = np.tile(np.arange(cells), (cells, N_ACTIONS, 1))
    possible = np.zeros((cells, N_ACTIONS), bool)
    for blank in range(cells):
        for action in MOVES:
            end = target(rows, cols, blank, action)
            order[blank, action, [blank, end]] = [end, blank]
            possible[blank, action] = end != blank
    return order, possible


def fewest_moves(start: np.ndarray, goal: np.ndarray) -> int:
    """Length of a shortest solution of the 8-puzzle from one board (3, 3) to another.

    Tiles are renamed so that the goal is the solved board with its blank at the same cell; for each of these nine
    goals the distances of all boards are worked out once.
    """
    if not sliding_tiles.solvable(start, goal):
        raise ValueError("no moves lead from the start to the goal")
    blank = int(np.argmin(goal))
    names = np.zeros(9, np.uint8)
    names[np.delete(goal.ravel(), blank)] = np.arange(1, 9)
    codes, moves = _all_distances(blank)
    return int(moves[np.searchsorted(codes, _number(names[start.ravel()][None]))[0]])


@functools.cache
def _all_distances(blank: int) -> tuple[np.ndarray, np.ndarray]:
    """Every board's number, rising, and its distance to the board 1 to 8 with the blank at the given cell."""
    layer = np.insert(np.arange(1, 9, dtype=np.uint8), blank, 0).reshape(1, 3, 3)
    codes, moves = _number(layer), np.zeros(1, np.int64)
    previous = codes
    current = codes
    for distance in range(1, 64):
        ends = np.concatenate([sliding_tiles.step_batch(layer, np.full(len(layer), move)) for move in MOVES])
        numbers, first = np.unique(_number(ends), return_index=True)
        # A move leads one layer up or down, or, blocked, nowhere.
        fresh = ~np.isin(numbers, previous) & ~np.isin(numbers, current)
        layer, previous, current = ends[first[fresh]], current, numbers[fresh]
        if not len(layer):
            break
        codes, moves = np.append(codes, current), np.append(moves, np.full(len(current), distance))
    order = np.argsort(codes)
    return codes[order], moves[order]


def _number(boards: np.ndarray) -> np.ndarray:
    """A number for each board (N, …) of nine cells, int64 (N,)."""
    return boards.reshape(len(boards), -1).astype(np.int64) @ 9 ** np.arange(9)
