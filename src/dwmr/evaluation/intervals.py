"""Bootstrap intervals: how far the scores of one run depend on the choice of the test split.

Transitions of one level or one walk are not independent samples. So whole units are resampled: an episode, or all
episodes that begin with the same board (a level); long walks are cut into pieces. With counts per unit, all resamples
are one matrix product.
"""

import math
import statistics
from collections.abc import Sequence

import numpy as np

from dwmr.data.transitions import Transitions, episode_runs
from dwmr.evaluation.codes import identify
from dwmr.evaluation.metrics import confusion, scores_of
from dwmr.seeding import below, rng

RESAMPLES = 1000
COVERAGE = 95  # percent
MAX_UNIT = 100  # transitions of one episode


def independent_units(transitions: Transitions) -> np.ndarray:
    """The number of the unit of each transition (N,), from 0 without gaps.

    Without labels every episode is a unit, and without episodes every transition.
    """
    count = len(transitions)
    if transitions.episode is None:
        return np.arange(count)
    starts, lengths = episode_runs(np.asarray(transitions.episode))
    owner = np.arange(len(starts))
    labels = transitions.flat_labels()
    if labels is not None:
        owner = identify(labels[0][starts])
    piece = (np.arange(count) - np.repeat(starts, lengths)) // MAX_UNIT
    return identify(np.stack([np.repeat(owner, lengths), piece], axis=1))


def board_intervals(
    true: np.ndarray,
    read: np.ndarray,
    n_classes: int,
    changed: np.ndarray,
    units: np.ndarray,
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> dict[str, list[float] | None]:
    """The percentile interval [low, high] of each score of `metrics.board_scores`; None for an undefined score."""
    rows = [np.flatnonzero(units == unit) for unit in range(int(units.max()) + 1)]
    counts, moved = (
        np.stack([confusion(true[unit], read[unit], n_classes, counted[unit]) for unit in rows]).astype(float)
        for counted in (np.ones_like(changed), changed)
    )
    drawn = resampled(len(rows), resamples, seed)
    boards = drawn @ np.bincount(units, weights=(true == read).all(1)) / (drawn @ np.bincount(units))
    totals = (np.tensordot(drawn, each, 1) for each in (counts, moved))
    scores = [scores_of(*each) for each in zip(*totals, boards)]
    return {name: _interval([each[name] for each in scores]) for name in scores[0]}


def wilson(successes: int, trials: int) -> list[float]:
    """Wilson's interval [low, high] of the success rate of independent trials, in percent."""
    z = statistics.NormalDist().inv_cdf(0.5 + COVERAGE / 200)
    share, spread = successes / trials, z * z / trials
    middle = (share + spread / 2) / (1 + spread)
    half = z * math.sqrt(share * (1 - share) / trials + spread / (4 * trials)) / (1 + spread)
    low, high = (middle - half if successes else 0.0), (middle + half if successes < trials else 1.0)
    return [100 * low, 100 * high]


def resampled(units: int, resamples: int, seed: int) -> np.ndarray:
    """How often each unit is drawn in each resample, (resamples, units); a resample draws as many as there are."""
    draws = below(rng(seed, "bootstrap"), units, (resamples, units))
    index = np.arange(resamples)[:, None] * units + draws
    return np.bincount(index.ravel(), minlength=resamples * units).reshape(resamples, units).astype(float)


def _interval(scores: Sequence[float | None]) -> list[float] | None:
    values = np.array(scores, dtype=float)
    known = values[np.isfinite(values)]
    rest = (100 - COVERAGE) / 2
    return np.percentile(known, [rest, 100 - rest]).tolist() if len(known) else None
