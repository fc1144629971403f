"""Self-distillation: retrain on the consensus of encoder and predictor.

The encoding of a next image (encoder view) and the prediction from the image before (predictor view) are two estimates
of one state's code with independent errors, so their logits add up (*filter*) to better bits than either has. Encoder
and predictor are trained to reproduce this consensus from one view alone (*distil*), by cross-entropy alone; the better
model teaches the next round. Only transitions are used.
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
class Distilled:
    """A model, and for each round how often the teacher's views agreed on a bit and how the losses fell."""

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
    seed: int = 0,
    progress: bool | None = None,
) -> Distilled:
    """A model trained on this one's consensus, on its device; the one given stays as it is.

    Each of ``rounds`` has its own teacher and ``epochs`` over the transitions, in which the learning rate falls from
    ``lr`` along half a cosine. A decoder is not trained.

    Raises:
        InputError: a number is out of range, or the transitions do not fit the model.
        TrainingDiverged: a loss is not finite any more.
    """
    for name, value, least in (("rounds", rounds, 1), ("epochs", epochs, 1), ("batch_size", batch_size, 2)):
        if value < least:
            raise InputError(f"{name} must be at least {least}, got {value}")
    if not (math.isfinite(lr) and lr > 0):
        raise InputError(f"lr must be a number above 0, got {lr}")
    if (tuple(train.image_shape), train.n_actions) != (tuple(model.image_shape), model.n_actions):
        raise InputError(
            f"the model was made for images (C, H, W) = {tuple(model.image_shape)} and {model.n_actions} actions, "
            f"the transitions have {tuple(train.image_shape)} and {train.n_actions}"
        )
    updates = len(train) // batch_size
    if not updates:
        raise InputError(f"{len(train)} transitions do not fill one minibatch of {batch_size}")
    fast = model.device.type == "cuda" or rounds * epochs * updates >= MIN_UPDATES_FOR_KERNELS
    records = []
    with progress_bars.bar("distil", rounds * epochs * updates, show=progress) as bar:
        for number in range(rounds):
            bits, agreement = lesson(model, train)
            rate = torch.tensor(lr, device=model.device)
            model = copy.deepcopy(model).train()
            learner = Learner([RunState(model, rate)], UNUSED, rate)
            loader, history = Loader(train, model.device, model.normalize, dtype=model.mean.dtype), []
            for epoch in range(epochs):
                rate.fill_(lr * half_cosine(epoch, epochs))
                plan = plan_epoch(seed, number * epochs + epoch, len(train), batch_size, model.bits)
                with ops.accelerated(fast):
                    history.append(_epoch(learner, loader, plan, bits, bar))
                if not all(map(math.isfinite, history[-1])):
                    raise TrainingDiverged(f"a loss was not finite in epoch {epoch + 1} of round {number + 1}")
                bar.describe(f"round {number + 1}, encoding {history[-1][0]:.4f}, prediction {history[-1][1]:.4f}")
            encoding, prediction = (list(each) for each in zip(*history, strict=True))
            records.append({"agreement": agreement, "encoding_loss": encoding, "prediction_loss": prediction})
            model.eval()
    return Distilled(model, records)


@torch.no_grad()
def lesson(model: WorldModel, transitions: Transitions) -> tuple[Tensor, float]:
    """The consensus on the codes of the next states, bool (N, K), and how often the views agree on a bit. Before they
    are added, each view's logits are scaled so that they predict the other's bits best: a view that is confident and
    wrong counts for less."""
    encoded = model.encode_logits(transitions.next_obs)
    predicted = model.predict_logits(model.encode(transitions.obs), np.asarray(transitions.actions))
    together = best_scale(encoded, predicted >= 0) * encoded + best_scale(predicted, encoded >= 0) * predicted
    return together >= 0, float(((encoded >= 0) == (predicted >= 0)).float().mean())


def best_scale(logits: Tensor, bits: Tensor) -> float:
    """The factor on the logits with the least cross-entropy to these bits."""
    wanted = bits.to(logits.dtype)
    costs = [float(F.binary_cross_entropy_with_logits(logits * scale, wanted)) for scale in SCALES]
    return SCALES[int(np.argmin(costs))]


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
