"""IceSlider: on ice the agent slides until a rock or the edge stops it, and must stop on the goal.

Levels are a function of the seed alone and agree with the public puzzlegen rules. Cells count row by row.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dwmr.worlds import tiles
from dwmr.worlds.actions import DOWN, LEFT, NOOP, RIGHT, UP, target
from dwmr.worlds.grid_world import N_CELLS, SIZE, GridState, Position, cell_of, predecessors, reachable, shortest_path

ROCK, ICE, GOAL, AGENT = range(4)
N_CLASSES = 4

MAX_TRIES = 1_000_000

_NEIGHBOURS = [[target(SIZE, SIZE, cell, action) for cell in range(N_CELLS)] for action in range(NOOP)]


@dataclass(frozen=True)
class Level:
    """Where the rocks are (64 cells, row by row), and (row, col) of start and goal."""

    rocks: tuple[bool, ...]
    start: Position
    goal: Position

    @property
    def rock_grid(self) -> np.ndarray:
        """bool (8, 8)."""
        return np.array(self.rocks).reshape(SIZE, SIZE)


def make_level(seed: int, min_solution: int = 1, easy: bool = False) -> Level:
    """The level of a seed: longer to solve than ``min_solution`` moves and, unless ``easy``, with a trap.

    A trap is a cell where the agent can come to a stop and from which the goal cannot be reached any more.
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


def solve(level: Level) -> tuple[int, ...]:
    """A shortest solution, as actions; of several always the same one."""
    solution = shortest_path(_slides(level.rocks), cell_of(level.start), cell_of(level.goal))
    if solution is None:
        raise ValueError("the level has no solution")
    return solution


@functools.lru_cache(maxsize=4096)
def destinations(level: Level) -> np.ndarray:
    """int64 (64, 5), read-only: the cell where each action ends, so a step is ``table[agents, actions]``."""
    table = np.array(_slides(level.rocks), dtype=np.int64)
    table.flags.writeable = False
    return table


def labels(rocks: np.ndarray, agents: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """uint8 (N, 8, 8): rock 0, ice 1, goal 2, agent 3; the agent hides the goal.

    ``rocks`` is bool (N, 8, 8), or (8, 8) for one level; ``agents`` and ``goals`` are cells, (N,).
    """
    agents, goals = np.broadcast_arrays(agents, goals)
    grid = np.empty((len(agents), SIZE, SIZE), np.uint8)
    grid[:] = np.where(rocks, np.uint8(ROCK), np.uint8(ICE))
    cells = grid.reshape(-1, N_CELLS)
    frames = np.arange(len(cells))
    cells[frames, goals] = GOAL
    cells[frames, agents] = AGENT
    return grid


def draw(labels: np.ndarray) -> np.ndarray:
    """Labels (N, 8, 8) as images, uint8 (N, 3, 64, 64)."""
    return tiles.paint(labels, tiles.ice_slider())


@dataclass(frozen=True)
class IceSlider:
    """The puzzle as `dwmr.worlds.gym_env` wants it."""

    min_solution: int = 8
    easy: bool = False

    n_classes = N_CLASSES
    observation_shape = (SIZE * tiles.SIDE, SIZE * tiles.SIDE, 3)

    def reset(self, seed: int) -> GridState[Level]:
        level = make_level(seed, self.min_solution, self.easy)
        return GridState(level, cell_of(level.start))

    def step(self, state: GridState[Level], action: int) -> GridState[Level]:
        return replace(state, agent=int(destinations(state.level)[state.agent, action]))

    def solved(self, state: GridState[Level]) -> bool:
        return state.agent == cell_of(state.level.goal)

    def labels(self, state: GridState[Level]) -> np.ndarray:
        level = state.level
        return labels(level.rock_grid, np.array([state.agent]), np.array([cell_of(level.goal)]))[0]

    def draw(self, state: GridState[Level], generator: np.random.Generator) -> np.ndarray:
        return draw(self.labels(state)[None])[0].transpose(1, 2, 0)


def _slides(rocks: Sequence[bool]) -> list[tuple[int, ...]]:
    """Table of moves. A slide from a cell ends where the slide from the next free cell ends."""
    ends = [list(range(N_CELLS)) for _ in range(NOOP + 1)]
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


def _has_trap(table: Sequence[Sequence[int]], start: int, goal: int) -> bool:
    return not reachable(table, start) <= reachable(predecessors(table), goal)
