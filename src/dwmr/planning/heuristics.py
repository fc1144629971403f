"""Guesses of how many actions are left to a code."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from dwmr.planning.goals import CodeGoal


@dataclass(frozen=True)
class HammingHeuristic:
    """The bits that are wrong, over the most bits that one action flips: as long as that is really the most, never
    more than the actions that are left."""

    goal: CodeGoal
    flips: int

    def __call__(self, words: Tensor) -> Tensor:
        wrong = (self.goal.distance(words) - self.goal.radius).clamp_(min=0)
        return (wrong + self.flips - 1) // self.flips


def most_flips(flips: np.ndarray, share: float = 0.999) -> int:
    """The bits one action flips at most, from the flips (N,) of many actions; the rarest are taken for mistakes."""
    return max(1, math.ceil(float(np.quantile(flips, share)))) if len(flips) else 1
