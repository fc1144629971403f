"""Sliding tiles: the 8-puzzle and its relatives of any size, with handwritten digits on the tiles.

A board is an integer array (rows, cols); 0 is the blank, which the actions move.
"""

import functools
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dwmr.errors import InputError
from dwmr.seeding import below, rng, shuffled
from dwmr.worlds.actions import MOVES, NAMES, neighbours
from dwmr.worlds.digits import Digits, load_digits
from dwmr.worlds.puzzle import odd
from dwmr.worlds.tasks import Task, distance
from dwmr.worlds.world import DigitWorld

TILE = 28
GUTTER = 1
MAX_CELLS = 100  # labels of more than two digits do not fit on a tile

_CHUNK = 1024  # frames drawn at once
_FAIR_DRAW = 12  # divisible by 2, 3 and 4, the possible numbers of moves


@dataclass(frozen=True)
class TileBoard(DigitWorld):
    """A world of sliding tiles: order them, the blank first. A state is the board, and so are its labels."""

    action_names = NAMES

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(rows, cols) of the board."""

    @property
    def n_classes(self) -> int:
        return goal_board(*self.shape).size

    @property
    def image_shape(self) -> tuple[int, int, int]:
        rows, cols = (GUTTER + cells * (TILE + GUTTER) for cells in self.shape)
        return 1, rows, cols

    def random_state(self, generator: np.random.Generator) -> np.ndarray:
        return random_board(generator, *self.shape)

    def step(self, state: np.ndarray, action: int) -> np.ndarray:
        return step(state, action)

    def solved(self, state: np.ndarray) -> bool:
        return np.array_equal(state, goal_board(*self.shape))

    def labels(self, state: np.ndarray) -> np.ndarray:
        return state.copy()

    def key(self, state: np.ndarray) -> bytes:
        return state.tobytes()

    def draw(self, labels: np.ndarray, generator: np.random.Generator, split: str = "train") -> np.ndarray:
        return draw(labels, load_digits(self.digits, split), generator)


@dataclass(frozen=True)
class SlidingTiles(TileBoard):
    """The puzzle in handwritten digits, drawn again in every frame.

    Args:
        size: a number, or (rows, cols).
    """

    size: int | Sequence[int] = 3

    name = "8puzzle"
    sizes = {"train": 30_000, "val": 6_000, "test": 6_000}  # noqa: RUF012
    task_kinds = ("pairs",)
    task_numbers = range(200)

    def __post_init__(self) -> None:
        goal_board(*self.shape)  # refuses impossible sizes

    @property
    def shape(self) -> tuple[int, int]:
        shape = tuple(self.size) if isinstance(self.size, Sequence) else (self.size, self.size)
        if len(shape) != 2:
            raise ValueError(f"size must be a number or (rows, cols), got {self.size}")
        return shape

    def reset(self, seed: int) -> np.ndarray:
        generator = rng(seed, "sliding tiles")
        board = self.random_state(generator)
        while self.solved(board):
            board = self.random_state(generator)
        return board

    def split_shape(self, split: str, count: int) -> tuple[int, int]:
        return 1, count

    def walk(self, seed: int, split: str, episodes: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Random walks from random solvable boards, by moves that change the board."""
        generator = rng(seed, f"{self.name} walk", split)
        walks = [random_walk(generator, self.random_state(generator), steps) for _ in range(episodes)]
        return np.stack([boards for boards, _ in walks]), np.stack([actions for _, actions in walks])

    def task(self, number: int, kind: str = "", seed: int = 0) -> Task:
        """Start and goal are drawn evenly among the pairs of different boards with a solution (3×3 only)."""
        if self.shape != (3, 3):
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
    end = neighbours(*board.shape)[blank][action]
    after = board.copy()
    after.flat[blank] = board.flat[end]
    after.flat[end] = 0
    return after


def solvable(board: np.ndarray, goal: np.ndarray) -> bool:
    """Whether moves lead from board to goal.

    Every move swaps two cells and moves the blank by one, so the permutation between the boards and the
    blank's distance are both even or both odd. From 2×2 on, nothing else stands in the way.
    """
    order = np.argsort(goal, axis=None)[board.ravel()]
    distance = np.abs(np.argwhere(board == 0) - np.argwhere(goal == 0)).sum()
    return odd(order.tolist()) == bool(distance % 2)


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
    board = shuffled(generator, rows * cols).astype(np.uint8).reshape(rows, cols)
    if not solvable(board, goal):
        # Swapping tiles 1 and 2 pairs each unsolvable board with a solvable one.
        one, two = board == 1, board == 2
        board[one], board[two] = 2, 1
    return board


def random_walk(generator: np.random.Generator, board: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Boards uint8 (steps + 1, rows, cols) and actions int64 (steps,) of a walk, uniform over valid moves."""
    boards, actions = [board.astype(np.uint8)], []
    for draw in below(generator, _FAIR_DRAW, steps).tolist():
        blank = int(boards[-1].argmin())
        valid = [action for action, end in enumerate(neighbours(*board.shape)[blank]) if end != blank]
        actions.append(valid[draw % len(valid)])
        boards.append(step(boards[-1], actions[-1]))
    return np.stack(boards), np.array(actions, np.int64)


def draw(boards: np.ndarray, digits: Digits, generator: np.random.Generator) -> np.ndarray:
    """Boards (N, rows, cols) as uint8 (N, 1, H, W), every tile of every frame in fresh handwriting."""
    count, rows, cols = boards.shape
    side = TILE + GUTTER
    images = np.zeros((count, 1, rows * side + GUTTER, cols * side + GUTTER), np.uint8)
    powers = 10 ** np.arange(1 if rows * cols <= 10 else 2)
    for start in range(0, count, _CHUNK):
        board = boards[start : start + _CHUNK]
        picks = digits.pick(board[..., None] // powers % 10, generator)
        tiles = digits.pictures[picks[..., 0]]
        two = board >= 10
        if two.any():
            tiles[two] = np.concatenate([_half(digits.pictures[picks[two, 1]]), _half(tiles[two])], axis=-1)
        tiles[board == 0] = 0
        framed = np.pad(tiles, ((0, 0), (0, 0), (0, 0), (GUTTER, 0), (GUTTER, 0))).swapaxes(2, 3)
        images[start : start + _CHUNK, 0, :-GUTTER, :-GUTTER] = framed.reshape(-1, rows * side, cols * side)
    return images


def _half(pictures: np.ndarray) -> np.ndarray:
    """Pictures at half their width, each column the mean of two (rounded down)."""
    return ((pictures[..., 0::2].astype(np.uint16) + pictures[..., 1::2]) // 2).astype(np.uint8)
