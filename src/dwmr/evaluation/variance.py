"""How much of a bit's variance comes from the state, and how much from the way the state is drawn.

Two frames of one state differ only in their rendering. In an episode next_obs[t] and obs[t + 1] are such a pair.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dwmr.data.transitions import continued
from dwmr.errors import InputError


@dataclass(frozen=True)
class VarianceParts:
    """The variance of each of K bits, (K,), and the two parts that add up to it."""

    total: np.ndarray
    state: np.ndarray
    rendering: np.ndarray

    @property
    def state_share(self) -> np.ndarray:
        """Percent of each bit's variance that the state explains; NaN for bits that never change."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.total > 0, 100 * self.state / self.total, np.nan)


def same_state_codes(
    codes: np.ndarray, next_codes: np.ndarray, episode: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """The codes of next_obs[t] and obs[t + 1], which show the same state, (P, K) each; empty without episodes."""
    if episode is None:
        return next_codes[:0], codes[:0]
    first, second = continued(episode)
    return next_codes[first], codes[second]


def variance_parts(first: np.ndarray, second: np.ndarray) -> VarianceParts:
    """Split the variance of bits (or probabilities) by P pairs of frames of one state, (P, K) each.

    Given the state, two renderings are independent. So the covariance of a bit between the two frames is the variance
    that the state explains, and the rest comes from the rendering. Both frames have the same distribution, so means and
    variances are pooled. With few pairs an estimate can be negative.
    """
    if first.shape != second.shape or first.ndim != 2 or not len(first):
        raise InputError(f"both codes must have one shape (P, K) with P > 0, got {first.shape} and {second.shape}")
    first, second = first.astype(float), second.astype(float)
    mean = (first.mean(0) + second.mean(0)) / 2
    total = (((first - mean) ** 2).mean(0) + ((second - mean) ** 2).mean(0)) / 2
    state = ((first - mean) * (second - mean)).mean(0)
    return VarianceParts(total, state, total - state)
