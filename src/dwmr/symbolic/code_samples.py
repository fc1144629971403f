"""Codes that a model encounters on data, and how closely rules follow the model on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dwmr.data.transitions import Transitions
from dwmr.models.callables import Encode, Predict, as_bits, take

if TYPE_CHECKING:
    from dwmr.symbolic.rules import BitRules, CellRules

PAIRS = 16_000  # pairs of a code and an action that rules are fitted or judged on
DEPTH = 3  # imagined steps after each frame


@dataclass(frozen=True)
class CodeSamples:
    """Pairs of a code and an action, and what the model predicts for them.

    codes    bool (M, K)
    actions  int (M,)
    after    the predicted codes, bool (M, K)
    frame    the transition where the code was observed, (M,); −1 if the code itself was imagined
    """

    codes: np.ndarray
    actions: np.ndarray
    after: np.ndarray
    frame: np.ndarray

    @property
    def imagined(self) -> np.ndarray:
        return self.frame < 0


def sample_codes(
    encode: Encode, predict: Predict, data: Transitions, *, pairs: int = PAIRS, depth: int = DEPTH
) -> CodeSamples:
    """Codes of frames spread over the data, and codes imagined from them along the actions that were taken next.

    So no action is tried where the data never tries it.
    """
    steps = 1 if data.episode is None else depth + 1
    starts = np.unique(np.linspace(0, len(data) - 1, min(len(data), -(-pairs // steps))).astype(np.int64))
    actions, raw, now = np.asarray(data.actions).astype(np.int64), encode(np.asarray(data.obs[starts])), starts
    parts = []
    for step in range(steps):
        after = predict(raw, actions[now])
        frame = now if step == 0 else np.full(len(now), -1)
        parts.append((as_bits(raw), actions[now], as_bits(after), frame))
        if data.episode is None:
            break
        goes_on = now + 1 < len(data)
        goes_on[goes_on] &= np.asarray(data.episode)[now[goes_on]] == np.asarray(data.episode)[now[goes_on] + 1]
        if not goes_on.any():
            break
        raw, now = take(after, np.flatnonzero(goes_on)), now[goes_on] + 1
    return CodeSamples(*(np.concatenate(column) for column in zip(*parts)))


def fidelity(rules: CellRules | BitRules, samples: CodeSamples, encode: Encode, data: Transitions) -> dict[str, Any]:
    """How closely rules follow the model, in percent.

    pairs, imagined_pairs  codes with actions, and how many of the codes were imagined (counts)
    bits, states           bits, and whole codes, that the rules predict as the model does
    changing               whole codes, where the model changes something
    flips                  bits that the model flips
    encoded, imagined      whole codes, by where the code before came from
    copy                   whole codes that do not change
    frames                 observed codes: next codes equal to the next frame's code, by the rules and by the model
    """
    predicted = rules.predict(samples.codes, samples.actions)
    right = predicted == samples.after
    whole, flipped = right.all(1), samples.codes != samples.after
    observed = ~samples.imagined
    next_codes = as_bits(encode(np.asarray(data.next_obs[samples.frame[observed]])))
    return {
        "pairs": len(samples.codes),
        "imagined_pairs": int(samples.imagined.sum()),
        "bits": _percent(right),
        "states": _percent(whole),
        "changing": _percent(whole[flipped.any(1)]),
        "flips": _percent(right[flipped]),
        "encoded": _percent(whole[observed]),
        "imagined": _percent(whole[samples.imagined]),
        "copy": _percent(~flipped.any(1)),
        "frames": {
            "rules": _percent((predicted[observed] == next_codes).all(1)),
            "model": _percent((samples.after[observed] == next_codes).all(1)),
        },
    }


def _percent(right: np.ndarray) -> float | None:
    return 100 * float(right.mean()) if right.size else None
