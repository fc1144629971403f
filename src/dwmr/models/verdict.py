"""What a finished model is good for, judged on held-out transitions without labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dwmr.data.transitions import Transitions
from dwmr.models.callables import as_bits

EXACT, READABLE, FAILED = "exact", "readable", "failed"

MIN_EXACT = 99.0  # percent of the next codes of an exact model; what is measured must lie above it with confidence
MAX_COLLISIONS = 0.1  # percent of the frames
MAX_READABLE_COLLISIONS = 5.0
MIN_REPEATED = 99.0  # percent of the frames of one state that are equal, where states are always drawn the same way
CONFIDENCE = 1.645  # standard deviations of a one-sided interval of 95%


@dataclass(frozen=True)
class Verdict:
    """One word, a reason in one sentence, and the figures behind it (percent of the held-out transitions).

    ``exact``: plan with the model. ``readable``: states can be read from the codes, but predictions are not reliable
    enough to plan. ``failed``: the model is of no use; the reason says what to change.
    """

    word: str
    reason: str
    figures: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.word}: {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def judge(encode: Callable[..., Any], predict: Callable[..., Any], val: Transitions) -> Verdict:
    """The verdict on a model, from transitions that it was not trained on.

    Args:
        encode: images uint8 (N, C, H, W) to bits (N, K).
        predict: bits (N, K) and actions (N,) to the next bits (N, K).
        val: the held-out transitions.
    """
    codes, next_codes = as_bits(encode(val.obs)), as_bits(encode(val.next_obs))
    predicted = as_bits(predict(codes, np.asarray(val.actions)))
    changed = (codes != next_codes).any(1)
    right = (predicted == next_codes).all(1)
    repeated = _repeated(val)
    figures: dict[str, Any] = {
        "transitions": len(val),
        "exact_next": 100 * float(right.mean()),
        "exact_changed": 100 * float(right[changed].mean()) if changed.any() else None,
        "copy": 100 * float((~changed).mean()),
        "collisions": None,
        "repeated_frames": repeated,
    }
    # Frames of one state may differ, so this is an upper bound: a low one holds for any data, a high one says nothing
    # unless states are always drawn the same way.
    shared = collisions_of_frames(np.concatenate([codes, next_codes]), (val.obs, val.next_obs))
    if shared <= MAX_COLLISIONS or (repeated is not None and repeated >= MIN_REPEATED):
        figures["collisions"] = shared
    return Verdict(*_word_and_reason(figures), figures)


def collisions_of_frames(codes: np.ndarray, frames: tuple[np.ndarray, ...]) -> float:
    """Percent of the frames whose code also stands for a frame with other pixels."""
    pixels = np.concatenate([_digests(part) for part in frames])
    names = _digests(np.packbits(codes, axis=1))
    first = dict(zip(names.tolist(), pixels.tolist(), strict=True))
    shared = {name for name, pixel in zip(names.tolist(), pixels.tolist(), strict=True) if first[name] != pixel}
    return 100 * float(np.isin(names, list(shared)).mean()) if shared else 0.0


def _digests(rows: np.ndarray) -> np.ndarray:
    """A hash of each row of (N, …)."""
    return np.array([hash(np.ascontiguousarray(row).tobytes()) for row in rows])


def _repeated(val: Transitions) -> float | None:
    """Percent of the pairs of frames of one state that have the same pixels; None if no pairs are known."""
    if val.episode is None:
        return None
    first, second = val.same_state_pairs()
    if not len(first):
        return None
    return 100 * float(np.mean([np.array_equal(val.next_obs[i], val.obs[j]) for i, j in zip(first, second)]))


def _word_and_reason(figures: Mapping[str, Any]) -> tuple[str, str]:
    exact, changed, collisions = figures["exact_next"], figures["exact_changed"], figures["collisions"]
    if changed is None:
        return FAILED, "the code never changes; collect transitions in which actions change the image"
    predicted = f"{exact:.2f}% of the next codes are predicted exactly"
    if collisions is None:
        known = "frames of one state differ" if figures["repeated_frames"] is not None else "the data has no episodes"
        unknown = f"collisions could not be measured, because {known}"
        if changed < 50:
            return FAILED, f"{predicted}, {changed:.2f}% of those that change, and {unknown}"
        return READABLE, f"{predicted}, but {unknown}"
    shared = f"{collisions:.2f}% of the frames share a code with another"
    if collisions > MAX_READABLE_COLLISIONS:
        return FAILED, f"{shared}; collect more varied transitions, or larger images"
    floor = lower_bound(exact, figures["transitions"])
    if min(floor, changed) >= MIN_EXACT and collisions <= MAX_COLLISIONS:
        return EXACT, f"{predicted}, and {shared}"
    if min(exact, changed) >= MIN_EXACT and collisions <= MAX_COLLISIONS:
        return READABLE, f"{predicted}, but {figures['transitions']} held-out transitions are too few to be sure"
    if changed < 50:
        return FAILED, f"{predicted}, {changed:.2f}% of those that change; train longer, or collect more transitions"
    return READABLE, f"{predicted}, and {shared}; more transitions may make it exact"


def lower_bound(percent: float, count: int) -> float:
    """The lower end of Wilson's one-sided 95% interval of a share in percent."""
    share, square = percent / 100, CONFIDENCE**2
    centre = share + square / (2 * count)
    spread = CONFIDENCE * math.sqrt(share * (1 - share) / count + square / (4 * count**2))
    return 100 * (centre - spread) / (1 + square / count)
