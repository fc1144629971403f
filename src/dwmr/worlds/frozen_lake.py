"""FrozenLake: walk over the ice to the goal, around the holes."""

from collections.abc import Sequence
from dataclasses import dataclass

from dwmr.seeding import below, rng
from dwmr.worlds import tiles
from dwmr.worlds.actions import MOVES, neighbours
from dwmr.worlds.grid_world import N_CELLS, SIZE, GridWorld, Level

ICE, HOLE, GOAL, AGENT, AGENT_IN_HOLE, AGENT_ON_GOAL = range(6)

_PALETTE = """
    . e2f0f8 ice, - b0d0e4 cracks
    w 183868 water, s 70a0c8 its shore
    y f0be28 flag, p 6e5032 pole
    r c8323c agent, h fad2b4 head and hands
"""

_ART = """
    ........  ..ssss..  .pyyyy..  ...rr...  ..ssss..  .pyrry..
    ....--..  .swwwws.  .pyyyyy.  ..hhhh..  .swwwws.  .phhhhy.
    .....--.  swwwwwws  .pyyyy..  ..hhhh..  swwwwwws  .phhhhy.
    ........  swwwwwws  .p......  .rrrrrr.  swwrrwws  .prrrrr.
    .--.....  swwwwwws  .p......  .rrrrrr.  swhhhhws  .prrrrr.
    ..--....  swwwwwws  .p......  ..rrrr..  swhhhhws  .prrrr..
    ........  .swwwws.  .p......  ..r..r..  .swwwws.  .pr..r..
    ......-.  ..ssss..  ppp.....  .rr..rr.  ..ssss..  pprr.rr.
"""


@dataclass(frozen=True)
class FrozenLake(GridWorld):
    """Walk one cell at a time; moves off the lake change nothing, and the ice is not slippery.

    A level is a map with a start and a goal anywhere. The agent can walk into a hole and never leaves it. It can walk
    on from the goal. Neither ends an episode of collected data.

    Labels: ice 0, hole 1, goal 2, agent on ice 3, agent in a hole 4, agent on the goal 5. All of the state is visible:
    the agent is drawn differently in each of the three. Splits hold out maps.
    """

    name = "frozenlake"
    with_agent = (AGENT, AGENT_IN_HOLE, AGENT_ON_GOAL)
    pictures = tiles.from_art(_ART, _PALETTE)

    def level(self, seed: int) -> Level:
        return make_level(seed)


def make_level(seed: int) -> Level:
    """The level of a seed: an eighth of the cells are holes, and some way leads from the start to the goal."""
    generator = rng(seed, "frozenlake level")
    while True:
        start, goal = below(generator, N_CELLS, 2).tolist()
        holes = [value == 0 for value in below(generator, 8, N_CELLS).tolist()]
        holes[start] = holes[goal] = False
        level = build_level(holes, start, goal)
        if level.solution():
            return level


def build_level(holes: Sequence[bool], start: int, goal: int) -> Level:
    """The level with holes in some of its 64 cells."""
    board = bytearray(HOLE if hole else ICE for hole in holes)
    board[goal] = GOAL
    steps = neighbours(SIZE, SIZE)
    moves = [(cell,) * len(MOVES) if hole else steps[cell] for cell, hole in enumerate(holes)]
    return Level(bytes(board), start, goal, moves)
