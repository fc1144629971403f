"""IceSlider: on ice the agent slides until a rock or the edge stops it, and must stop on the goal.

Levels are a function of the seed alone and agree with the public puzzlegen rules. Cells count row by row.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dwmr.seeding import rng
from dwmr.worlds import tiles
from dwmr.worlds.actions import DOWN, LEFT, MOVES, RIGHT, UP, target
from dwmr.worlds.grid_world import (
    MAX_TRIES,
    N_CELLS,
    SIZE,
    GridState,
    GridWorld,
    Position,
    Table,
    cell_of,
    reachable,
    shortest_path,
)
from dwmr.worlds.tasks import Task

ROCK, ICE, GOAL, AGENT = range(4)
N_CLASSES = 4

_NEIGHBOURS = [[target(SIZE, SIZE, cell, action) for cell in range(N_CELLS)] for action in MOVES]


@dataclass(frozen=True)
class Level:
    """Where the rocks are (64 cells, row by row), and (row, col) of start and goal."""

    rocks: tuple[bool, ...]
    start: Position
    goal: Position

    @cached_property
    def moves(self) -> Table:
        return _slides(self.rocks)

    @cached_property
    def board(self) -> np.ndarray:
        board = np.where(self.rocks, np.uint8(ROCK), np.uint8(ICE)).reshape(SIZE, SIZE)
        board[self.goal] = GOAL
        return board


def make_level(seed: int, min_solution: int = 1, easy: bool = False) -> Level:
    """The level of a seed: longer to solve than ``min_solution`` moves and, unless ``easy``, with a trap.

    A trap is a cell where the agent can come to a stop and from which the goal can no longer be reached.
    """
    rng = random.Random(seed)
    for _ in range(MAX_TRIES):
        start = (0, rng.randint(0, SIZE - 1))
        goal = (SIZE - 1, rng.randint(0, SIZE - 1))
        rocks = [rng.randint(0, 4) == 0 for _ in range(N_CELLS)]
        rocks[cell_of(start)] = rocks[cell_of(goal)] = False
        table = _slides(rocks)
        solution = shortest_path(table, cell_of(start), cell_of(goal))
        if solution is None or len(solution) <= min_solution:
            continue
        if easy or _has_trap(table, cell_of(start), cell_of(goal)):
            return Level(tuple(rocks), start, goal)
    raise ValueError(f"no level with a solution longer than {min_solution} moves in {MAX_TRIES:,} tries (seed {seed})")


@dataclass(frozen=True)
class IceSlider(GridWorld):
    """Slide to the goal.

    Labels: rock 0, ice 1, goal 2, agent 3; the agent hides the goal.

    Args:
        min_solution: levels take more moves than this.
        easy: also accept levels without a trap.
    """

    min_solution: int = 8
    easy: bool = False

    name = "iceslider"
    walk_stream = "dwmr.envs.ice_slider"
    sizes = {"train": 40_000, "val": 10_000, "test": 10_000}  # noqa: RUF012
    n_classes = N_CLASSES
    agent_labels = (AGENT,)
    task_kinds = ("min_solution_8", "min_solution_1")

    def level(self, seed: int) -> Level:
        return make_level(seed, self.min_solution, self.easy)

    def labels(self, state: GridState) -> np.ndarray:
        grid = state.level.board.copy()
        grid.flat[state.agent] = AGENT
        return grid

    def tile_set(self) -> np.ndarray:
        return tiles.ice_slider()

    def task(self, number: int, kind: str = "", seed: int = 0) -> Task:
        longer_than = int((kind or self.task_kinds[0]).removeprefix("min_solution_"))
        task = super(IceSlider, replace(self, min_solution=longer_than)).task(number, kind, seed)
        return replace(
            task,
            name=f"level {number}, longer than {longer_than}",
            generator=rng(seed, "planning", self.name, number, longer_than),
        )


def _slides(rocks: Sequence[bool]) -> list[tuple[int, ...]]:
    """Table of moves. A slide from a cell ends where the slide from the next free cell ends."""
    ends = [list(range(N_CELLS)) for _ in MOVES]
    for action, cells in (
        (UP, range(N_CELLS)),
        (RIGHT, range(N_CELLS - 1, -1, -1)),
        (LEFT, range(N_CELLS)),
        (DOWN, range(N_CELLS - 1, -1, -1)),
    ):
        end, neighbours = ends[action], _NEIGHBOURS[action]
        for cell in cells:
            neighbour = neighbours[cell]
            if not rocks[neighbour]:
                end[cell] = end[neighbour]
    return list(zip(*ends))


def _has_trap(table: Table, start: int, goal: int) -> bool:
    before: list[list[int]] = [[] for _ in table]
    for cell, ends in enumerate(table):
        for end in ends:
            before[end].append(cell)
    return not reachable(table, start) <= reachable(before, goal)
