"""Bootstrap intervals: how far the scores of one run depend on the choice of the test split.

Transitions of one level or one walk are not independent samples. So whole units are resampled: an episode, or all
episodes that begin with the same board (a level); long walks are cut into pieces. With counts per unit, all resamples
are one matrix product.
"""

import math
import statistics
from typing import Any

import numpy as np

from dwmr.data.transitions import Transitions, episode_runs
from dwmr.evaluation.metrics import macro_f1
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
        owner = np.unique(labels[0][starts], axis=0, return_inverse=True)[1].ravel()
    piece = (np.arange(count) - np.repeat(starts, lengths)) // MAX_UNIT
    units = np.stack([np.repeat(owner, lengths), piece], axis=1)
    return np.unique(units, axis=0, return_inverse=True)[1].ravel()


def board_intervals(
    true: np.ndarray,
    read: np.ndarray,
    n_classes: int,
    changed: np.ndarray,
    units: np.ndarray,
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> dict[str, Any]:
    """The percentile interval [low, high] of each score of `metrics.board_scores`; None for an undefined score."""
    drawn = resampled(int(units.max()) + 1, resamples, seed)
    counts = drawn @ _confusion_of_units(true, read, n_classes, units, np.ones_like(changed))
    moved = drawn @ _confusion_of_units(true, read, n_classes, units, changed)
    size = drawn @ np.bincount(units)
    boards = drawn @ np.bincount(units, weights=(true == read).all(1))
    shape = (resamples, true.shape[1], n_classes, n_classes)
    counts, moved = counts.reshape(shape), moved.reshape(shape)
    cells = np.trace(counts, axis1=2, axis2=3).sum(1) / true.shape[1]
    return {
        "f1": _interval(np.array([macro_f1(each, "union") for each in counts])),
        "f1_true_labels": _interval(np.array([macro_f1(each, "true") for each in counts])),
        "accuracy": _interval(100 * cells / size),
        "board_accuracy": _interval(100 * boards / size),
        "changed_cells_f1": _interval(np.array([macro_f1(each, "true") for each in moved])),
    }


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


def _confusion_of_units(
    true: np.ndarray, read: np.ndarray, n_classes: int, units: np.ndarray, counted: np.ndarray
) -> np.ndarray:
    """`metrics.confusion` of each unit, flattened: (units, cells · C · C)."""
    cells = true.shape[1]
    size = cells * n_classes**2
    within = (np.arange(cells) * n_classes + true) * n_classes + read
    index = (units[:, None] * size + within)[counted]
    return np.bincount(index, minlength=(int(units.max()) + 1) * size).reshape(-1, size).astype(float)


def _interval(values: np.ndarray) -> list[float] | None:
    known = values[np.isfinite(values)]
    if not len(known):
        return None
    rest = (100 - COVERAGE) / 2
    return [float(value) for value in np.percentile(known, [rest, 100 - rest])]
