"""The certificate: how reliable a world model is, measured through two plain functions, so for anyone's model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dwmr.data.transitions import Rollouts, Transitions
from dwmr.errors import InputError
from dwmr.evaluation.codes import code_health, confusions, information
from dwmr.evaluation.drift import along_episodes, along_rollouts, measure_drift
from dwmr.evaluation.stability import NOISE, noise_stability, redrawn_share, redrawn_states
from dwmr.evaluation.true_graph import compare_graphs
from dwmr.evaluation.verdicts import answers, summary
from dwmr.models.callables import Encode, Predict, as_bits, keys
from dwmr.worlds.tasks import StateGraph


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
    """Answer ten yes/no questions about how reliable a model is. Labels are optional; with them more can be answered.

    Args:
        encode: maps uint8 images (N, C, H, W) to bits (N, K)
        predict: maps bits, as encode or predict returned them, and integer actions (N,) to the next bits (N, K)
        transitions: what to test the model on; best data that it was not trained on
        rollouts: long episodes for the drift; without them the episodes of ``transitions`` are used
        graphs: true graphs of the world, such as `World.true_graphs` makes
        noise: standard deviations of the pixel noise to test, on the [0, 1] scale
        horizon: the longest roll-out, in steps
        seed: seed of the pixel noise

    Returns:
        A dictionary, in percent unless a count is named:

        bits … state_share_min  the health of the code, see `codes.code_health`
        collisions, splits      with labels, see `codes.confusions`
        redrawn                 pairs of frames of one state whose pixels differ; None without episodes
        redrawn_states          with labels: frames whose state also occurs with other pixels
        information             how much information the code carries, see `codes.information`
        noise                   {strength: {same_code, same_bits}} under pixel noise
        drift                   {steps: {bits, exact, known, known_seen, episodes}}, see `drift.measure_drift`
        graphs                  with ``graphs``, see `true_graph.compare_graphs`
        verdicts                the answer to each question of `verdicts.QUESTIONS`
        summary                 what the model can be used for, in a few sentences
    """
    if wrong := [strength for strength in noise if not 0 <= strength < math.inf]:
        raise InputError(f"noise must be standard deviations of 0 or more on the [0, 1] scale, got {wrong[0]}")
    raw = encode(transitions.obs)
    codes, next_codes = as_bits(raw), as_bits(encode(transitions.next_obs))
    if codes.shape != next_codes.shape or len(codes) != len(transitions):
        raise InputError(
            f"encode must return codes of shape (N, K) with N = {len(transitions)}, "
            f"got {codes.shape} and {next_codes.shape}"
        )
    predicted = as_bits(predict(raw, np.asarray(transitions.actions)))
    if predicted.shape != codes.shape:
        raise InputError(f"predict must return codes of the shape of its input, {codes.shape}, got {predicted.shape}")
    result = code_health(codes, next_codes, predicted, transitions.episode)
    labels = transitions.flat_labels()
    if labels is not None:
        states = labels[0]
        result |= confusions(codes, states) | {"redrawn_states": redrawn_states(transitions.obs, states)}
    all_codes = np.concatenate([codes, next_codes])
    if rollouts is not None:
        paths = along_rollouts(encode, rollouts, horizon)
    else:
        paths = along_episodes(raw, next_codes, transitions.actions, transitions.episode, horizon)
    result["redrawn"] = redrawn_share(transitions)
    result["information"] = information(all_codes)
    result["noise"] = noise_stability(encode, transitions, noise, seed)
    result["drift"] = measure_drift(predict, paths, set(keys(all_codes)))
    if graphs is not None:
        result["graphs"] = compare_graphs(encode, predict, graphs)
    result["verdicts"] = answers(result)
    result["summary"] = summary(result)
    return result
