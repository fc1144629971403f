"""How far to trust a world model, whoever made it: two plain callables and transitions suffice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dwmr.data.transitions import Rollouts, Transitions
from dwmr.errors import InputError
from dwmr.evaluation.codes import code_health, confusions, information
from dwmr.evaluation.drift import along_rollouts, along_transitions, follow
from dwmr.evaluation.stability import NOISE, noise_stability, redrawn_share, redrawn_states
from dwmr.evaluation.true_graph import StateGraph, compare_graphs
from dwmr.evaluation.verdicts import answers, summary
from dwmr.models.callables import Encode, Predict, as_bits, keys

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
    redrawn_states          with labels: frames whose state is also shown by another picture
    information             how much the code can say, see `dwmr.evaluation.codes.information`
    noise                   {standard deviation: {same_code, same_bits}} when pixel noise is added to a frame
    drift                   {steps: {bits, exact, known, known_seen, episodes}} along ``rollouts``, or without them
                            along the transitions' episodes, see `dwmr.evaluation.drift`
    graphs                  with ``graphs``: the world it learned against the true one, see
                            `dwmr.evaluation.true_graph`; `dwmr.evaluation.level_graphs` has those of IceSlider
    verdicts                an answer to each question of `dwmr.evaluation.verdicts`
    summary                 what to do with the model
    """
    if wrong := [strength for strength in noise if not 0 <= strength < math.inf]:
        raise InputError(f"noise is given by standard deviations on the [0, 1] scale, got {wrong[0]}")
    raw = encode(transitions.obs)
    codes, next_codes = as_bits(raw), as_bits(encode(transitions.next_obs))
    if codes.shape != next_codes.shape or len(codes) != len(transitions):
        raise InputError(
            f"encode must return codes of one shape (N, K) with N = {len(transitions)}, "
            f"got {codes.shape} and {next_codes.shape}"
        )
    predicted = as_bits(predict(raw, np.asarray(transitions.actions)))
    if predicted.shape != codes.shape:
        raise InputError(f"predict must return codes of the shape it was given, {codes.shape}, got {predicted.shape}")
    found = code_health(codes, next_codes, predicted, transitions.episode)
    if transitions.state is not None:
        states = np.asarray(transitions.state)
        found |= confusions(codes, states) | {"redrawn_states": redrawn_states(transitions.obs, states)}
    everything = np.concatenate([codes, next_codes])
    if rollouts is not None:
        course = along_rollouts(encode, rollouts, horizon)
    else:
        course = along_transitions(raw, next_codes, transitions.actions, transitions.episode, horizon)
    found["redrawn"] = redrawn_share(transitions)
    found["information"] = information(everything)
    found["noise"] = noise_stability(encode, transitions, noise, seed)
    found["drift"] = follow(predict, course, set(keys(everything)))
    if graphs is not None:
        found["graphs"] = compare_graphs(encode, predict, graphs)
    found["verdicts"] = answers(found)
    found["summary"] = summary(found)
    return found
