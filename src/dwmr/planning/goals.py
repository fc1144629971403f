"""Goals: a code to reach, exactly or nearly, perhaps with bits that do not matter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from dwmr.planning.packing import count_bits


@dataclass(frozen=True)
class CodeGoal:
    """Codes that differ from ``words`` (1, W) in at most ``radius`` of the bits that are on in ``mask`` (1, W)."""

    words: Tensor
    mask: Tensor | None = None
    radius: int = 0

    def distance(self, words: Tensor) -> Tensor:
        """The number of bits that matter and differ, int64 (N,)."""
        differing = words ^ self.words
        return count_bits(differing if self.mask is None else differing & self.mask)

    def __call__(self, words: Tensor) -> Tensor:
        return self.distance(words) <= self.radius


def choose_radius(same: np.ndarray, different: np.ndarray) -> int:
    """The Hamming distance up to which two codes should count as one state.

    The radius with the fewest mistakes, the smallest if there are several: the share of pairs of one state that are
    farther apart, plus the share of pairs of neighbouring states that are within it.

    Args:
        same: distances between codes of the same state.
        different: distances between codes of neighbouring states.
    """
    radii = np.arange(int(same.max(initial=0)) + 1)
    missed = (same[:, None] > radii).mean(0) if len(same) else np.zeros(len(radii))
    confused = (different[:, None] <= radii).mean(0) if len(different) else np.zeros(len(radii))
    return int(radii[np.argmin(missed + confused)])
