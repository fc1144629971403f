"""Engines run whole epochs. The plain one here is the reference: one run, one update after another, as it reads.

An engine is handed learners and knows neither schedules nor folders. `dwmr.ops.stacked_engine` holds the one that
runs many learners at once as a captured program, with the same results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from dwmr.config import HYPER_NAMES, Hyper
from dwmr.data.batches import Batch, EpochPlan, Later, Loader
from dwmr.data.transitions import Transitions
from dwmr.models.agreement import next_code_agreement
from dwmr.training.schemes import Learner, Scheme


@dataclass(frozen=True)
class EpochFigures:
    """What one run did in an epoch of U updates, on the CPU.

    terms  (U, T) the loss terms, in the objective's order
    ones   (K,) how often each bit was 1
    flips  bits flipped by an action, on average
    finite whether every weight is still a finite number
    """

    terms: Tensor
    ones: Tensor
    flips: float
    finite: bool


class Engine(Protocol):
    description: str

    def run_epoch(
        self, plans: list[EpochPlan], values: list[dict[str, float]], advance: Callable[[int], None]
    ) -> list[EpochFigures]:
        """One epoch of every run, by its plan and its hyperparameters."""

    def agreement(self, val: Transitions) -> list[dict[str, float]]:
        """`next_code_agreement` of every run."""

    def settle(self) -> None:
        """Bring the learners up to date, so that they can be saved."""


class PlainEngine:
    """One learner, on its own device."""

    def __init__(self, learner: Learner, hyper: Hyper, scheme: Scheme, loader: Loader, description: str) -> None:
        self.learner, self.hyper, self.scheme, self.loader = learner, hyper, scheme, loader
        self.description = description

    def run_epoch(
        self, plans: list[EpochPlan], values: list[dict[str, float]], advance: Callable[[int], None]
    ) -> list[EpochFigures]:
        (plan,), (now,) = plans, values
        fill(self.hyper, {name: [value] for name, value in now.items()})
        model = self.learner.model.train()
        device = self.loader.device
        names = list(self.learner.objective.terms)
        terms = torch.empty(len(plan), len(names), device=device)
        ones = torch.zeros(model.bits, device=device)
        flips = torch.zeros((), device=device)
        # Nothing is read back from the device before the epoch ends.
        for update, raw in enumerate(self.loader.raw_batches(plan)):
            images, actions, next_images, noise, triplets, again, later = raw
            batch = Batch(
                self.learner.normalize(images),
                model.one_hot(actions),
                self.learner.normalize(next_images),
                noise,
                triplets,
                None if again is None else self.learner.normalize(again),
                tuple(Later(model.one_hot(x.actions), self.learner.normalize(x.images), x.seen) for x in later),
            )
            result = self.scheme(self.learner, batch, self.hyper)
            terms[update] = torch.stack([result.terms[name] for name in names])
            ones += result.bits.mean(0)
            flips += (result.bits != result.next_bits).sum(-1).float().mean()
            advance(1)
        finite = all(bool(torch.isfinite(parameter).all()) for parameter in model.parameters())
        return [EpochFigures(terms.cpu(), (ones / len(plan)).cpu(), float(flips / len(plan)), finite)]

    def agreement(self, val: Transitions) -> list[dict[str, float]]:
        return [next_code_agreement(self.learner.model, val)]

    def settle(self) -> None:
        pass


def new_hyper(device: torch.device, runs: int | None = None) -> Hyper:
    """Hyperparameters as tensors on the device: scalars, or with a run axis."""
    shape = () if runs is None else (runs,)
    return Hyper(**{name: torch.zeros(shape, device=device) for name in HYPER_NAMES})


def fill(hyper: Hyper, values: dict[str, list[float]]) -> None:
    """Write an epoch's values, one a run, into the tensors, which stay the same objects."""
    for name, numbers in values.items():
        tensor = getattr(hyper, name)
        tensor.copy_(torch.tensor(numbers, dtype=tensor.dtype).view(tensor.shape))
