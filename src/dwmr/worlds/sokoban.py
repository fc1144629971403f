"""Sokoban: the agent pushes boxes onto goals, in small rooms.

A room has walls all around and some inside. Its start is made from the solved room by a random walk that pulls boxes,
so pushing them back solves it.
"""

from dataclasses import dataclass

import numpy as np

from dwmr.seeding import below, rng, shuffled
from dwmr.worlds import tiles
from dwmr.worlds.actions import DIRECTIONS, MOVES, NAMES, neighbours
from dwmr.worlds.grid_world import reachable
from dwmr.worlds.world import World

SIZE = 8
WALL, FLOOR, GOAL, BOX, BOX_ON_GOAL, AGENT, AGENT_ON_GOAL = range(7)

_WITH_BOX, _WITH_AGENT = BOX - FLOOR, AGENT - FLOOR
_OFFSETS = [SIZE * down + right for down, right in DIRECTIONS]
_MIN_FLOOR = 16
_PULLING_STEPS = 150

_PALETTE = """
    w 784838 bricks, m b09484 mortar
    . ded6be floor, g 28965a goal
    B c48c3c box, b 78501e its edges
    D 5abe8c box on a goal, d 145a46 its edges
    a 3250be agent, h f5cdaa head
"""

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


@dataclass(frozen=True)
class Sokoban(World):
    """Push every box onto a goal. A box moves if the cell behind it holds neither a wall nor another box.

    A state holds the labels, row by row: wall 0, floor 1, goal 2, box 3, box on a goal 4, agent 5, agent on a goal 6.
    All of the state is visible: a goal can be seen under a box and under the agent. Splits hold out rooms.

    Args:
        boxes: number of boxes and goals, 1 to 4.
    """

    boxes: int = 2

    name = "sokoban"
    allowed = {"boxes": range(1, 5)}  # noqa: RUF012
    action_names = NAMES
    image_shape = (3, SIZE * tiles.SIDE, SIZE * tiles.SIDE)
    pictures = tiles.from_art(_ART, _PALETTE)
    task_kinds = ("rooms",)
    level_name = "room"

    def reset(self, seed: int) -> bytes:
        return make_room(seed, self.boxes)

    def step(self, state: bytes, action: int) -> bytes:
        cells = bytearray(state)
        agent = max(cells.find(AGENT), cells.find(AGENT_ON_GOAL))
        ahead, behind = agent + _OFFSETS[action], agent + 2 * _OFFSETS[action]
        if cells[ahead] in (BOX, BOX_ON_GOAL) and cells[behind] in (FLOOR, GOAL):
            cells[ahead] -= _WITH_BOX
            cells[behind] += _WITH_BOX
        if cells[ahead] not in (FLOOR, GOAL):
            return state
        cells[agent] -= _WITH_AGENT
        cells[ahead] += _WITH_AGENT
        return bytes(cells)

    def solved(self, state: bytes) -> bool:
        return BOX not in state

    def labels(self, state: bytes) -> np.ndarray:
        return np.frombuffer(state, np.uint8).reshape(SIZE, SIZE).copy()


def make_room(seed: int, boxes: int = 2) -> bytes:
    """The room of a seed: no box stands on a goal, and pushes can solve it."""
    generator = rng(seed, "sokoban room", boxes)
    while True:
        floor = _make_floor(generator)
        if len(floor) < _MIN_FLOOR:
            continue
        first = [floor[index] for index in shuffled(generator, len(floor)).tolist()]
        goals = set(first[:boxes])
        pulled, agent = _pull(generator, set(floor), goals, first[boxes])
        if not pulled & goals:
            cells = bytearray(SIZE * SIZE)
            for cell in floor:
                cells[cell] = FLOOR + (cell in goals) + _WITH_BOX * (cell in pulled) + _WITH_AGENT * (cell == agent)
            return bytes(cells)


def _make_floor(generator: np.random.Generator) -> list[int]:
    """The cells of the largest space, where walls are at the edge and in a fifth of the cells."""
    drawn = below(generator, 5, SIZE * SIZE).reshape(SIZE, SIZE)
    free = set(np.flatnonzero(np.pad(drawn[1:-1, 1:-1], 1)).tolist())
    ends = [free.intersection(around) for around in neighbours(SIZE, SIZE)]
    return sorted(max((reachable(ends, cell) for cell in sorted(free)), key=len, default=()))


def _pull(generator: np.random.Generator, floor: set[int], boxes: set[int], agent: int) -> tuple[set[int], int]:
    """Boxes and agent after a random walk in which the agent pulls the box behind it."""
    for action in below(generator, len(MOVES), _PULLING_STEPS).tolist():
        ahead, behind = agent + _OFFSETS[action], agent - _OFFSETS[action]
        if ahead not in floor - boxes:
            continue
        if behind in boxes:
            boxes = boxes - {behind} | {agent}
        agent = ahead
    return boxes, agent
