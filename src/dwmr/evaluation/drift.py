"""Drift: how far imagined codes move away from the codes of the frames really seen, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dwmr.data.transitions import HORIZONS, Rollouts, episode_runs
from dwmr.models.callables import Encode, Predict, as_bits, keys, take

MAX_WINDOW = 100  # steps of the roll-outs along episodes of transitions


@dataclass(frozen=True)
class Paths:
    """W paths to imagine along.

    first    their first codes (W, K), as encode returned them
    actions  int (W, T)
    seen     for some step counts: the numbers of the paths that last this long, and the codes of the frames seen then
    """

    first: Any
    actions: np.ndarray
    seen: dict[int, tuple[np.ndarray, np.ndarray]]


def along_rollouts(encode: Encode, rollouts: Rollouts, horizon: int) -> Paths:
    """Paths along held-out episodes, compared at their stored horizons."""
    seen = {}
    for frame, step in enumerate(rollouts.horizons):
        lasting = np.flatnonzero(rollouts.length >= step)
        if 0 < step <= horizon and len(lasting):
            seen[step] = lasting, as_bits(encode(np.asarray(rollouts.obs[lasting, frame])))
    return Paths(encode(np.asarray(rollouts.obs[:, 0])), np.asarray(rollouts.actions), seen)


def along_episodes(
    raw: Any, next_codes: np.ndarray, actions: np.ndarray, episode: np.ndarray | None, horizon: int
) -> Paths:
    """Paths of at most 100 steps, one after the other along the episodes of transitions; without episodes every
    transition is a path of one step."""
    count = len(next_codes)
    begins, sizes = episode_runs(np.arange(count) if episode is None else np.asarray(episode))
    starts = np.concatenate([np.arange(begin, begin + size, MAX_WINDOW) for begin, size in zip(begins, sizes)])
    ends = (begins + sizes)[np.searchsorted(begins, starts, side="right") - 1]
    lengths = np.minimum(MAX_WINDOW, ends - starts)
    steps = np.minimum(starts[:, None] + np.arange(lengths.max()), count - 1)
    seen = {}
    for step in HORIZONS[1:]:
        lasting = np.flatnonzero(lengths >= step)
        if step <= horizon and len(lasting):
            seen[step] = lasting, next_codes[starts[lasting] + step - 1]
    return Paths(take(raw, starts), np.asarray(actions)[steps], seen)


def measure_drift(predict: Predict, paths: Paths, known: set[bytes]) -> dict[str, dict[str, float]]:
    """Roll out along the paths and compare, for each number of steps, in percent:

    bits, exact  bits, and whole codes, that agree with the frame seen at that step
    known        imagined codes that are among the ``known`` ones, those of the data's frames
    known_seen   the same share of the codes of the frames seen, the most a perfect model can reach
    episodes     number of paths that last this long
    """
    result: dict[str, dict[str, float]] = {}
    codes = paths.first
    for step in range(1, max(paths.seen, default=0) + 1):
        codes = predict(codes, paths.actions[:, step - 1])
        if step in paths.seen:
            lasting, seen = paths.seen[step]
            imagined = as_bits(codes)[lasting]
            same = imagined == seen
            result[str(step)] = {
                "bits": 100 * float(same.mean()),
                "exact": 100 * float(same.all(1).mean()),
                "known": _share_known(imagined, known),
                "known_seen": _share_known(seen, known),
                "episodes": len(lasting),
            }
    return result


def _share_known(bits: np.ndarray, known: set[bytes]) -> float:
    return 100 * float(np.mean([key in known for key in keys(bits)]))
