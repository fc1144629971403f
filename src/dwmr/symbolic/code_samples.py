"""The codes that a model meets, and how well rules stand in for the model on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dwmr.data.transitions import Transitions
from dwmr.models.callables import Encode, Predict, as_bits, take

if TYPE_CHECKING:
    from dwmr.symbolic.rules import RuleSet

PAIRS = 16_000  # pairs of a code and an action that rules are fitted or judged on
DEPTH = 3  # steps imagined on from a frame


@dataclass(frozen=True)
class Met:
    """Codes bool (M, K), the action taken in each (M,), the code that the model predicts (M, K), and whether the code
    was itself imagined (M,). ``frame`` (M,) is the transition where it was seen, −1 for imagined ones."""

    codes: np.ndarray
    actions: np.ndarray
    after: np.ndarray
    imagined: np.ndarray
    frame: np.ndarray

    def __len__(self) -> int:
        return len(self.codes)


def met_codes(encode: Encode, predict: Predict, data: Transitions, *, pairs: int = PAIRS, depth: int = DEPTH) -> Met:
    """Codes of frames spread over the data, and those imagined from them along the actions that were really taken
    next. So no action is tried where the data never tries it."""
    actions = np.asarray(data.actions).astype(np.int64)
    steps = depth + 1 if data.episode is not None else 1
    starts = np.unique(np.linspace(0, len(data) - 1, min(len(data), -(-pairs // steps))).astype(np.int64))
    raw, now = encode(np.asarray(data.obs[starts])), starts
    parts = []
    for step in range(steps):
        after = predict(raw, actions[now])
        frame = now if step == 0 else np.full(len(now), -1)
        parts.append((as_bits(raw), actions[now], as_bits(after), np.full(len(now), step > 0), frame))
        if data.episode is None or step == depth:
            break
        goes_on = now + 1 < len(data)
        goes_on[goes_on] &= np.asarray(data.episode)[now[goes_on]] == np.asarray(data.episode)[now[goes_on] + 1]
        if not goes_on.any():
            break
        raw, now = take(after, np.flatnonzero(goes_on)), now[goes_on] + 1
    return Met(*(np.concatenate(column) for column in zip(*parts)))


def fidelity(rules: RuleSet, met: Met, encode: Encode, data: Transitions) -> dict[str, Any]:
    """How well rules stand in for the model, in percent unless said otherwise.

    pairs           of a code and an action (count), and how many of the codes were imagined (count)
    bits, states    single bits, and whole codes, that the rules predict as the model does
    changing        whole codes, of the pairs in which the model changes something
    flips           single bits, of those that the model flips
    encoded, imagined   whole codes, by where the code before came from
    copy            whole codes for which predicting no change would do
    frames          of the codes that were seen: next codes equal to the code of the next frame, by rules and by model
    """
    predicted = rules.predict(met.codes, met.actions)
    right = predicted == met.after
    whole, flipped = right.all(1), met.codes != met.after
    seen = ~met.imagined
    next_codes = as_bits(encode(np.asarray(data.next_obs[met.frame[seen]])))
    return {
        "pairs": len(met),
        "imagined_pairs": int(met.imagined.sum()),
        "bits": _percent(right),
        "states": _percent(whole),
        "changing": _percent(whole[flipped.any(1)]),
        "flips": _percent(right[flipped]),
        "encoded": _percent(whole[seen]),
        "imagined": _percent(whole[met.imagined]),
        "copy": _percent(~flipped.any(1)),
        "frames": {
            "rules": _percent((predicted[seen] == next_codes).all(1)),
            "model": _percent((met.after[seen] == next_codes).all(1)),
        },
    }


def _percent(right: np.ndarray) -> float | None:
    return 100 * float(right.mean()) if right.size else None
