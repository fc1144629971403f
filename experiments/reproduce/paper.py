"""The paper's figures as printed: mean and standard deviation over ten runs, in percent.

Table 1 holds macro-F1 per cell of the board, tables 2 and 3 hold cell accuracies on the 8-puzzle.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Printed(NamedTuple):
    """A figure of the paper."""

    mean: float
    std: float


class Pair(NamedTuple):
    """The figures for encoded frames, and for codes imagined one step ahead."""

    encoding: Printed
    imagination: Printed


Paper = Mapping[str, Mapping[str, Pair]]  # row → benchmark

PARTS = Pair._fields


def _row(columns: tuple[str, ...], *figures: tuple[float, float]) -> dict[str, Pair]:
    """A printed row: encoding and imagination of each column in turn."""
    printed = [Printed(*figure) for figure in figures]
    return {column: Pair(*printed[2 * i : 2 * i + 2]) for i, column in enumerate(columns)}


ALL = ("8puzzle", "8puzzle-noisy", "iceslider", "iceslider-noisy")
PUZZLE = ("8puzzle", "8puzzle-noisy")

TABLE1: Paper = {
    "ae": _row(ALL, (41, 26), (36, 22), (50, 10), (44, 8), (96, 11), (83, 11), (83, 8), (84, 9)),
    "beta-vae": _row(ALL, (74, 2), (61, 2), (70, 1), (58, 1), (93, 10), (62, 13), (70, 14), (58, 4)),
    "deepcubeai": _row(ALL, (79, 3), (77, 4), (74, 2), (73, 2), (92, 14), (85, 14), (81, 14), (80, 13)),
    "dwmr": _row(ALL, (91, 1), (84, 2), (90, 2), (80, 3), (99, 2), (95, 2), (81, 6), (85, 5)),
    "dwmr+ae": _row(ALL, (94, 2), (86, 3), (98, 1), (90, 3), (99, 2), (91, 10), (86, 6), (88, 6)),
    "dwmr+beta-vae": _row(ALL, (96, 5), (91, 4), (92, 2), (82, 1), (99, 2), (90, 4), (73, 12), (70, 9)),
}

_TWO_STEPS = _row(PUZZLE, (93, 6), (86, 5), (95, 2), (83, 3))
_TWO_STEPS_FIXED = _row(PUZZLE, (92, 4), (84, 4), (91, 3), (81, 2))

TABLE2: Paper = {
    "soft": _row(PUZZLE, (95, 2), (80, 2), (92, 2), (74, 2)),
    "soft-no-schedules": _row(PUZZLE, (93, 5), (76, 3), (85, 19), (75, 16)),
    "straight_through": _row(PUZZLE, (96, 1), (85, 1), (88, 15), (81, 13)),
    "straight_through-no-schedules": _row(PUZZLE, (96, 4), (80, 2), (86, 4), (77, 4)),
    "two_step": _TWO_STEPS,  # the paper prints one two-step scheme; both kinds are compared with it
    "two_step-no-schedules": _TWO_STEPS_FIXED,
    "two_step_st": _TWO_STEPS,
    "two_step_st-no-schedules": _TWO_STEPS_FIXED,
}

TABLE3: Paper = {
    "dwmr": _TWO_STEPS,
    "no-var": _row(PUZZLE, (12, 0), (12, 0), (11, 1), (11, 1)),
    "no-cor": _row(PUZZLE, (42, 8), (39, 6), (39, 4), (35, 3)),
    "no-cos": _row(PUZZLE, (56, 13), (53, 11), (67, 14), (60, 11)),
    "no-loc": _row(PUZZLE, (89, 15), (82, 14), (38, 24), (33, 23)),
    "no-ema": _row(PUZZLE, (87, 15), (81, 13), (93, 2), (79, 4)),
}
