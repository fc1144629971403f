"""What a bit's variance comes from: the state, or how the state was drawn. Two looks at one state tell them apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dwmr.errors import InputError


@dataclass(frozen=True)
class VarianceParts:
    """The variance of each of K bits, (K,) each, and the two parts it is the sum of."""

    total: np.ndarray
    state: np.ndarray
    rendering: np.ndarray

    @property
    def state_share(self) -> np.ndarray:
        """Percent of each bit's variance that the state decides, NaN for bits that never change."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.total > 0, 100 * self.state / self.total, np.nan)


def two_looks(codes: np.ndarray, next_codes: np.ndarray, episode: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The codes of next_obs[t] and of obs[t + 1] within an episode: two looks at one state, (P, K) each."""
    follows = same_state_pairs(episode)
    return next_codes[follows], codes[follows + 1]


def same_state_pairs(episode: np.ndarray | None) -> np.ndarray:
    """Every t for which next_obs[t] and obs[t + 1] show one state; none where no episodes are named."""
    if episode is None:
        return np.empty(0, int)
    return np.flatnonzero(np.asarray(episode)[1:] == np.asarray(episode)[:-1])


def variance_parts(one: np.ndarray, other: np.ndarray) -> VarianceParts:
    """The variance of bits (or probabilities) over pairs of looks at one state, both (P, K).

    Given the state, two drawings are independent, so the covariance of a bit between the looks is the variance of its
    mean given the state: the part that the state decides. The rest is the drawing's. Both looks have the same
    distribution, so their means and variances are pooled. From few pairs an estimate may fall below zero.
    """
    if one.shape != other.shape or one.ndim != 2 or not len(one):
        raise InputError(f"two looks must have one shape (P, K) with P > 0, got {one.shape} and {other.shape}")
    one, other = one.astype(float), other.astype(float)
    mean = (one.mean(0) + other.mean(0)) / 2
    total = (((one - mean) ** 2).mean(0) + ((other - mean) ** 2).mean(0)) / 2
    state = ((one - mean) * (other - mean)).mean(0)
    return VarianceParts(total, state, total - state)


def variance_parts_by_state(values: np.ndarray, states: np.ndarray) -> VarianceParts:
    """The same from labels: bits (N, K) of frames with the states (N, …), states seen once left out.

    The rendering part is the variance within a state (with n − 1, so that it is unbiased), the rest is the state's.
    """
    flat = states.reshape(len(states), -1)
    _, index, counts = np.unique(flat, axis=0, return_inverse=True, return_counts=True)
    seen_again = counts[index.ravel()] > 1
    if not seen_again.any():
        raise InputError("no state occurs twice, so nothing can be said of how it is drawn")
    values, index = values[seen_again].astype(float), index.ravel()[seen_again]
    size = np.bincount(index, minlength=len(counts))
    used = size > 0
    sums = np.zeros((len(counts), values.shape[1]))
    np.add.at(sums, index, values)
    means = sums[used] / size[used, None]
    within = (values - (sums / np.maximum(size, 1)[:, None])[index]) ** 2
    spread = np.zeros_like(sums)
    np.add.at(spread, index, within)
    weight = size[used] / size.sum()
    rendering = (weight[:, None] * spread[used] / (size[used, None] - 1)).sum(0)
    overall = (weight[:, None] * means).sum(0)
    total = ((values - overall) ** 2).mean(0)
    return VarianceParts(total, total - rendering, rendering)
