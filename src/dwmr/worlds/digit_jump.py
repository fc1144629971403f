"""DigitJump: jump exactly as many cells as the digit under the agent says, from the first cell to the last.

Levels are a function of the seed alone and agree with the public puzzlegen rules. Cells count row by row.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dwmr.worlds import tiles
from dwmr.worlds.actions import MOVES, target
from dwmr.worlds.grid_world import N_CELLS, SIZE, GridWorld, Level

MAX_DIGIT = 6

_PALETTES = (". 2c3e5c cell, # ecf0e8 digit", ". e88828 agent, # 401810 digit")
_DIGITS = """
    ........  ........  ........  ........  ........  ........
    ...##...  ..####..  .#####..  ....##..  .######.  ..####..
    ..###...  .##..##.  .....##.  ...###..  .##.....  .##.....
    ...##...  ....##..  ..####..  ..#.##..  .#####..  .#####..
    ...##...  ...##...  .....##.  .######.  .....##.  .##..##.
    ...##...  ..##....  .....##.  ....##..  .....##.  .##..##.
    ..####..  .######.  .#####..  ....##..  .#####..  ..####..
    ........  ........  ........  ........  ........  ........
"""


def make_level(seed: int) -> Level:
    """The level of a seed: the first that can be solved."""
    dice = random.Random(seed)
    while True:
        level = build_level([dice.randint(1, MAX_DIGIT) for _ in range(N_CELLS)])
        if level.solution() is not None:
            return level


def build_level(digits: Sequence[int]) -> Level:
    """The level with these digits, 1 to 6, in its 64 cells. A jump off the grid stays."""
    moves = [tuple(target(SIZE, SIZE, cell, action, digit) for action in MOVES) for cell, digit in enumerate(digits)]
    return Level(bytes(digit - 1 for digit in digits), 0, N_CELLS - 1, moves)


@dataclass(frozen=True)
class DigitJump(GridWorld):
    """Jump to the goal. Labels: digit − 1, and 6 more where the agent is."""

    name = "digitjump"
    walk_stream = "dwmr.envs.digit_jump"
    sizes = {"train": 40_000, "val": 10_000, "test": 10_000}  # noqa: RUF012
    with_agent = range(MAX_DIGIT, 2 * MAX_DIGIT)
    pictures = np.concatenate([tiles.from_art(_DIGITS, palette) for palette in _PALETTES])

    def level(self, seed: int) -> Level:
        return make_level(seed)
