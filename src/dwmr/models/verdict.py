"""What a finished model is good for, judged on held-out transitions without labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from dwmr.data.transitions import Transitions
from dwmr.models.callables import Encode, Predict, as_bits

EXACT, READABLE, FAILED = "exact", "readable", "failed"

MIN_EXACT = 99.0  # percent of the next codes of an exact model; what is measured must lie above it with confidence
MIN_EXACT_RENDERED = 96.0  # the same where frames of one state differ, and so some are misread
MAX_COLLISIONS = 0.1  # percent of the frames
MAX_READABLE_COLLISIONS = 5.0
MAX_UNEXPLAINED = 3.0  # percent of what frames of one state have in common
MIN_REPEATED = 99.0  # percent of the frames of one state that are equal, where states are always drawn the same way
MIN_CHANGED = 50.0  # percent of the next codes that change; with fewer a model has failed
CONFIDENCE = 1.645  # standard deviations of a one-sided interval of 95%
MIN_PAIRS = 300  # of held-out frames of one state; with fewer, training frames are compared
MAX_PAIRS = 5000
MAX_FRAMES = 20_000  # training frames among which collisions are counted, beside the held-out ones
MAX_MISDRAWN = 0.5  # percent of the frames
OFTEN = 0.01  # share of the frames in which a pixel must differ from what it mostly shows, to be looked at
MAX_PIXELS = 4e7  # in the frames compared with each other


CodedFrames = tuple[np.ndarray, np.ndarray]  # frames uint8 (N, C, H, W) and their codes bool (N, K)


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


def judge(
    encode: Encode,
    predict: Predict,
    val: Transitions,
    *,
    decode: Callable[[Any], Any] | None = None,
    train: Transitions | None = None,
) -> Verdict:
    """The verdict on a model, from transitions that it was not trained on.

    Args:
        encode: images uint8 (N, C, H, W) to bits (N, K).
        predict: bits (N, K) and actions (N,) to the next bits (N, K).
        val: the held-out transitions.
        decode: bits (N, K) to images. Without it, collisions are unknown where frames of one state differ.
        train: where pairs of frames of one state are taken from if ``val`` has none.
    """
    codes, next_codes = as_bits(encode(val.obs)), as_bits(encode(val.next_obs))
    predicted = as_bits(predict(codes, np.asarray(val.actions)))
    changed = (codes != next_codes).any(1)
    right = (predicted == next_codes).all(1)
    figures: dict[str, Any] = {
        "transitions": len(val),
        "changed": int(changed.sum()),
        "actions_not_held_out": sorted(set(range(val.n_actions)) - set(np.unique(val.actions).tolist())),
        "exact_next": 100 * float(right.mean()),
        "exact_changed": 100 * float(right[changed].mean()) if changed.any() else None,
        "copy": 100 * float((~changed).mean()),
        "collisions": None,
        "misdrawn": None,
        "unread_pixels": None,
        **_of_one_state(encode, decode, _with_pairs(val, train)),
    }
    # Frames of one state may differ, so this is an upper bound: a low one holds for any data, a high one says nothing
    # unless states are always drawn the same way.
    frames, codes_of_frames = [val.obs, val.next_obs], [codes, next_codes]
    if train is not None:
        frames.append(some := train.obs[_evenly(len(train), MAX_FRAMES)])
        codes_of_frames.append(as_bits(encode(some)))
    shared = collisions_of_frames(np.concatenate(codes_of_frames), tuple(frames))
    if shared <= MAX_COLLISIONS or (figures["repeated_frames"] or 0) >= MIN_REPEATED:
        figures["collisions"] = shared
        alike = figures["repeated_frames"] is None or figures["repeated_frames"] >= MIN_REPEATED  # no noise to be drawn
        if decode is not None and train is not None and alike:
            held_out, seen = (val.next_obs, next_codes), (some, codes_of_frames[-1])
            figures["misdrawn"] = misdrawn(decode, held_out, seen)
            figures["unread_pixels"] = unread_pixels(decode, held_out, seen)
    return Verdict(*_word_and_reason(figures), figures)


def collisions_of_frames(codes: np.ndarray, frames: tuple[np.ndarray, ...]) -> float:
    """Percent of the frames whose code also stands for a frame with other pixels."""
    pixels = np.concatenate([_digests(part) for part in frames])
    names = _digests(np.packbits(codes, axis=1))
    first = dict(zip(names.tolist(), pixels.tolist(), strict=True))
    shared = {name for name, pixel in zip(names.tolist(), pixels.tolist(), strict=True) if first[name] != pixel}
    return 100 * float(np.isin(names, list(shared)).mean()) if shared else 0.0


def misdrawn(decode: Callable[[Any], Any], held_out: CodedFrames, seen: CodedFrames) -> float:
    """Percent of the held-out frames that differ from the image drawn of their code, in some pixel, by more than any
    training frame does: they show what the code cannot say."""

    def errors(frames: np.ndarray, codes: np.ndarray) -> np.ndarray:
        chosen = _evenly(len(frames), _most_frames(frames))
        return np.asarray(np.abs(frames[chosen] - _drawn(decode, codes[chosen])).max((1, 2, 3)))

    return 100 * float((errors(*held_out) > errors(*seen).max()).mean())


def unread_pixels(decode: Callable[[Any], Any], held_out: CodedFrames, seen: CodedFrames) -> int:
    """How many pixels show something that codes do not say: neither the image drawn of the code nor a linear function
    of its bits, fitted to training frames, has half of the pixel's variance."""
    frames, codes = held_out
    chosen = _evenly(len(frames), _most_frames(frames))
    shown = frames[chosen].reshape(len(chosen), -1)
    often = (shown != np.median(shown, axis=0)).mean(0) >= OFTEN
    variance = shown[:, often].var(0)
    error = (shown[:, often] - _drawn(decode, codes[chosen]).reshape(len(chosen), -1)[:, often]).astype(np.float32)
    doubtful = (error**2).mean(0) > variance / 2
    values = np.flatnonzero(often)[doubtful]
    if not len(values):
        return 0
    known, of_known = (part[_evenly(len(part), _most_frames(frames))] for part in seen)
    bits, wanted = _with_one(of_known), known.reshape(len(known), -1)[:, values].astype(float)
    weights = np.linalg.solve(bits.T @ bits + np.eye(bits.shape[1]), bits.T @ wanted)
    left = ((shown[:, values] - _with_one(codes[chosen]) @ weights) ** 2).mean(0)
    return len(np.unique(values[left > variance[doubtful] / 2] % math.prod(frames.shape[2:])))


def _with_one(codes: np.ndarray) -> np.ndarray:
    return np.c_[codes.astype(float), np.ones(len(codes))]


def _most_frames(frames: np.ndarray) -> int:
    return int(min(MAX_PAIRS, MAX_PIXELS // math.prod(frames.shape[1:])))


def _drawn(decode: Callable[[Any], Any], codes: np.ndarray) -> np.ndarray:
    return np.asarray(torch.as_tensor(decode(codes)).cpu()).astype(np.int16)


def _evenly(count: int, most: int) -> np.ndarray:
    """At most so many indices below ``count``."""
    return np.linspace(0, count - 1, min(most, count)).astype(int)


def _digests(rows: np.ndarray) -> np.ndarray:
    """A hash of each row of (N, …)."""
    return np.array([hash(np.ascontiguousarray(row).tobytes()) for row in rows])


def _with_pairs(val: Transitions, train: Transitions | None) -> Transitions | None:
    """The transitions to take two frames of one state from: held-out ones, or training ones if those are few."""

    def count(transitions: Transitions) -> int:
        return 0 if transitions.episode is None else len(transitions.same_state_pairs()[0])

    chosen = val if train is None or count(val) >= MIN_PAIRS else max(val, train, key=count)
    return chosen if count(chosen) else None


def _of_one_state(
    encode: Encode, decode: Callable[[Any], Any] | None, transitions: Transitions | None
) -> dict[str, float | None]:
    """What can be said of pairs of frames of one state: how many have the same pixels (``repeated_frames``), how many
    the same code (``same_code``), and what their codes miss (`unexplained`)."""
    figures: dict[str, float | None] = dict.fromkeys(("repeated_frames", "same_code", "unexplained"))
    if transitions is None:
        return figures
    first, second = transitions.same_state_pairs()
    chosen = _evenly(len(first), _most_frames(transitions.obs))
    one, other = transitions.next_obs[first[chosen]], transitions.obs[second[chosen]]
    codes, same_state = as_bits(encode(one)), as_bits(encode(other))
    same = (codes == same_state).all(1)
    repeated = 100 * float((one == other).all((1, 2, 3)).mean())
    figures |= {"repeated_frames": repeated, "same_code": 100 * float(same.mean())}
    if decode is not None and repeated < MIN_REPEATED and same.sum() > 1:
        drawn = np.asarray(torch.as_tensor(decode(codes)).cpu())
        figures["unexplained"] = unexplained(one, other, drawn, same)
    return figures


def unexplained(one: np.ndarray, other: np.ndarray, drawn: np.ndarray, same: np.ndarray) -> float:
    """How much of what two frames of a state have in common is missing from what is drawn of their code, in percent.

    Two frames of one state are drawn independently. So what they have in common is the state, and if the code says all
    of it, what remains of the frames has nothing in common. If two states share a code, what remains shows which of
    them it is, in both frames.

    Args:
        one, other: frames uint8 (P, C, H, W); those of a pair show the same state.
        drawn: images uint8 (P, C, H, W) drawn of the codes of ``one``.
        same: bool (P,), the pairs whose codes are equal, which are the ones looked at.

    Returns:
        the share, plus two standard errors, so that few pairs prove little.
    """
    first, second, image = (part.reshape(len(part), -1).astype(np.float32) for part in (one, other, drawn))
    common = ((first - first.mean(0)) * (second - second.mean(0))).sum(1).mean()
    first, second = (first - image)[same], (second - image)[same]
    left = ((first - first.mean(0)) * (second - second.mean(0))).sum(1)
    error = left.std(ddof=1) / math.sqrt(len(left))
    return 100 * float((left.mean() + 2 * error) / common) if common > 0 else 100.0


def _word_and_reason(figures: Mapping[str, Any]) -> tuple[str, str]:
    exact, changed, collisions = figures["exact_next"], figures["exact_changed"], figures["collisions"]
    if changed is None:
        return FAILED, "the code never changes; collect transitions in which actions change the image"
    predicted = f"{exact:.2f}% of the next codes are predicted exactly"
    failed = f"{predicted}, {changed:.2f}% of those that change"
    floor = min(lower_bound(exact, figures["transitions"]), lower_bound(changed, figures["changed"]))
    if collisions is not None:
        known = f"{collisions:.2f}% of the frames share a code with another"
        if collisions > MAX_READABLE_COLLISIONS:
            return FAILED, f"{known}; collect more varied transitions, or larger images"
        wanted, told_apart = MIN_EXACT, collisions <= MAX_COLLISIONS
    elif figures["unexplained"] is not None:
        known = f"codes miss at most {max(0.0, figures['unexplained']):.2f}% of what frames of one state have in common"
        wanted, told_apart = MIN_EXACT_RENDERED, figures["unexplained"] <= MAX_UNEXPLAINED
    else:
        unpaired = figures["repeated_frames"] is None
        why = "the data has no episodes of two or more steps" if unpaired else "frames of one state differ"
        known = f"collisions could not be measured, because {why}"
        wanted, told_apart = MIN_EXACT, False
    if changed < MIN_CHANGED:
        return FAILED, f"{failed}, and {known}; train longer, or collect more transitions"
    if told_apart and (figures["misdrawn"] or 0.0) > MAX_MISDRAWN:
        new = f"{figures['misdrawn']:.2f}% of the held-out frames show something that the training frames do not"
        return READABLE, f"{predicted}, but {new}; collect more varied transitions"
    if told_apart and figures["unread_pixels"]:
        count = figures["unread_pixels"]
        return READABLE, f"{predicted}, but {count} pixels show something that codes do not say, such as a counter"
    if told_apart and floor >= wanted:
        if absent := figures["actions_not_held_out"]:
            return READABLE, f"{predicted}, but no held-out transition has the action {absent[0]}; collect more of it"
        return EXACT, f"{predicted}, and {known}"
    if told_apart and min(exact, changed) >= wanted:
        found = f"{figures['transitions']} held-out transitions, {figures['changed']} of which change the code,"
        return READABLE, f"{predicted}, but {found} are too few to be sure"
    return READABLE, f"{predicted}, and {known}"


def lower_bound(percent: float, count: int) -> float:
    """The lower end of Wilson's one-sided 95% interval of a share in percent."""
    share, square = percent / 100, CONFIDENCE**2
    centre = share + square / (2 * count)
    spread = CONFIDENCE * math.sqrt(share * (1 - share) / count + square / (4 * count**2))
    return 100 * (centre - spread) / (1 + square / count)
