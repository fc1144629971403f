"""Self-distillation: retrain on the consensus of encoder and predictor.

The encoding of a next image (encoder view) and the prediction from the image before (predictor view) are two estimates
of one state's code with independent errors, so their logits add up (*filter*) to better bits than either has. Bits on
which the views differ too often can be given up (*prune*): the target is then 0, in all cells that share an encoder.
Encoder and predictor are trained to reproduce the consensus from one view alone (*distil*), by cross-entropy alone;
the better model teaches the next round. Only transitions are used.
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

from dwmr import ops
from dwmr import progress as progress_bars
from dwmr.config import Hyper
from dwmr.data.batches import EpochPlan, Loader, plan_epoch
from dwmr.data.transitions import Transitions
from dwmr.errors import InputError, TrainingDiverged
from dwmr.models.bits import threshold
from dwmr.models.world_model import WorldModel
from dwmr.training import losses
from dwmr.training.learner import Learner, RunState
from dwmr.training.objectives import OBJECTIVES
from dwmr.training.run_group import MIN_UPDATES_FOR_KERNELS
from dwmr.training.schedules import half_cosine

UNUSED = OBJECTIVES["dwmr"]  # a learner has an objective; the loss here is not one of its terms
SCALES = tuple(float(scale) for scale in np.geomspace(0.02, 2, 41))


@dataclass(frozen=True)
class Lesson:
    """The targets that a teacher gives for the next states of N transitions.

    bits       bool (N, K) the consensus of both views
    agreement  float (K,) how often the views agree on a bit
    """

    bits: Tensor
    agreement: Tensor


@dataclass(frozen=True)
class Distilled:
    """A model, and for each round how far the teacher's views agreed and how the losses fell."""

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
    """A model trained on this one's consensus, on its device; the one given stays as it is.

    Each of ``rounds`` has its own teacher and ``epochs`` over the transitions, in which the learning rate falls from
    ``lr`` along half a cosine. Bits on which the views agree in less than ``keep`` of the transitions are given up. A
    decoder is not trained.

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
                    f"the views agree on no bit in {100 * keep:g}% of the transitions (best: "
                    f"{100 * float(taught.agreement.max()):.2f}%); choose a smaller keep"
                )
            rate = torch.tensor(lr, device=model.device)
            student = copy.deepcopy(model).train()
            learner = Learner([RunState(student, rate)], UNUSED, rate)
            loader, history = Loader(train, model.device, student.normalize, dtype=student.mean.dtype), []
            fast = model.device.type == "cuda" or rounds * epochs * updates >= MIN_UPDATES_FOR_KERNELS
            for epoch in range(epochs):
                rate.fill_(lr * half_cosine(epoch, epochs))
                plan = plan_epoch(seed, number * epochs + epoch, len(train), batch_size, model.bits)
                with ops.accelerated(fast):
                    history.append(_epoch(learner, loader, plan, taught.bits & kept, bar))
                if not all(map(math.isfinite, history[-1])):
                    raise TrainingDiverged(f"a loss was not finite in epoch {epoch + 1} of round {number + 1}")
                bar.describe(f"round {number + 1}, encoding {history[-1][0]:.4f}, prediction {history[-1][1]:.4f}")
            records.append(
                {
                    "agreement": float(taught.agreement.mean()),
                    "least_agreement": float(taught.agreement.min()),
                    "kept": int(kept.sum()),
                    "encoding_loss": [encoding for encoding, _ in history],
                    "prediction_loss": [prediction for _, prediction in history],
                }
            )
            model = student.eval()
    return Distilled(model, records)


@torch.no_grad()
def lesson(model: WorldModel, transitions: Transitions) -> Lesson:
    """The consensus on the next states. Before they are added, each view's logits are scaled so that they predict the
    other's bits best: a view that is confident and wrong counts for less."""
    encoded = model.encode_logits(transitions.next_obs)
    predicted = model.predict_logits(model.encode(transitions.obs), np.asarray(transitions.actions))
    together = best_scale(encoded, predicted >= 0) * encoded + best_scale(predicted, encoded >= 0) * predicted
    return Lesson(together >= 0, ((encoded >= 0) == (predicted >= 0)).float().mean(0))


def best_scale(logits: Tensor, bits: Tensor) -> float:
    """The factor on the logits with the least cross-entropy to these bits."""
    wanted = bits.to(logits.dtype)
    costs = [float(F.binary_cross_entropy_with_logits(logits * scale, wanted)) for scale in SCALES]
    return SCALES[int(np.argmin(costs))]


def _over_cells(agreement: Tensor, model: WorldModel) -> Tensor:
    """How often the views agree on a bit; where cells share an encoder, on that bit of any cell."""
    grid = getattr(model.encoder, "grid", 1)
    return agreement.view(-1, grid).mean(1, keepdim=True).expand(-1, grid).flatten()


def _epoch(
    learner: Learner, loader: Loader, plan: EpochPlan, bits: Tensor, bar: progress_bars.Bar
) -> tuple[float, float]:
    """One epoch; the mean losses of encoder and predictor."""
    sums = torch.zeros(2, device=loader.device)
    loader.lay_out([plan])
    for update, index in enumerate(plan.order):
        batch = loader.batch(torch.tensor([update], device=loader.device))
        wanted = bits[torch.from_numpy(index).to(bits.device)]
        with torch.no_grad():
            logits, _ = learner.probabilities(batch.images, Hyper())
        encoded, _ = learner.probabilities(batch.next_images, Hyper())
        predicted = learner.predict(threshold(torch.sigmoid(logits)), batch.actions)
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
            f"the model was made for images {tuple(model.image_shape)} and {model.n_actions} actions, "
            f"the transitions have {tuple(train.image_shape)} and {train.n_actions}"
        )
    if len(train) < batch_size:
        raise InputError(f"{len(train)} transitions do not fill one minibatch of {batch_size}")
