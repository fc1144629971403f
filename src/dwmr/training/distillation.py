"""Filter, prune, distil: a trained model learns from what its own two looks at a state say together.

The encoding of a next image and the prediction from the image before are two looks at one state, and given the state
what is wrong with one is independent of what is wrong with the other. So their logits add up (*filter*) to better bits
than either has. Bits in which the looks differ too often can be given up (*prune*): they are taught to be 0; where
cells share an encoder, a bit is given up in all of them. Encoder and predictor are then trained to read from one look
alone what both said together (*distil*), by cross-entropy and nothing else; and the better model teaches the next
round. Only transitions are used.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from dwmr import progress as progress_bars
from dwmr.config import Hyper
from dwmr.data.batches import EpochPlan, Loader, plan_epoch
from dwmr.data.transitions import Transitions
from dwmr.errors import InputError, TrainingDiverged
from dwmr.models.bits import threshold
from dwmr.models.world_model import WorldModel
from dwmr.ops.cpu import quicken
from dwmr.training import losses
from dwmr.training.objectives import OBJECTIVES
from dwmr.training.schedules import half_cosine
from dwmr.training.schemes import Learner

UNUSED = OBJECTIVES["dwmr"]  # a learner has an objective; what is learned here is no term of it
SCALES = tuple(float(scale) for scale in np.geomspace(0.02, 2, 41))


@dataclass(frozen=True)
class Lesson:
    """What a teacher says of the next states of N transitions.

    bits       bool (N, K) what both looks say together
    agreement  float (K,) how often the looks agree in a bit
    """

    bits: Tensor
    agreement: Tensor


@dataclass(frozen=True)
class Distilled:
    """A model, and for each round what the teacher's looks had in common and how the losses fell."""

    model: WorldModel
    rounds: list[dict[str, Any]]


def distil(
    model: WorldModel,
    train: Transitions,
    *,
    rounds: int = 2,
    epochs: int = 4,
    lr: float = 1e-3,
    batch_size: int = 256,
    keep: float = 0.0,
    seed: int = 0,
    progress: bool | None = None,
) -> Distilled:
    """A model taught by this one, on its device; the one given stays as it is.

    Each of ``rounds`` has its own teacher and ``epochs`` over the transitions, in which the learning rate falls from
    ``lr`` along half a cosine. Bits whose looks agree in less than ``keep`` of the transitions are given up. A decoder
    is not taught.

    Raises:
        InputError: a number is out of range, the transitions do not fit the model, or no bit would be left; nothing
            was changed.
        TrainingDiverged: a loss is not finite any more.
    """
    check_numbers(rounds, epochs, lr, batch_size, keep)
    _check_data(model, train, batch_size)
    records = []
    kept = torch.ones(model.bits, dtype=torch.bool, device=model.device)
    updates = len(train) // batch_size
    with progress_bars.bar("distil", rounds * epochs * updates, show=progress) as bar:
        for number in range(rounds):
            taught = lesson(model, train)
            kept &= _over_cells(taught.agreement, model) >= keep
            if not kept.any():
                raise InputError(
                    f"in no bit do the looks agree in {100 * keep:g}% of the transitions (in the best "
                    f"{100 * float(taught.agreement.max()):.2f}%); a smaller keep leaves something"
                )
            rate = torch.tensor(lr, device=model.device)
            learner = Learner(copy.deepcopy(model).train(), UNUSED, rate, noisy_predictor=False)
            if model.device.type == "cpu":
                quicken(learner, UNUSED, rounds * epochs * updates)
            loader, fallen = Loader(train, model.device), []
            for epoch in range(epochs):
                rate.fill_(lr * half_cosine(epoch, epochs))
                plan = plan_epoch(seed, number * epochs + epoch, len(train), batch_size, model.bits)
                fallen.append(_epoch(learner, loader, plan, taught.bits & kept, bar))
                if not all(map(math.isfinite, fallen[-1])):
                    raise TrainingDiverged(f"a loss was not finite in epoch {epoch + 1} of round {number + 1}")
                bar.describe(f"round {number + 1}, encoding {fallen[-1][0]:.4f}, prediction {fallen[-1][1]:.4f}")
            records.append(
                {
                    "agreement": float(taught.agreement.mean()),
                    "least_agreement": float(taught.agreement.min()),
                    "kept": int(kept.sum()),
                    "encoding_loss": [encoding for encoding, _ in fallen],
                    "prediction_loss": [prediction for _, prediction in fallen],
                }
            )
            model = learner.model.eval()
    return Distilled(model, records)


@torch.no_grad()
def lesson(model: WorldModel, transitions: Transitions) -> Lesson:
    """The bits of the next states, from both looks. Before they are added, each look's logits are scaled so that they
    foretell the other's bits best: a look that is sure of itself and wrong counts for less."""
    encoded = model.encode_logits(transitions.next_obs)
    predicted = model.predict_logits(model.encode(transitions.obs), np.asarray(transitions.actions))
    together = best_scale(encoded, predicted >= 0) * encoded + best_scale(predicted, encoded >= 0) * predicted
    return Lesson(together >= 0, ((encoded >= 0) == (predicted >= 0)).float().mean(0))


def best_scale(logits: Tensor, bits: Tensor) -> float:
    """By what logits are to be multiplied to be good odds of these bits: the factor of least cross-entropy."""
    wanted = bits.to(logits.dtype)
    costs = [float(F.binary_cross_entropy_with_logits(logits * scale, wanted)) for scale in SCALES]
    return SCALES[int(np.argmin(costs))]


def _over_cells(agreement: Tensor, model: WorldModel) -> Tensor:
    """How often the looks agree in a bit; where cells share an encoder, in that bit of any cell."""
    grid = getattr(model.encoder, "grid", 1)
    return agreement.view(-1, grid).mean(1, keepdim=True).expand(-1, grid).flatten()


def _epoch(
    learner: Learner, loader: Loader, plan: EpochPlan, bits: Tensor, bar: progress_bars.Bar
) -> tuple[float, float]:
    """One pass over the transitions; the mean losses of encoder and predictor."""
    sums = torch.zeros(2, device=loader.device)
    for index, (images, actions, next_images, *_) in zip(plan.order, loader.raw_batches(plan)):
        wanted = bits[torch.from_numpy(index).to(bits.device)]
        with torch.no_grad():
            logits, _ = learner.probabilities(learner.normalize(images), Hyper())
        encoded, _ = learner.probabilities(learner.normalize(next_images), Hyper())
        predicted = learner.predict(threshold(torch.sigmoid(logits)), learner.model.one_hot(actions))
        parts = torch.stack([losses.prediction(encoded, wanted), losses.prediction(predicted, wanted)])
        learner.descend(parts.sum(), learner.codes_optimizer, learner.predictor_optimizer)
        sums += parts.detach()
        bar.advance(1)
    encoding, prediction = (sums / len(plan)).tolist()
    return encoding, prediction


def check_numbers(rounds: int, epochs: int, lr: float, batch_size: int, keep: float) -> None:
    """Refuse what can be refused before any data is there."""
    for name, value, least in (("rounds", rounds, 1), ("epochs", epochs, 1), ("batch_size", batch_size, 2)):
        if value < least:
            raise InputError(f"{name} must be at least {least}, got {value}")
    if not (math.isfinite(lr) and lr > 0):
        raise InputError(f"lr must be a number above 0, got {lr}")
    if not 0 <= keep <= 1:
        raise InputError(f"keep is a share of the transitions, from 0 to 1, got {keep}")


def _check_data(model: WorldModel, train: Transitions, batch_size: int) -> None:
    if (tuple(train.image_shape), train.n_actions) != (tuple(model.image_shape), model.n_actions):
        raise InputError(
            f"the model knows images {tuple(model.image_shape)} and {model.n_actions} actions, "
            f"the transitions have {tuple(train.image_shape)} and {train.n_actions}"
        )
    if len(train) < batch_size:
        raise InputError(f"{len(train)} transitions do not fill one minibatch of {batch_size}")
