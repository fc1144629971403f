"""How imagination drifts from what is seen, step by step, and whether it stays among the codes of real frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dwmr.data.transitions import HORIZONS, Rollouts
from dwmr.models.callables import Encode, Predict, as_bits, keys, take

LONGEST_WINDOW = 100  # steps imagined along an episode of the transitions


@dataclass(frozen=True)
class Course:
    """Where to imagine along: first codes (W, K) of any kind, actions int (W, T), and for some step counts the windows
    that last so long and the codes of the frames seen then, bool."""

    first: Any
    actions: np.ndarray
    seen: dict[int, tuple[np.ndarray, np.ndarray]]


def along_rollouts(encode: Encode, rollouts: Rollouts, horizon: int) -> Course:
    seen = {}
    for frame, step in enumerate(rollouts.horizons):
        lasting = np.flatnonzero(rollouts.length >= step)
        if 0 < step <= horizon and len(lasting):
            seen[step] = lasting, as_bits(encode(np.asarray(rollouts.obs[lasting, frame])))
    return Course(encode(np.asarray(rollouts.obs[:, 0])), np.asarray(rollouts.actions), seen)


def along_transitions(
    raw: Any, next_codes: np.ndarray, actions: np.ndarray, episode: np.ndarray | None, horizon: int
) -> Course:
    """Windows of at most 100 steps, one after the other along each episode; single transitions without episodes."""
    count = len(next_codes)
    owner = np.arange(count) if episode is None else np.asarray(episode)
    begins = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])
    ends = np.r_[begins[1:], count]
    starts = np.concatenate([np.arange(begin, end, LONGEST_WINDOW) for begin, end in zip(begins, ends)])
    lasts = np.minimum(starts + LONGEST_WINDOW, np.repeat(ends, -(-(ends - begins) // LONGEST_WINDOW)))
    lengths = lasts - starts
    steps = np.minimum(starts[:, None] + np.arange(lengths.max()), count - 1)
    seen = {}
    for step in HORIZONS[1:]:
        lasting = np.flatnonzero(lengths >= step)
        if step <= horizon and len(lasting):
            seen[step] = lasting, next_codes[starts[lasting] + step - 1]
    return Course(take(raw, starts), np.asarray(actions)[steps], seen)


def follow(predict: Predict, course: Course, known: set[bytes]) -> dict[str, dict[str, float]]:
    """For each number of imagined steps, in percent:

    bits, exact  bits, and whole codes, that agree with the frame seen then
    known        imagined codes that the encoder gave to some frame of the transitions
    known_seen   the same of the codes of the frames seen then: what a perfect imagination would come to
    """
    found: dict[str, dict[str, float]] = {}
    codes = course.first
    for step in range(1, max(course.seen, default=0) + 1):
        codes = predict(codes, course.actions[:, step - 1])
        if step in course.seen:
            lasting, seen = course.seen[step]
            imagined = as_bits(codes)[lasting]
            same = imagined == seen
            found[str(step)] = {
                "bits": 100 * float(same.mean()),
                "exact": 100 * float(same.all(1).mean()),
                "known": _share_known(imagined, known),
                "known_seen": _share_known(seen, known),
                "episodes": len(lasting),
            }
    return found


def _share_known(bits: np.ndarray, known: set[bytes]) -> float:
    return 100 * float(np.mean([key in known for key in keys(bits)]))
