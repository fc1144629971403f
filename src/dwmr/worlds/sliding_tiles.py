"""Sliding tiles: the 8-puzzle and its relatives of any size, with handwritten digits on the tiles.

A board is an integer array (rows, cols); 0 is the blank, which the actions move.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dwmr.seeding import below, rng, shuffled
from dwmr.worlds.actions import MOVES, NOOP, target

if TYPE_CHECKING:
    from dwmr.worlds.digits import Digits

TILE = 28
GUTTER = 1
MAX_CELLS = 100  # labels of more than two digits do not fit on a tile

_CHUNK = 2048  # frames drawn at once
_FAIR_DRAW = 12  # divisible by 2, 3 and 4, the numbers of moves a blank can have


def goal_board(rows: int, cols: int) -> np.ndarray:
    """uint8 (rows, cols): the blank, then 1, 2, 3, …"""
    if rows < 2 or cols < 2 or rows * cols > MAX_CELLS:
        raise ValueError(f"expected at least 2×2 and at most {MAX_CELLS} cells, got {rows}×{cols}")
    return np.arange(rows * cols, dtype=np.uint8).reshape(rows, cols)


def step(board: np.ndarray, action: int) -> np.ndarray:
    """The board after one action; an illegal move changes nothing."""
    return step_batch(board[None], np.array([action]))[0]


def step_batch(boards: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Boards (N, rows, cols) after one action each (N,)."""
    actions = np.asarray(actions)
    outside = (actions < 0) | (actions > NOOP)
    if outside.any():
        raise ValueError(f"actions must lie between 0 and {NOOP}, got {actions[outside][0]}")
    n, rows, cols = boards.shape
    after = boards.reshape(n, rows * cols).copy()
    frames = np.arange(n)
    blanks = np.argmin(after, axis=1)
    ends = _blank_moves(rows, cols)[blanks, actions]
    after[frames, blanks] = after[frames, ends]
    after[frames, ends] = 0
    return after.reshape(boards.shape)


def valid_actions(board: np.ndarray) -> tuple[int, ...]:
    """The moves that change the board."""
    rows, cols = board.shape
    blank = int(np.argmin(board))
    return tuple(action for action in MOVES if target(rows, cols, blank, action) != blank)


def solvable(board: np.ndarray, goal: np.ndarray) -> bool:
    """Whether moves lead from board to goal.

    Every move swaps two cells and moves the blank by one, so the permutation between the boards and the
    blank's distance are both even or both odd. From 2×2 on, nothing else stands in the way.
    """
    for name, given in (("board", board), ("goal", goal)):
        if given.shape != goal.shape or not np.array_equal(np.sort(given, axis=None), np.arange(goal.size)):
            raise ValueError(f"{name} must hold 0 to {goal.size - 1} once each, shape {goal.shape}; got {given}")
    order = np.argsort(goal, axis=None)[board.reshape(-1)]
    swaps = np.triu(order[:, None] > order).sum()
    distance = np.abs(np.argwhere(board == 0) - np.argwhere(goal == 0)).sum()
    return bool((swaps + distance) % 2 == 0)


def random_board(generator: np.random.Generator, rows: int, cols: int) -> np.ndarray:
    """uint8 (rows, cols), uniform among the boards from which the goal can be reached."""
    goal = goal_board(rows, cols)
    board = shuffled(generator, rows * cols).astype(np.uint8)
    if not solvable(board.reshape(rows, cols), goal):
        # Swapping tiles 1 and 2 pairs each unsolvable board with a solvable one.
        one, two = np.flatnonzero(board == 1), np.flatnonzero(board == 2)
        board[one], board[two] = 2, 1
    return board.reshape(rows, cols)


def random_walk(generator: np.random.Generator, board: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Boards uint8 (steps + 1, rows, cols) and actions int64 (steps,) of a walk, uniform over valid moves."""
    rows, cols = board.shape
    choices = []
    for cell in range(rows * cols):
        ways = [(action, target(rows, cols, cell, action)) for action in MOVES]
        ways = [(action, end) for action, end in ways if end != cell]
        choices.append(ways * (_FAIR_DRAW // len(ways)))
    tiles = bytearray(board.astype(np.uint8).tobytes())
    blank = tiles.index(0)
    boards, actions = bytearray(tiles), []
    for draw in below(generator, _FAIR_DRAW, steps).tolist():
        action, end = choices[blank][draw]
        tiles[blank], tiles[end] = tiles[end], 0
        blank = end
        boards += tiles
        actions.append(action)
    return np.frombuffer(boards, np.uint8).reshape(steps + 1, rows, cols), np.array(actions, np.int64)


def image_shape(rows: int, cols: int) -> tuple[int, int]:
    """Height and width in pixels."""
    return rows * (TILE + GUTTER) + GUTTER, cols * (TILE + GUTTER) + GUTTER


def draw(boards: np.ndarray, digits: Digits, generator: np.random.Generator) -> np.ndarray:
    """Boards (N, rows, cols) as uint8 (N, 1, H, W), every tile of every frame in fresh handwriting."""
    n, rows, cols = boards.shape
    images = np.zeros((n, 1, *image_shape(rows, cols)), np.uint8)
    for first in range(0, n, _CHUNK):
        part = slice(first, first + _CHUNK)
        _draw_chunk(boards[part], digits, generator, images[part, 0])
    return images


@dataclass(frozen=True)
class SlidingTiles:
    """The puzzle as `dwmr.worlds.gym_env` wants it; ``size`` is a number or (rows, cols)."""

    size: int | Sequence[int] = 3
    digits: str = "mnist"

    def __post_init__(self) -> None:
        # Wrong sizes and missing digits show up when the puzzle is made, not in its first frame.
        goal_board(*self._shape)
        _training_digits(self.digits)

    @property
    def _shape(self) -> tuple[int, int]:
        shape = tuple(self.size) if isinstance(self.size, Sequence) else (self.size, self.size)
        if len(shape) != 2:
            raise ValueError(f"size must be a number or (rows, cols), got {self.size}")
        return shape

    @property
    def n_classes(self) -> int:
        rows, cols = self._shape
        return rows * cols

    @property
    def observation_shape(self) -> tuple[int, int, int]:
        return (*image_shape(*self._shape), 1)

    def reset(self, seed: int) -> np.ndarray:
        generator = rng(seed, "sliding tiles")
        board = random_board(generator, *self._shape)
        while self.solved(board):
            board = random_board(generator, *self._shape)
        return board

    def step(self, state: np.ndarray, action: int) -> np.ndarray:
        return step(state, action)

    def solved(self, state: np.ndarray) -> bool:
        return np.array_equal(state, goal_board(*self._shape))

    def labels(self, state: np.ndarray) -> np.ndarray:
        return state.copy()

    def draw(self, state: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        return draw(state[None], _training_digits(self.digits), generator)[0].transpose(1, 2, 0)


@functools.cache
def _blank_moves(rows: int, cols: int) -> np.ndarray:
    """int64 (cells, 5): where each action takes the blank."""
    return np.array([[target(rows, cols, cell, a) for a in range(NOOP + 1)] for cell in range(rows * cols)])


@functools.cache
def _training_digits(source: str) -> Digits:
    from dwmr.worlds.digits import load_digits

    return load_digits(source, split="train")


def _draw_chunk(boards: np.ndarray, digits: Digits, generator: np.random.Generator, images: np.ndarray) -> None:
    """Draw boards (n, rows, cols) into black images (n, H, W)."""
    rows, cols = boards.shape[1:]
    places = 1 if rows * cols <= 10 else 2  # decimal places of the largest label
    figures = np.stack([boards // 10**place % 10 for place in range(places)], axis=-1)
    counts = np.array([len(pictures) for pictures in digits.by_label])
    picks = below(generator, counts[figures], figures.shape)
    for row, col in np.ndindex(rows, cols):
        top, left = (GUTTER + index * (TILE + GUTTER) for index in (row, col))
        for label in np.unique(boards[:, row, col]):
            if label == 0:
                continue
            frames = np.flatnonzero(boards[:, row, col] == label)
            pictures = [
                digits.by_label[label // 10**place % 10][picks[frames, row, col, place]]
                for place in range(1 if label < 10 else 2)
            ]
            tile = pictures[0] if label < 10 else np.concatenate([_half(p) for p in reversed(pictures)], axis=-1)
            images[frames, top : top + TILE, left : left + TILE] = tile


def _half(pictures: np.ndarray) -> np.ndarray:
    """Pictures at half their width, each column the mean of two (rounded down)."""
    return ((pictures[..., 0::2].astype(np.uint16) + pictures[..., 1::2]) // 2).astype(np.uint8)
