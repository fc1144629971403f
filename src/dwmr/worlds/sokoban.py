"""Sokoban: the agent pushes boxes onto goals, in small rooms.

A room has walls all around and some inside. Its start is made from the solved room by a random walk that pulls boxes,
so pushing them back solves it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dwmr.seeding import below, rng, shuffled
from dwmr.worlds import tiles
from dwmr.worlds.actions import DIRECTIONS, MOVES, NAMES, neighbours
from dwmr.worlds.grid_world import reachable
from dwmr.worlds.world import World

SIZE = 8
WALL, FLOOR, GOAL, BOX, BOX_ON_GOAL, AGENT, AGENT_ON_GOAL = range(7)

_OFFSETS = [SIZE * down + right for down, right in DIRECTIONS]
_MIN_FLOOR = 16
_PULLING_STEPS = 150

_PALETTE = {
    "w": (120, 72, 56),  # bricks and mortar
    "m": (176, 148, 132),
    ".": (222, 214, 190),  # floor
    "g": (40, 150, 90),  # goal
    "B": (196, 140, 60),  # box and its edges
    "b": (120, 80, 30),
    "D": (90, 190, 140),  # box on a goal and its edges
    "d": (20, 90, 70),
    "a": (50, 80, 190),  # agent
    "h": (245, 205, 170),
}

_ART = """
    wwwmwwww  ........  ........  .bbbbbb.  .dddddd.  ..hhhh..  ..hhhh..
    wwwmwwww  ........  ..gggg..  bBBBBBBb  dDDDDDDd  ..hhhh..  .ghhhhg.
    mmmmmmmm  ........  .g....g.  bBbBBbBb  dDdDDdDd  ...aa...  g..aa..g
    wwwwwmww  ........  .g.gg.g.  bBBbbBBb  dDDddDDd  .aaaaaa.  gaaaaaag
    wwwwwmww  ........  .g.gg.g.  bBBbbBBb  dDDddDDd  .a.aa.a.  ga.aa.ag
    mmmmmmmm  ........  .g....g.  bBbBBbBb  dDdDDdDd  ...aa...  g..aa..g
    wmwwwwww  ........  ..gggg..  bBBBBBBb  dDDDDDDd  ..a..a..  .ga..ag.
    wmwwwwww  ........  ........  .bbbbbb.  .dddddd.  .aa..aa.  .aa..aa.
"""


class Room(NamedTuple):
    """A state. Walls, goals and boxes are sets of cells: bit ``row * 8 + col`` of an integer."""

    walls: int
    goals: int
    boxes: int
    agent: int


@dataclass(frozen=True)
class Sokoban(World):
    """Push every box onto a goal. A box moves if the cell behind it holds neither a wall nor another box.

    Labels: wall 0, floor 1, goal 2, box 3, box on a goal 4, agent 5, agent on a goal 6. All of the state is visible: a
    goal can be seen under a box and under the agent. Splits hold out rooms.

    Args:
        boxes: number of boxes and goals, 1 to 4.
    """

    boxes: int = 2

    name = "sokoban"
    allowed = {"boxes": range(1, 5)}  # noqa: RUF012
    action_names = NAMES
    n_classes = 7
    image_shape = (3, SIZE * tiles.SIDE, SIZE * tiles.SIDE)
    pictures = tiles.from_art(_ART, _PALETTE)
    task_kinds = ("rooms",)
    level_name = "room"

    def reset(self, seed: int) -> Room:
        return make_room(seed, self.boxes)

    def step(self, state: Room, action: int) -> Room:
        walls, goals, boxes, agent = state
        offset = _OFFSETS[action]
        ahead = agent + offset
        if walls >> ahead & 1:
            return state
        if boxes >> ahead & 1:
            behind = ahead + offset
            if (walls | boxes) >> behind & 1:
                return state
            boxes ^= 1 << ahead | 1 << behind
        return Room(walls, goals, boxes, ahead)

    def solved(self, state: Room) -> bool:
        return state.boxes == state.goals

    def labels(self, state: Room) -> np.ndarray:
        walls, goals, boxes = _grids(*state[:3])
        grid = FLOOR - walls + goals + 2 * boxes
        grid.flat[state.agent] += AGENT - FLOOR
        return grid


def make_room(seed: int, boxes: int = 2) -> Room:
    """The room of a seed: no box stands on a goal, and pushes can solve it."""
    generator = rng(seed, "sokoban room", boxes)
    while True:
        floor = _make_floor(generator)
        if len(floor) < _MIN_FLOOR:
            continue
        walls = (1 << SIZE * SIZE) - 1 - sum(1 << cell for cell in floor)
        order = shuffled(generator, len(floor)).tolist()
        goals = sum(1 << floor[index] for index in order[:boxes])
        pulled, agent = _pull(generator, walls, goals, floor[order[boxes]])
        if not pulled & goals:
            return Room(walls, goals, pulled, agent)


def _make_floor(generator: np.random.Generator) -> list[int]:
    """The cells of the largest space, where walls are at the edge and in a fifth of the cells."""
    drawn = below(generator, 5, SIZE * SIZE).reshape(SIZE, SIZE)
    free = set(np.flatnonzero(np.pad(drawn[1:-1, 1:-1], 1)).tolist())
    ends = [free.intersection(around) for around in neighbours(SIZE, SIZE)]
    return sorted(max((reachable(ends, cell) for cell in sorted(free)), key=len, default=()))


def _pull(generator: np.random.Generator, walls: int, boxes: int, agent: int) -> tuple[int, int]:
    """Boxes and agent after a random walk in which the agent pulls the box behind it."""
    for action in below(generator, len(MOVES), _PULLING_STEPS).tolist():
        ahead, behind = agent + _OFFSETS[action], agent - _OFFSETS[action]
        if (walls | boxes) >> ahead & 1:
            continue
        if boxes >> behind & 1:
            boxes ^= 1 << behind | 1 << agent
        agent = ahead
    return boxes, agent


def _grids(*cells: int) -> np.ndarray:
    """Sets of cells as uint8 (sets, 8, 8) of zeros and ones."""
    packed = np.frombuffer(b"".join(part.to_bytes(SIZE, "little") for part in cells), np.uint8)
    return np.unpackbits(packed, bitorder="little").reshape(len(cells), SIZE, SIZE)
