"""The certificate: how reliable a world model is, measured through two plain functions, so for anyone's model."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dwmr.data.transitions import Rollouts, Transitions
from dwmr.errors import InputError
from dwmr.evaluation.codes import code_health, confusions
from dwmr.evaluation.rollouts import along_episodes, along_rollouts, measure_drift
from dwmr.evaluation.true_graph import compare_graphs
from dwmr.evaluation.verdicts import answers, summary
from dwmr.models.callables import Encode, Predict, as_bits
from dwmr.seeding import rng
from dwmr.worlds.noise import add_noise
from dwmr.worlds.tasks import StateGraph

NOISE = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # standard deviations on the [0, 1] scale
MAX_NOISE_FRAMES = 2000


def certify(
    encode: Encode,
    predict: Predict,
    transitions: Transitions,
    *,
    rollouts: Rollouts | None = None,
    graphs: Sequence[StateGraph] | None = None,
    horizon: int = 1000,
    seed: int = 0,
) -> dict[str, Any]:
    """Answer eight questions about how reliable a model is. Labels are optional; with them more can be answered.

    Args:
        encode: maps uint8 images (N, C, H, W) to bits (N, K)
        predict: maps bits, as encode or predict returned them, and integer actions (N,) to the next bits (N, K)
        transitions: what to test the model on; best data that it was not trained on
        rollouts: long episodes for the drift; without them the episodes of ``transitions`` are used
        graphs: true graphs of the world, such as `World.true_graphs` makes
        horizon: the longest roll-out, in steps
        seed: seed of the pixel noise

    Returns:
        ``verdicts``, the answer to each question of `verdicts.QUESTIONS`, a ``summary`` in a few sentences, and the
        figures behind them, in percent: those of `codes.code_health`; with labels `codes.confusions`; ``redrawn``, the
        pairs of frames of one state whose pixels differ (None without episodes); ``noise``, {strength: {same_code,
        same_bits}}; ``drift``, see `rollouts.measure_drift`; with graphs ``graphs``, see `true_graph.compare_graphs`.
    """
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
        result |= confusions(codes, labels[0])
    if rollouts is not None:
        paths = along_rollouts(encode, rollouts, horizon)
    else:
        paths = along_episodes(raw, next_codes, transitions.actions, transitions.episode, horizon)
    result["redrawn"] = _redrawn(transitions)
    result["noise"] = _noise_stability(encode, transitions, seed)
    result["drift"] = measure_drift(predict, paths)
    if graphs is not None:
        result["graphs"] = compare_graphs(encode, predict, graphs)
    result["verdicts"] = answers(result)
    result["summary"] = summary(result)
    return result


def _redrawn(transitions: Transitions) -> float | None:
    """Percent of the pairs next_obs[t], obs[t + 1] of an episode whose pixels differ; None without pairs.

    At 0 the data never renders a state in two ways, so it cannot show whether a code is stable.
    """
    pairs = [] if transitions.episode is None else list(zip(*transitions.same_state_pairs()))
    differ = [bool((transitions.next_obs[one] != transitions.obs[other]).any()) for one, other in pairs]
    return 100 * float(np.mean(differ)) if differ else None


def _noise_stability(encode: Encode, transitions: Transitions, seed: int) -> dict[str, dict[str, float]]:
    """Percent of frames that keep their code (``same_code``), and of bits that keep their value (``same_bits``), when
    pixel noise of each strength is added. Measured on at most 2,000 frames spread over the transitions."""
    chosen = np.unique(np.linspace(0, len(transitions) - 1, MAX_NOISE_FRAMES).astype(int))
    frames = np.asarray(transitions.obs[chosen])
    clean = as_bits(encode(frames))
    scores = {}
    for strength in NOISE:
        noisy = add_noise(frames, rng(seed, "certify noise", round(1000 * strength)), strength)
        same = as_bits(encode(noisy)) == clean
        scores[f"{strength:g}"] = {"same_code": 100 * float(same.all(1).mean()), "same_bits": 100 * float(same.mean())}
    return scores
