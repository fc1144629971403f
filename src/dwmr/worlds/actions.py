"""The five actions that all puzzles share, and where they lead on a grid."""

from __future__ import annotations

UP, RIGHT, LEFT, DOWN, NOOP = range(5)

NAMES = ("up", "right", "left", "down", "no-op")

DIRECTIONS = ((-1, 0), (0, 1), (0, -1), (1, 0), (0, 0))
"""(rows down, columns right) of each action."""

MOVES = (UP, RIGHT, LEFT, DOWN)


def target(rows: int, cols: int, cell: int, action: int, distance: int = 1) -> int:
    """Cell ``distance`` steps away in the action's direction, or ``cell`` itself if that is off the grid.

    Cells count row by row: ``cell = row * cols + col``.
    """
    down, right = DIRECTIONS[action]
    row = cell // cols + distance * down
    col = cell % cols + distance * right
    return row * cols + col if 0 <= row < rows and 0 <= col < cols else cell
