"""How good a world model is: what can be read from its bits, how well it imagines, how healthy its code is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from dwmr.errors import InputError
from dwmr.evaluation.codes import certify, code_health, confusions, to_numpy
from dwmr.evaluation.metrics import board_scores
from dwmr.evaluation.probes import Probe, fit_probe
from dwmr.evaluation.rollouts import rollout_scores
from dwmr.transitions import Rollouts, Transitions
from dwmr.world_model import WorldModel

__all__ = ["Examination", "certify", "evaluate", "examine"]


@dataclass(frozen=True)
class Examination:
    """The figures of `evaluate`, and what they were computed from: codes of the test split, bool (N, K) each, and
    the probe (None without labels)."""

    figures: dict[str, Any]
    codes: Tensor
    next_codes: Tensor
    predicted: Tensor
    probe: Probe | None


def evaluate(
    model: WorldModel,
    *,
    train: Transitions,
    test: Transitions,
    rollout: Rollouts | None = None,
    horizon: int = 1000,
    seed: int = 0,
) -> dict[str, Any]:
    """All the figures of a model, in percent where they are shares; without labels the label-free part alone.

    encoding, imagination  the board read from the encoded frame, and from the code imagined one step ahead:
                           f1, f1_true_labels, accuracy, board_accuracy, changed_cells_f1
    rollout                {horizon: {bits, exact, f1}} along held-out episodes
    codes                  dead, duplicate, flips_mean, collisions, splits, same_code, exact_next, …
    baselines              copy (the board stays as it is) and majority (each cell's most frequent label), both with
                           the scores of imagination
    """
    return examine(model, train=train, test=test, rollout=rollout, horizon=horizon, seed=seed).figures


def examine(
    model: WorldModel,
    *,
    train: Transitions,
    test: Transitions,
    rollout: Rollouts | None = None,
    horizon: int = 1000,
    seed: int = 0,
) -> Examination:
    """`evaluate`, with the codes and the probe kept."""
    for name, part in (("train", train), ("test", test)):
        if (part.image_shape, part.n_actions) != (model.image_shape, model.n_actions):
            raise InputError(
                f"the model takes images {model.image_shape} and {model.n_actions} actions, but {name} has "
                f"{part.image_shape} and {part.n_actions}"
            )
    codes, next_codes = model.encode(test.obs), model.encode(test.next_obs)
    predicted = model.predict(codes, np.asarray(test.actions))
    figures: dict[str, Any] = {}
    probe = None
    health = code_health(to_numpy(codes), to_numpy(next_codes), to_numpy(predicted), test.episode)
    if train.state is not None and train.next_state is not None:
        if test.state is None or test.next_state is None:
            raise InputError("the training split has labels but the test split has none")
        n_classes = max(train.n_classes or 0, test.n_classes or 0)
        probe = fit_probe(model.encode(train.obs), np.asarray(train.state), n_classes, model.probe, seed)
        now, then = _cells(test.state), _cells(test.next_state)
        changed = now != then
        usual = _majority(_cells(train.next_state), n_classes)
        figures["encoding"] = board_scores(now, probe.read(codes), n_classes, changed)
        figures["imagination"] = board_scores(then, probe.read(predicted), n_classes, changed)
        figures["baselines"] = {
            "copy": board_scores(then, now, n_classes, changed),
            "majority": board_scores(then, np.broadcast_to(usual, then.shape), n_classes, changed),
        }
        health |= confusions(to_numpy(codes), now)
    figures["codes"] = health
    if rollout is not None:
        figures["rollout"] = rollout_scores(model, rollout, probe, horizon)
    return Examination(figures, codes, next_codes, predicted, probe)


def _cells(states: np.ndarray) -> np.ndarray:
    return np.asarray(states).reshape(len(states), -1).astype(np.int64)


def _majority(states: np.ndarray, n_classes: int) -> np.ndarray:
    """The most frequent label of each cell, (cells,)."""
    return np.array([np.bincount(cell, minlength=n_classes).argmax() for cell in states.T])
