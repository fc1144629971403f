"""How good a world model is: what can be read from its bits, how well it imagines, how healthy its code is."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dwmr.data.transitions import Rollouts, Transitions
from dwmr.errors import InputError
from dwmr.evaluation.codes import code_health, confusions, to_numpy
from dwmr.evaluation.information import shared_dimensions
from dwmr.evaluation.intervals import board_intervals, independent_units
from dwmr.evaluation.metrics import board_scores, confusion, macro_f1
from dwmr.evaluation.probes import Probe, fit_probes
from dwmr.evaluation.repair import Repair
from dwmr.evaluation.rollouts import rollout_scores
from dwmr.evaluation.variance import same_state_pairs, two_looks
from dwmr.models.world_model import WorldModel

__all__ = ["Examination", "evaluate", "examine", "examine_many", "imagination_scores"]

FAULTS_FROM = 10_000  # training transitions on which repair measures what to expect of the model


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
    intervals: bool = False,
    repair: bool = False,
) -> dict[str, Any]:
    """All the figures of a model, in percent where they are shares; without labels the label-free part alone.

    encoding, imagination  the board read from the encoded frame, and from the code imagined one step ahead:
                           f1, f1_true_labels, accuracy, board_accuracy, changed_cells_f1
    rollout                {horizon: {bits, exact, f1, and the same of copying the first code and of re-encoding}}
                           along held-out episodes
    codes                  dead, duplicate, flips_mean, collisions, splits, same_code, exact_next, …
    baselines              copy (the board stays as it is) and majority (each cell's most frequent label), both with
                           the scores of imagination
    intervals              if asked for: 95% bootstrap intervals [low, high] of the scores of encoding and imagination,
                           over levels, episodes, or pieces of long episodes
    …_repaired             if ``repair`` is asked for: encoding and imagination, and of the codes exact_next and
                           same_code, from codes mended by `dwmr.evaluation.repair`; ``repair`` then says what these use
    """
    return examine(
        model, train=train, test=test, rollout=rollout, horizon=horizon, seed=seed, intervals=intervals, repair=repair
    ).figures


def examine(
    model: WorldModel,
    *,
    train: Transitions,
    test: Transitions,
    rollout: Rollouts | None = None,
    horizon: int = 1000,
    seed: int = 0,
    intervals: bool = False,
    repair: bool = False,
) -> Examination:
    """`evaluate`, with the codes and the probe kept."""
    return examine_many(
        [model], train=train, test=test, rollout=rollout, horizon=horizon, seed=seed, intervals=intervals, repair=repair
    )[0]


def examine_many(
    models: Sequence[WorldModel],
    *,
    train: Transitions,
    test: Transitions,
    rollout: Rollouts | None = None,
    horizon: int = 1000,
    seed: int = 0,
    intervals: bool = False,
    repair: bool = False,
) -> list[Examination]:
    """`examine` several models of one kind on the same data, their probes fitted together."""
    first = models[0]
    for name, part in (("train", train), ("test", test)):
        if (part.image_shape, part.n_actions) != (first.image_shape, first.n_actions):
            raise InputError(
                f"the model takes images {first.image_shape} and {first.n_actions} actions, but {name} has "
                f"{part.image_shape} and {part.n_actions}"
            )
        if repair and not len(same_state_pairs(part.episode)):
            raise InputError(f"repair needs episodes, and {name} does not say which transitions follow each other")
    if len({(model.bits, model.probe, model.image_shape, model.n_actions) for model in models}) > 1:
        raise InputError("models examined together must agree in bits, probe, image shape and actions")
    probes: list[Probe] | list[None] = [None] * len(models)
    n_classes = max(train.n_classes or 0, test.n_classes or 0)
    if train.state is not None and test.state is not None:
        if train.state.shape[1:] != test.state.shape[1:]:
            raise InputError(
                f"boards of {train.state.shape[1:]} in train and {test.state.shape[1:]} in test do not match"
            )
        frames = _on_device(train.obs, first)
        encodings = torch.stack([model.encode(frames) for model in models])
        probes = fit_probes(encodings, np.asarray(train.state), n_classes, first.probe, seed)
        baselines = _baselines(n_classes, train, test)
    obs, next_obs = _on_device(test.obs, first), _on_device(test.next_obs, first)
    found = []
    for model, probe in zip(models, probes):
        codes, next_codes = model.encode(obs), model.encode(next_obs)
        predicted = model.predict(codes, np.asarray(test.actions))
        health = code_health(to_numpy(codes), to_numpy(next_codes), to_numpy(predicted), test.episode)
        figures: dict[str, Any] = {}
        if probe is not None and test.state is not None:
            read, imagined = probe.read(codes), probe.read(predicted)
            figures |= _board_figures(n_classes, read, imagined, test) | {"baselines": copy.deepcopy(baselines)}
            if intervals:
                figures["intervals"] = _board_intervals(n_classes, read, imagined, test, seed)
            health |= confusions(to_numpy(codes), _cells(test.state))
        figures["codes"] = health
        if repair:
            figures |= _repaired(model, train, test, probe, n_classes)
            health |= figures.pop("codes_repaired")
        if rollout is not None:
            figures["rollout"] = rollout_scores(model, rollout, probe, horizon)
        found.append(Examination(figures, codes, next_codes, predicted, probe))
    return found


def imagination_scores(
    models: Sequence[WorldModel], *, train: Transitions, test: Transitions, seed: int = 0
) -> list[dict[str, float]]:
    """The few figures that choosing among models of one kind needs, in percent: the paper's F1 of ``encoding`` and
    ``imagination``, the latter over ``true_labels`` too, and ``exact_next``, the next codes predicted rightly; those of
    `evaluate`, without the rest of its work. Beside them the label-free `shared_dimensions` of predicted and encoded
    next codes, as ``shared``; without labels these two alone."""
    labelled = train.state is not None and test.state is not None and test.next_state is not None
    first, n_classes = models[0], max(train.n_classes or 0, test.n_classes or 0)
    probes: list[Probe] | list[None] = [None] * len(models)
    if labelled:
        frames = _on_device(train.obs, first)
        encodings = torch.stack([model.encode(frames) for model in models])
        probes = fit_probes(encodings, np.asarray(train.state), n_classes, first.probe, seed)
        now, then = _boards(test)
    obs, next_obs = _on_device(test.obs, first), _on_device(test.next_obs, first)
    found = []
    for model, probe in zip(models, probes):
        codes, actual = model.encode(obs), model.encode(next_obs)
        predicted = model.predict(codes, np.asarray(test.actions))
        scores = {
            "exact_next": 100 * float((predicted == actual).all(1).float().mean()),
            "shared": shared_dimensions(predicted, actual),
        }
        if probe is not None:
            imagined = confusion(then, probe.read(predicted), n_classes)
            scores |= {
                "encoding": macro_f1(confusion(now, probe.read(codes), n_classes), "union"),
                "imagination": macro_f1(imagined, "union"),
                "true_labels": macro_f1(imagined, "true"),
            }
        found.append(scores)
    return found


def _board_figures(n_classes: int, read: np.ndarray, imagined: np.ndarray, test: Transitions) -> dict[str, Any]:
    """The scores of boards read from encoded frames, and from imagined codes, both int (N, cells)."""
    now, then = _boards(test)
    return {
        "encoding": board_scores(now, read, n_classes, now != then),
        "imagination": board_scores(then, imagined, n_classes, now != then),
    }


def _repaired(
    model: WorldModel, train: Transitions, test: Transitions, probe: Probe | None, n_classes: int
) -> dict[str, Any]:
    """What mended codes come to, and what they use."""
    repair = Repair.measured(model, train[:FAULTS_FROM])
    mended = repair.transitions(test)
    predicted = model.predict(mended.before, np.asarray(test.actions))
    one, other = two_looks(to_numpy(mended.before), to_numpy(mended.after), test.episode)
    figures: dict[str, Any] = {
        "repair": repair.about,
        "codes_repaired": {
            "exact_next_repaired": 100 * float((predicted == mended.after).all(1).float().mean()),
            "same_code_repaired": 100 * float((one == other).all(1).mean()) if len(one) else None,
        },
    }
    if probe is not None and test.state is not None:
        boards = _board_figures(n_classes, probe.read(mended.codes), probe.read(mended.predicted), test)
        figures |= {f"{name}_repaired": scores for name, scores in boards.items()}
    return figures


def _baselines(n_classes: int, train: Transitions, test: Transitions) -> dict[str, Any]:
    """The scores of copying the last board, and of each cell's most frequent label."""
    now, then = _boards(test)
    usual = np.broadcast_to(_majority(_boards(train)[1], n_classes), then.shape)
    return {
        name: board_scores(then, guess, n_classes, now != then) for name, guess in (("copy", now), ("majority", usual))
    }


def _boards(transitions: Transitions) -> tuple[np.ndarray, np.ndarray]:
    """The labels before and after, int (N, cells)."""
    assert transitions.state is not None
    assert transitions.next_state is not None
    return _cells(transitions.state), _cells(transitions.next_state)


def _board_intervals(
    n_classes: int, read: np.ndarray, imagined: np.ndarray, test: Transitions, seed: int
) -> dict[str, Any]:
    now, then = _boards(test)
    units = independent_units(test)
    return {
        "encoding": board_intervals(now, read, n_classes, now != then, units, seed=seed),
        "imagination": board_intervals(then, imagined, n_classes, now != then, units, seed=seed),
        "units": int(units.max()) + 1,
    }


def _on_device(images: np.ndarray, model: WorldModel) -> np.ndarray | Tensor:
    """On a GPU the frames are brought over once for all models; on the CPU they may stay on disk."""
    return images if model.device.type == "cpu" else torch.from_numpy(np.array(images)).to(model.device)


def _cells(states: np.ndarray) -> np.ndarray:
    return np.asarray(states).reshape(len(states), -1).astype(np.int64)


def _majority(states: np.ndarray, n_classes: int) -> np.ndarray:
    """The most frequent label of each cell, (cells,)."""
    return np.array([np.bincount(cell, minlength=n_classes).argmax() for cell in states.T])
