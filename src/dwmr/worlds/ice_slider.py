"""IceSlider: on ice the agent slides until a rock or the edge stops it, and must stop on the goal.

Levels are a function of the seed alone and agree with the public puzzlegen rules. Cells count row by row.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dwmr.seeding import rng
from dwmr.worlds import tiles
from dwmr.worlds.actions import DOWN, LEFT, MOVES, RIGHT, UP, target
from dwmr.worlds.grid_world import N_CELLS, SIZE, GridWorld, Level, Table, reachable
from dwmr.worlds.tasks import Task

ROCK, ICE, GOAL, AGENT = range(4)
MAX_TRIES = 1_000_000

_NEIGHBOURS = [[target(SIZE, SIZE, cell, action) for cell in range(N_CELLS)] for action in MOVES]


def make_level(seed: int, min_solution: int = 1) -> Level:
    """The level of a seed: longer to solve than ``min_solution`` moves, and with a trap.

    A trap is a cell where the agent can come to a stop and from which the goal can no longer be reached.
    """
    dice = random.Random(seed)
    for _ in range(MAX_TRIES):
        start = dice.randrange(SIZE)
        goal = N_CELLS - SIZE + dice.randrange(SIZE)
        rocks = [dice.randrange(5) == 0 for _ in range(N_CELLS)]
        rocks[start] = rocks[goal] = False
        level = build_level(rocks, start, goal)
        solution = level.solution()
        if solution is not None and len(solution) > min_solution and _has_trap(level):
            return level
    raise ValueError(f"no level with a solution longer than {min_solution} moves in {MAX_TRIES:,} tries (seed {seed})")


def build_level(rocks: Sequence[bool], start: int, goal: int) -> Level:
    """The level with rocks in some of its 64 cells."""
    board = bytearray(ROCK if rock else ICE for rock in rocks)
    board[goal] = GOAL
    return Level(bytes(board), start, goal, _slides(rocks))


@dataclass(frozen=True)
class IceSlider(GridWorld):
    """Slide to the goal. Labels: rock 0, ice 1, goal 2, agent 3; the agent hides the goal.

    Args:
        min_solution: levels take more moves than this.
    """

    min_solution: int = 8

    name = "iceslider"
    walk_stream = "dwmr.envs.ice_slider"
    sizes = {"train": 40_000, "val": 10_000, "test": 10_000}  # noqa: RUF012
    n_classes = 4
    task_kinds = ("min_solution_8", "min_solution_1")

    def level(self, seed: int) -> Level:
        return make_level(seed, self.min_solution)

    def label_with_agent(self, label: int) -> int:
        return AGENT

    def tile_set(self) -> np.ndarray:
        return tiles.ice_slider()

    def task(self, number: int, kind: str = "", seed: int = 0) -> Task:
        longer_than = int((kind or self.task_kinds[0]).removeprefix("min_solution_"))
        task = super(IceSlider, replace(self, min_solution=longer_than)).task(number, kind, seed)
        return replace(
            task,
            name=f"level {number}, kind: more than {longer_than} actions",
            generator=rng(seed, "planning", self.name, number, longer_than),
        )


def _slides(rocks: Sequence[bool]) -> Table:
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


def _has_trap(level: Level) -> bool:
    before: list[list[int]] = [[] for _ in level.moves]
    for cell, ends in enumerate(level.moves):
        for end in ends:
            before[end].append(cell)
    return not reachable(level.moves, level.start) <= reachable(before, level.goal)
