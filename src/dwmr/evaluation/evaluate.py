"""Evaluate world models: what can be read from their bits, how well they predict, how healthy their codes are."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dwmr.data.transitions import Rollouts, Transitions
from dwmr.errors import InputError
from dwmr.evaluation.codes import KnownCodes, code_health, confusions, row_hashes
from dwmr.evaluation.intervals import board_intervals, independent_units
from dwmr.evaluation.metrics import board_scores
from dwmr.evaluation.probes import Probe, fit_probes
from dwmr.evaluation.rollouts import rollout_scores
from dwmr.models.callables import as_bits
from dwmr.models.world_model import WorldModel

SINGLE = ""  # the name of the only group if labels are a single array


@dataclass(frozen=True)
class Evaluation:
    """What `evaluate` returns, and what it was computed from: codes bool (N, K) of the test frames and of the next
    frames, next codes predicted from the former, and the probe (None without labels or with named groups of them)."""

    figures: dict[str, Any]
    codes: Tensor
    next_codes: Tensor
    predicted: Tensor
    probe: Probe | None


@dataclass(frozen=True)
class _Labels:
    """One group of labels, int (N, cells): before and after each training transition and each test transition."""

    n_classes: int
    train_before: np.ndarray
    train_after: np.ndarray
    before: np.ndarray
    after: np.ndarray

    def scores(
        self, read: np.ndarray, imagined: np.ndarray, score: Callable[..., dict[str, Any]] = board_scores
    ) -> dict[str, Any]:
        """``score`` of the boards read from encoded frames and from predicted codes, int (N, cells) each."""
        return {
            name: score(true, guess, self.n_classes, self.before != self.after)
            for name, true, guess in (("encoding", self.before, read), ("imagination", self.after, imagined))
        }


def evaluate(
    model: WorldModel,
    *,
    train: Transitions,
    test: Transitions,
    rollout: Rollouts | None = None,
    horizon: int = 1000,
    seed: int = 0,
    intervals: bool = False,
) -> dict[str, Any]:
    """Evaluate a model on ``test``, in percent. docs/reference/metrics.md defines every figure.

    encoding, imagination  `metrics.board_scores` of the board read from the code of a frame, and from the code
                           predicted one step ahead
    baselines              the scores of two trivial predictions: copy (the board does not change) and majority (the
                           most frequent label of each cell)
    intervals              with ``intervals``: 95% bootstrap intervals [low, high] of encoding and imagination
    rollout                {horizon: {bits, exact, f1, …}} along held-out episodes, see `rollouts.rollout_scores`
    codes                  see `codes.code_health`

    Without labels, only the last two are returned. With named groups of labels, each has its own probe, and its scores
    are in ``groups``; the scores beside it are means over the groups.

    Args:
        train: transitions on which the probe is fitted
        test: transitions on which the model is scored
        rollout: long held-out episodes
        horizon: the longest roll-out, in steps
        seed: seed of the probe and of the bootstrap
    """
    (found,) = evaluate_many(
        [model], train=train, test=test, rollout=rollout, horizon=horizon, seed=seed, intervals=intervals
    )
    return found.figures


def evaluate_many(
    models: Sequence[WorldModel],
    *,
    train: Transitions,
    test: Transitions,
    rollout: Rollouts | None = None,
    horizon: int = 1000,
    seed: int = 0,
    intervals: bool = False,
) -> list[Evaluation]:
    """`evaluate` several models of the same shape on the same data; their probes are fitted together."""
    if not models:
        return []
    if len({(model.bits, model.probe, model.image_shape, model.n_actions) for model in models}) > 1:
        raise InputError("models evaluated together must agree in bits, probe, image shape and number of actions")
    models[0].check_fits(train, "train")
    models[0].check_fits(test, "test")
    groups = _label_groups(train, test)
    of_train = _codes_of_all(models, train.obs) if groups else torch.empty(0)
    probes = _fit_probes(models[0].probe, of_train, groups, seed)
    baselines = _merge_groups({name: _baselines(labels) for name, labels in groups.items()})
    obs, next_obs = _on_device(test.obs, models[0]), _on_device(test.next_obs, models[0])
    states = _states(groups)
    hashes = {name: row_hashes(each) for name, each in states.items()}
    of_train_next = _codes_of_all(models, train.next_obs) if groups else torch.empty(0)
    evaluations, known = [], None
    for number, model in enumerate(models):
        probe_of = {name: fitted[number] for name, fitted in probes.items()}
        codes, next_codes = model.encode(obs), model.encode(next_obs)
        predicted = model.predict(codes, np.asarray(test.actions))
        health = code_health(as_bits(codes), as_bits(next_codes), as_bits(predicted), test.episode)
        figures: dict[str, Any] = {}
        if groups:
            read = {name: (probe.read(codes), probe.read(predicted)) for name, probe in probe_of.items()}
            figures |= _merge_groups({name: labels.scores(*read[name]) for name, labels in groups.items()})
            figures["baselines"] = dict(baselines)
            if intervals:
                units = independent_units(test)
                score = partial(board_intervals, units=units, seed=seed)
                bounds = {name: labels.scores(*read[name], score) for name, labels in groups.items()}
                figures["intervals"] = _merge_groups(bounds, mean=False) | {"units": int(units.max()) + 1}
            health |= confusions(as_bits(codes), states["before"])
            every = codes, next_codes, of_train[number], of_train_next[number]
            known = KnownCodes(np.concatenate([as_bits(part) for part in every]), np.concatenate([*hashes.values()]))
            exact = (predicted == next_codes).all(1).cpu().numpy()
            unique = known.unique(as_bits(next_codes), hashes["after"])
            health["exact_unique"] = 100 * float((exact & unique).mean())
        figures["codes"] = health
        probe = probe_of.get(SINGLE)
        if rollout is not None:
            figures["rollout"] = rollout_scores(model, rollout, probe, horizon, known)
        evaluations.append(Evaluation(figures, codes, next_codes, predicted, probe))
    return evaluations


def _label_groups(train: Transitions, test: Transitions) -> dict[str, _Labels]:
    """The labels of each group by name, `SINGLE` for a single array; empty if either split has no labels."""
    if train.state is None or test.state is None:
        return {}
    if set(train.groups) != set(test.groups):
        named = [", ".join(part.groups) or "a single array" for part in (train, test)]
        raise InputError(f"labels of train ({named[0]}) and of test ({named[1]}) do not match")
    groups = {}
    for name in train.groups or (SINGLE,):
        parts: Any = [part.group(name) if train.groups else part for part in (train, test)]
        shapes = [part.state.shape[1:] for part in parts]
        if shapes[0] != shapes[1]:
            raise InputError(f"train has boards of {shapes[0]}, but test has {shapes[1]}")
        boards = (labels.astype(np.int64) for part in parts for labels in part.flat_labels())
        groups[name] = _Labels(max(part.n_classes for part in parts), *boards)
    return groups


def _states(groups: Mapping[str, _Labels]) -> dict[str, np.ndarray]:
    """The labels of all groups side by side, before and after each test transition and each training transition."""
    names = ("before", "after", "train_before", "train_after")
    return {name: np.concatenate([getattr(each, name) for each in groups.values()], axis=1) for name in names if groups}


def _codes_of_all(models: Sequence[WorldModel], images: np.ndarray) -> Tensor:
    """The codes (S, N, K) that S models give to the same frames."""
    frames = _on_device(images, models[0])
    return torch.stack([model.encode(frames) for model in models])


def _fit_probes(kind: str, codes: Tensor, groups: Mapping[str, _Labels], seed: int) -> dict[str, list[Probe]]:
    """The probes of each group, one for each model, fitted to the codes (S, N, K) of the training frames. A named group
    that does not fill the cells of a grid is read from all bits."""
    probes = {}
    for name, labels in groups.items():
        fits = name == SINGLE or codes.shape[2] % labels.before.shape[1] == 0
        probes[name] = fit_probes(codes, labels.train_before, labels.n_classes, kind if fits else "affine", seed)
    return probes


def _merge_groups(parts: Mapping[str, dict[str, Any]], mean: bool = True) -> dict[str, Any]:
    """{encoding: {f1: …}, …} of each group as one dictionary.

    A single array of labels is returned as it is. Named groups are listed under ``groups``, beside their means over
    the groups that have the score.
    """
    if SINGLE in parts:
        return parts[SINGLE]
    merged: dict[str, Any] = {}
    for name in next(iter(parts.values()), {}):
        groups = {group: figures[name] for group, figures in parts.items()}
        merged[name] = {}
        for score in next(iter(groups.values())) if mean else ():
            values = [scores[score] for scores in groups.values() if scores[score] is not None]
            merged[name][score] = float(np.mean(values)) if values else None
        merged[name]["groups"] = groups
    return merged


def _baselines(labels: _Labels) -> dict[str, Any]:
    """The scores of copying the last board, and of each cell's most frequent label in the training data."""
    counts = (np.bincount(cell, minlength=labels.n_classes) for cell in labels.train_after.T)
    majority = np.array([count.argmax() for count in counts])
    guesses = {"copy": labels.before, "majority": np.broadcast_to(majority, labels.after.shape)}
    return {name: labels.scores(guess, guess)["imagination"] for name, guess in guesses.items()}


def _on_device(images: np.ndarray, model: WorldModel) -> np.ndarray | Tensor:
    """The frames copied once to the model's GPU for all models; on a CPU they can stay on disk."""
    return images if model.device.type == "cpu" else torch.from_numpy(np.array(images)).to(model.device)
