"""The four moves on a grid, whose cells count row by row: ``cell = row * cols + col``."""

import functools

UP, RIGHT, LEFT, DOWN = MOVES = (0, 1, 2, 3)

NAMES = ("up", "right", "left", "down")

DIRECTIONS = ((-1, 0), (0, 1), (0, -1), (1, 0))
"""(rows down, columns right) of each move."""


def target(rows: int, cols: int, cell: int, action: int, distance: int = 1) -> int:
    """Cell ``distance`` steps away in the direction of a move, or ``cell`` itself if that is off the grid."""
    down, right = DIRECTIONS[action]
    row = cell // cols + distance * down
    col = cell % cols + distance * right
    return row * cols + col if 0 <= row < rows and 0 <= col < cols else cell


@functools.cache
def neighbours(rows: int, cols: int) -> list[tuple[int, ...]]:
    """For each cell, the cell that each move leads to."""
    return [tuple(target(rows, cols, cell, action) for action in MOVES) for cell in range(rows * cols)]
