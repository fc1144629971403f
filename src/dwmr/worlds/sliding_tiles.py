"""Sliding tiles: the 8-puzzle and its relatives of any size, with handwritten digits on the tiles.

A board is an integer array (rows, cols); 0 is the blank, which the actions move.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dwmr.errors import InputError
from dwmr.seeding import below, rng, shuffled
from dwmr.worlds.actions import MOVES, NAMES, target
from dwmr.worlds.digits import Digits, load_digits
from dwmr.worlds.tasks import Task, distance
from dwmr.worlds.world import World

TILE = 28
GUTTER = 1
MAX_CELLS = 100  # labels of more than two digits do not fit on a tile

_CHUNK = 1024  # frames drawn at once
_FAIR_DRAW = 12  # divisible by 2, 3 and 4, the possible numbers of moves


@dataclass(frozen=True)
class SlidingTiles(World):
    """Order the tiles. The labels are the board.

    Args:
        size: a number, or (rows, cols).
        digits: source of the digits on the tiles, as `dwmr.worlds.digits.load_digits` takes it.
    """

    size: int | Sequence[int] = 3
    digits: str = "mnist"

    name = "8puzzle"
    action_names = NAMES
    sizes = {"train": 30_000, "val": 6_000, "test": 6_000}  # noqa: RUF012
    task_kinds = ("pairs",)
    task_numbers = range(200)

    def __post_init__(self) -> None:
        goal_board(*self._shape)  # refuses impossible sizes

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
    def image_shape(self) -> tuple[int, int, int]:
        rows, cols = (GUTTER + cells * (TILE + GUTTER) for cells in self._shape)
        return 1, rows, cols

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

    def key(self, state: np.ndarray) -> bytes:
        return state.tobytes()

    def draw(self, labels: np.ndarray, generator: np.random.Generator, split: str = "train") -> np.ndarray:
        return draw(labels, load_digits(self.digits, split), generator)

    def with_digits(self, source: str) -> World:
        return replace(self, digits=source)

    def drawing(self, split: str) -> dict[str, Any]:
        return {"digits": load_digits(self.digits, split).source}

    def split_shape(self, split: str, count: int) -> tuple[int, int]:
        return 1, count

    def walk(self, seed: int, split: str, episodes: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Random walks from random solvable boards, by moves that change the board."""
        generator = rng(seed, f"{self.name} walk", split)
        walks = [random_walk(generator, random_board(generator, *self._shape), steps) for _ in range(episodes)]
        return np.stack([boards for boards, _ in walks]), np.stack([actions for _, actions in walks])

    def task(self, number: int, kind: str = "", seed: int = 0) -> Task:
        """Start and goal are drawn evenly among the pairs of different boards with a solution (3×3 only)."""
        if self._shape != (3, 3):
            raise InputError(f"sliding tiles have planning tasks of size 3×3 only, got {self.size}")
        start, goal = _pairs(seed, max(number + 1, self.task_numbers.stop))[number]
        generator = rng(seed, "planning", f"{self.name} digits", number)
        return Task(f"pair {number}", self, start, goal, distance(self, start, goal), generator)


def goal_board(rows: int, cols: int) -> np.ndarray:
    """uint8 (rows, cols): the blank, then 1, 2, 3, …"""
    if rows < 2 or cols < 2 or rows * cols > MAX_CELLS:
        raise ValueError(f"expected at least 2×2 and at most {MAX_CELLS} cells, got {rows}×{cols}")
    return np.arange(rows * cols, dtype=np.uint8).reshape(rows, cols)


def step(board: np.ndarray, action: int) -> np.ndarray:
    """The board after one action; an illegal move changes nothing."""
    if action not in MOVES:
        raise ValueError(f"actions must lie between 0 and {len(MOVES) - 1}, got {action}")
    blank = int(board.argmin())
    end = _blank_moves(*board.shape)[blank, action]
    after = board.copy()
    after.flat[blank] = board.flat[end]
    after.flat[end] = 0
    return after


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


@functools.lru_cache(maxsize=4)
def _pairs(seed: int, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs of different solvable boards (3, 3)."""
    generator = rng(seed, "planning", "8puzzle boards")
    pairs = []
    for _ in range(count):
        start = goal = random_board(generator, 3, 3)
        while np.array_equal(start, goal):
            goal = random_board(generator, 3, 3)
        pairs.append((start, goal))
    return pairs


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
    for cell, ends in enumerate(_blank_moves(rows, cols).tolist()):
        ways = [(action, end) for action, end in enumerate(ends) if end != cell]
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


def draw(boards: np.ndarray, digits: Digits, generator: np.random.Generator) -> np.ndarray:
    """Boards (N, rows, cols) as uint8 (N, 1, H, W), every tile of every frame in fresh handwriting."""
    rows, cols = boards.shape[1:]
    images = np.zeros((len(boards), *SlidingTiles((rows, cols)).image_shape), np.uint8)
    places = 1 if rows * cols <= 10 else 2  # decimal places of the largest label
    first = np.cumsum([1, *digits.counts[:-1]])
    for start in range(0, len(boards), _CHUNK):
        part = slice(start, start + _CHUNK)
        figures = np.stack([boards[part] // 10**place % 10 for place in range(places)], axis=-1)
        picks = first[figures] + below(generator, digits.counts[figures], figures.shape)
        picks[boards[part] == 0] = 0  # the black picture
        for row, col in np.ndindex(rows, cols):
            tiles = digits.pictures[picks[:, row, col, 0]]
            if (two := boards[part, row, col] >= 10).any():
                tens = digits.pictures[picks[two, row, col, 1]]
                tiles[two] = np.concatenate([_half(tens), _half(tiles[two])], axis=-1)
            top, left = (GUTTER + index * (TILE + GUTTER) for index in (row, col))
            images[part, 0, top : top + TILE, left : left + TILE] = tiles
    return images


@functools.cache
def _blank_moves(rows: int, cols: int) -> np.ndarray:
    """int64 (cells, 4): where each move takes the blank."""
    return np.array([[target(rows, cols, cell, action) for action in MOVES] for cell in range(rows * cols)])


def _half(pictures: np.ndarray) -> np.ndarray:
    """Pictures at half their width, each column the mean of two (rounded down)."""
    return ((pictures[..., 0::2].astype(np.uint16) + pictures[..., 1::2]) // 2).astype(np.uint8)
