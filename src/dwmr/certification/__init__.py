"""How far to trust a world model, whoever made it: two plain callables and transitions suffice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dwmr.callables import Encode, Predict, as_bits, keys
from dwmr.certification.drift import along_rollouts, along_transitions, follow
from dwmr.certification.graphs import StateGraph, compare_graphs
from dwmr.certification.looks import NOISE, noise_stability, redrawn_share
from dwmr.certification.verdicts import answers, summary
from dwmr.errors import InputError
from dwmr.evaluation.codes import code_health, confusions
from dwmr.evaluation.information import information
from dwmr.transitions import Rollouts, Transitions

__all__ = ["StateGraph", "certify"]


def certify(
    encode: Encode,
    predict: Predict,
    transitions: Transitions,
    *,
    rollouts: Rollouts | None = None,
    graphs: Sequence[StateGraph] | None = None,
    noise: Sequence[float] = NOISE,
    horizon: int = 1000,
    seed: int = 0,
) -> dict[str, Any]:
    """How far to trust anyone's Boolean world model. Needs no labels; where there are some, it says more.

    ``encode(images)`` takes uint8 (N, C, H, W) and returns bits (N, K); ``predict(bits, actions)`` takes what encode
    or predict returned and integers (N,), and returns the next bits (N, K). Percentages, unless said otherwise:

    bits … state_share_min  health of the code, see `dwmr.evaluation.codes.code_health`
    collisions, splits      with labels: see `dwmr.evaluation.codes.confusions`
    redrawn                 pairs of frames of one state whose pixels differ, or None where no episodes are named
    information             how much the code can say, see `dwmr.evaluation.information`
    noise                   {standard deviation: {same_code, same_bits}} when pixel noise is added to a frame
    drift                   {steps: {bits, exact, known, known_seen, episodes}} along ``rollouts``, or without them
                            along the transitions' episodes, see `dwmr.certification.drift`
    graphs                  with ``graphs``: the world it learned against the true one, see `dwmr.certification.graphs`;
                            `dwmr.certification.levels` has those of IceSlider
    verdicts                an answer to each question of `dwmr.certification.verdicts`
    summary                 what to do with the model
    """
    raw = encode(transitions.obs)
    codes, next_codes = as_bits(raw), as_bits(encode(transitions.next_obs))
    predicted = as_bits(predict(raw, np.asarray(transitions.actions)))
    if not codes.shape == next_codes.shape == predicted.shape or len(codes) != len(transitions):
        raise InputError(
            f"encode and predict must return codes of one shape (N, K) with N = {len(transitions)}, "
            f"got {codes.shape}, {next_codes.shape} and {predicted.shape}"
        )
    found = code_health(codes, next_codes, predicted, transitions.episode)
    if transitions.state is not None:
        found |= confusions(codes, np.asarray(transitions.state))
    everything = np.concatenate([codes, next_codes])
    if rollouts is not None:
        course = along_rollouts(encode, rollouts, horizon)
    else:
        course = along_transitions(raw, next_codes, transitions.actions, transitions.episode)
    found["redrawn"] = redrawn_share(transitions)
    found["information"] = information(everything)
    found["noise"] = noise_stability(encode, transitions, noise, seed)
    found["drift"] = follow(predict, course, set(keys(everything)))
    if graphs is not None:
        found["graphs"] = compare_graphs(encode, predict, graphs)
    found["verdicts"] = answers(found)
    found["summary"] = summary(found)
    return found
