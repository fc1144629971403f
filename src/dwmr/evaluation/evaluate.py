"""Evaluate world models: what can be read from their bits, how well they predict, how healthy their codes are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dwmr.data.transitions import Rollouts, Transitions
from dwmr.errors import InputError
from dwmr.evaluation.codes import code_health, confusions, shared_dimensions, to_numpy
from dwmr.evaluation.intervals import board_intervals, independent_units
from dwmr.evaluation.metrics import board_scores
from dwmr.evaluation.probes import Probe, fit_probes
from dwmr.evaluation.repair import Repair
from dwmr.evaluation.rollouts import rollout_scores
from dwmr.evaluation.variance import same_state_codes, same_state_pairs
from dwmr.models.world_model import WorldModel

MAX_REPAIR_TRANSITIONS = 10_000  # training transitions from which repair estimates the predictor's errors


@dataclass(frozen=True)
class Evaluation:
    """The figures of `evaluate` and what they were computed from.

    figures     the dictionary that `evaluate` returns
    codes       bool (N, K), the codes of the test frames
    next_codes  bool (N, K), the codes of the next frames
    predicted   bool (N, K), the next codes predicted from ``codes``
    probe       the fitted probe, None without labels
    """

    figures: dict[str, Any]
    codes: Tensor
    next_codes: Tensor
    predicted: Tensor
    probe: Probe | None


@dataclass(frozen=True)
class _Labels:
    """The true boards before and after each test transition, int (N, cells), and which cells the action changes."""

    before: np.ndarray
    after: np.ndarray
    n_classes: int

    @property
    def changed(self) -> np.ndarray:
        return self.before != self.after

    def scores(self, true: np.ndarray, read: np.ndarray) -> dict[str, float | None]:
        return board_scores(true, read, self.n_classes, self.changed)


def evaluate(
    model: WorldModel,
    *,
    train: Transitions,
    test: Transitions,
    rollout: Rollouts | None = None,
    horizon: int = 1000,
    seed: int = 0,
    intervals: bool = False,
    repair: bool = False,
) -> dict[str, Any]:
    """Evaluate a model on ``test``; shares are in percent. Without labels, only the label-free figures are returned.

    encoding, imagination  scores of the board read from the code of a frame, and from the code predicted one step
                           ahead: f1, f1_true_labels, accuracy, board_accuracy, changed_cells_f1
    baselines              the scores of two trivial predictions: copy (the board does not change) and majority (the
                           most frequent label of each cell)
    rollout                {horizon: {bits, exact, f1, …}} along held-out episodes, see `rollouts.rollout_scores`
    codes                  dead, duplicate, flips_mean, collisions, splits, same_code, exact_next, …, see
                           `codes.code_health`
    intervals              with ``intervals``: 95% bootstrap intervals [low, high] of encoding and imagination,
                           resampled over levels, episodes, or pieces of long episodes
    …_repaired             with ``repair``: encoding, imagination and, under codes, exact_next and same_code from codes
                           corrected by `dwmr.Repair`; ``repair`` names the information that this uses

    Args:
        train: transitions on which the probe is fitted
        test: transitions on which the model is scored
        rollout: long held-out episodes
        horizon: the longest roll-out, in steps
        seed: seed of the probe and of the bootstrap

    Raises:
        InputError: the data does not fit the model, or ``repair`` is set and the data has no episodes.
    """
    return evaluate_many(
        [model], train=train, test=test, rollout=rollout, horizon=horizon, seed=seed, intervals=intervals, repair=repair
    )[0].figures


def evaluate_many(
    models: Sequence[WorldModel],
    *,
    train: Transitions,
    test: Transitions,
    rollout: Rollouts | None = None,
    horizon: int = 1000,
    seed: int = 0,
    intervals: bool = False,
    repair: bool = False,
) -> list[Evaluation]:
    """`evaluate` several models of the same shape on the same data; their probes are fitted together."""
    _check(models, train, test, repair)
    probes, labels = _probes_and_labels(models, train, test, seed)
    baselines = _baselines(labels, train)
    obs, next_obs = _on_device(test.obs, models[0]), _on_device(test.next_obs, models[0])
    evaluations = []
    for model, probe in zip(models, probes):
        codes, next_codes = model.encode(obs), model.encode(next_obs)
        predicted = model.predict(codes, np.asarray(test.actions))
        health = code_health(to_numpy(codes), to_numpy(next_codes), to_numpy(predicted), test.episode)
        figures: dict[str, Any] = {}
        if probe is not None and labels is not None:
            readings = {
                "encoding": (labels.before, probe.read(codes)),
                "imagination": (labels.after, probe.read(predicted)),
            }
            figures |= {name: labels.scores(true, read) for name, (true, read) in readings.items()}
            figures["baselines"] = dict(baselines)
            if intervals:
                units = independent_units(test)
                figures["intervals"] = {
                    name: board_intervals(true, read, labels.n_classes, labels.changed, units, seed=seed)
                    for name, (true, read) in readings.items()
                } | {"units": int(units.max()) + 1}
            health |= confusions(to_numpy(codes), labels.before)
        figures["codes"] = health
        if repair:
            figures |= _repaired(model, train, test, probe, labels)
            health |= figures.pop("codes_repaired")
        if rollout is not None:
            figures["rollout"] = rollout_scores(model, rollout, probe, horizon)
        evaluations.append(Evaluation(figures, codes, next_codes, predicted, probe))
    return evaluations


def imagination_scores(
    models: Sequence[WorldModel], *, train: Transitions, test: Transitions, seed: int = 0
) -> list[dict[str, float]]:
    """The few figures of `evaluate` needed to choose among models, in percent.

    encoding, imagination  the paper's F1
    true_labels            the F1 of imagination over the true labels
    exact_next             whole next codes predicted correctly
    shared                 `codes.shared_dimensions` of predicted and encoded next codes (a number of bits)

    Without labels only the last two are returned.
    """
    results = []
    for each in evaluate_many(models, train=train, test=test, seed=seed):
        scores = {
            "exact_next": each.figures["codes"]["exact_next"],
            "shared": shared_dimensions(each.predicted, each.next_codes),
        }
        if each.probe is not None:
            encoding, imagination = each.figures["encoding"], each.figures["imagination"]
            scores |= {
                "encoding": encoding["f1"],
                "imagination": imagination["f1"],
                "true_labels": imagination["f1_true_labels"],
            }
        results.append(scores)
    return results


def _check(models: Sequence[WorldModel], train: Transitions, test: Transitions, repair: bool) -> None:
    first = models[0]
    if len({(model.bits, model.probe, model.image_shape, model.n_actions) for model in models}) > 1:
        raise InputError("models evaluated together must agree in bits, probe, image shape and number of actions")
    for name, part in (("train", train), ("test", test)):
        if (part.image_shape, part.n_actions) != (first.image_shape, first.n_actions):
            raise InputError(
                f"the model expects images {first.image_shape} and {first.n_actions} actions, but {name} has "
                f"{part.image_shape} and {part.n_actions}"
            )
        if repair and not len(same_state_pairs(part.episode)):
            raise InputError(f"repair needs episodes, but {name} does not say which transitions follow each other")


def _probes_and_labels(
    models: Sequence[WorldModel], train: Transitions, test: Transitions, seed: int
) -> tuple[Sequence[Probe | None], _Labels | None]:
    """One probe per model and the test labels; None each if either split has no labels."""
    if train.state is None or test.state is None or test.next_state is None:
        return [None] * len(models), None
    if train.state.shape[1:] != test.state.shape[1:]:
        raise InputError(f"train has boards of {train.state.shape[1:]}, but test has {test.state.shape[1:]}")
    labels = _Labels(_flat(test.state), _flat(test.next_state), max(train.n_classes or 0, test.n_classes or 0))
    frames = _on_device(train.obs, models[0])
    codes = torch.stack([model.encode(frames) for model in models])
    return fit_probes(codes, np.asarray(train.state), labels.n_classes, models[0].probe, seed), labels


def _baselines(labels: _Labels | None, train: Transitions) -> dict[str, Any]:
    """The scores of copying the last board, and of each cell's most frequent label in ``train``."""
    if labels is None or train.next_state is None:
        return {}
    counts = (np.bincount(cell, minlength=labels.n_classes) for cell in _flat(train.next_state).T)
    majority = np.array([count.argmax() for count in counts])
    guesses = {"copy": labels.before, "majority": np.broadcast_to(majority, labels.after.shape)}
    return {name: labels.scores(labels.after, guess) for name, guess in guesses.items()}


def _repaired(
    model: WorldModel, train: Transitions, test: Transitions, probe: Probe | None, labels: _Labels | None
) -> dict[str, Any]:
    """The figures from repaired codes, and what repair uses."""
    repair = Repair.measured(model, train[:MAX_REPAIR_TRANSITIONS])
    repaired = repair.transitions(test)
    predicted = model.predict(repaired.before, np.asarray(test.actions))
    first, second = same_state_codes(to_numpy(repaired.before), to_numpy(repaired.after), test.episode)
    figures: dict[str, Any] = {
        "repair": repair.about,
        "codes_repaired": {
            "exact_next_repaired": 100 * float((predicted == repaired.after).all(1).float().mean()),
            "same_code_repaired": 100 * float((first == second).all(1).mean()) if len(first) else None,
        },
    }
    if probe is not None and labels is not None:
        figures["encoding_repaired"] = labels.scores(labels.before, probe.read(repaired.codes))
        figures["imagination_repaired"] = labels.scores(labels.after, probe.read(repaired.predicted))
    return figures


def _on_device(images: np.ndarray, model: WorldModel) -> np.ndarray | Tensor:
    """The frames copied once to the model's GPU for all models; on a CPU they can stay on disk."""
    return images if model.device.type == "cpu" else torch.from_numpy(np.array(images)).to(model.device)


def _flat(states: np.ndarray) -> np.ndarray:
    return np.asarray(states).reshape(len(states), -1).astype(np.int64)
