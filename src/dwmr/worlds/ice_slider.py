"""IceSlider: on ice the agent slides until a rock or the edge stops it, and must stop on the goal.

Levels are a function of the seed alone and agree with the public puzzlegen rules. Cells count row by row.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dwmr.seeding import rng
from dwmr.worlds import tiles
from dwmr.worlds.actions import LEFT, MOVES, UP, neighbours
from dwmr.worlds.grid_world import N_CELLS, SIZE, GridWorld, Level, Table, reachable
from dwmr.worlds.tasks import Task

ROCK, ICE, GOAL, AGENT = range(4)
MAX_TRIES = 1_000_000

# The mean colours of the pictures and the distances between them decide how hard the noisy world is. The palette was
# fitted by least squares to those of the pictures the paper used.
_PALETTE = """
    . 7bbedd ice, + a3c2e8 glint, - 7eadce scratch
    o 586b7b rim of the boulder, h a9b6c2 its lit side, m 86818b middle, s 6b6170 shade
    p e082d6 goal, r cd8cc2 its rings
    R ca4e4e hat and coat, f fef3cd face and hands, k 10243a eyes and boots
"""

_ART = """
    ..oooo..  ......++  pppppppp  ..RRRR..
    .ohhmmo.  .....++.  pprrrrpp  .RRRRRR.
    ohhmmmmo  ....++..  prpppprp  ..ffff..
    ohmmmmso  ........  prprrprp  ..fkfk..
    ommmmsso  .++.....  prprrprp  .RRRRRR.
    omsmmsso  ++......  prpppprp  fRRRRRRf
    .ossssoo  +.......  pprrrrpp  ..RRRR..
    ..ooooo.  ......--  pppppppp  ..kk.kk.
"""


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
    with_agent = (AGENT, AGENT, AGENT)
    pictures = tiles.from_art(_ART, _PALETTE)
    task_kinds = ("min_solution_8", "min_solution_1")

    def level(self, seed: int) -> Level:
        return make_level(seed, self.min_solution)

    def task(self, number: int, kind: str = "", seed: int = 0) -> Task:
        kind = kind or self.task_kinds[0]
        longer_than = int(kind.removeprefix("min_solution_"))
        task = super(IceSlider, replace(self, min_solution=longer_than)).task(number, kind, seed)
        name = f"{task.name}, kind {kind}"
        return replace(task, name=name, generator=rng(seed, "planning", self.name, number, longer_than))


def _slides(rocks: Sequence[bool]) -> Table:
    """Table of moves. A slide from a cell ends where the slide from the next free cell ends."""
    steps = neighbours(SIZE, SIZE)
    ends = [[cell] * len(MOVES) for cell in range(N_CELLS)]
    for action in MOVES:
        for cell in range(N_CELLS) if action in (UP, LEFT) else reversed(range(N_CELLS)):
            neighbour = steps[cell][action]
            if not rocks[neighbour]:
                ends[cell][action] = ends[neighbour][action]
    return ends


def _has_trap(level: Level) -> bool:
    before: list[list[int]] = [[] for _ in level.moves]
    for cell, ends in enumerate(level.moves):
        for end in ends:
            before[end].append(cell)
    return not reachable(level.moves, level.start) <= reachable(before, level.goal)
