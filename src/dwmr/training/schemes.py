"""Training schemes: what one minibatch does to the weights.

Each scheme reads top to bottom: codes, losses, step, target update. They differ in what the predictor is fed:

    soft              probabilities, gradient through them (the paper's "fully differentiable")
    straight_through  hard bits, gradient as if they were probabilities
    two_step          first the predictor alone on hard bits, then everything on probabilities (§3.3)
    two_step_st       the same, the second step straight-through (§5.1)
    joint             DeepCubeAI: both frames encoded with gradient, straight-through, no target encoder
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dwmr.config import Hyper
from dwmr.data.batches import Batch
from dwmr.models.bits import binary_concrete, straight_through, threshold
from dwmr.models.world_model import WorldModel
from dwmr.training import losses
from dwmr.training.objectives import Codes, LaterCodes, Objective, later_prediction


@dataclass(frozen=True)
class Update:
    """What an update reports, detached: the unweighted loss terms, and the bits before and after the action."""

    terms: dict[str, Tensor]
    bits: Tensor
    next_bits: Tensor


class Learner:
    """Everything an update changes: the model, its target encoder, and the optimizers.

    Encoder and decoder share one Adam, the predictor has another, so that a step of the predictor alone leaves the
    rest untouched, its moments included. The learning rate is a tensor, set by whoever runs the schedule.
    """

    def __init__(self, model: WorldModel, objective: Objective, lr: Tensor, *, noisy_predictor: bool) -> None:
        self.model, self.objective, self.noisy_predictor = model, objective, noisy_predictor
        self.takes_bytes = False  # the networks read images as they are stored
        self.twins: dict[nn.Module, nn.Module] = {}  # a network and another on its weights, to run instead
        self.target = copy.deepcopy(model.encoder).requires_grad_(False).eval()
        codes = [*model.encoder.parameters(), *(model.decoder.parameters() if model.decoder else ())]
        self.codes_optimizer = torch.optim.Adam(codes, lr=lr, fused=True)
        self.predictor_optimizer = torch.optim.Adam(model.predictor.parameters(), lr=lr, fused=True)

    def normalize(self, images: Tensor) -> Tensor:
        """Images as bytes, made what the networks take."""
        return images if self.takes_bytes else self.model.normalize(images)

    def probabilities(self, images: Tensor, hyper: Hyper) -> tuple[Tensor, Tensor]:
        """Logits and bit probabilities by the online encoder."""
        logits = self.through(self.model.encoder, images)
        return logits, torch.sigmoid(logits / per_code(hyper.temperature))

    @torch.no_grad()
    def target_bits(self, batch: Batch) -> Tensor:
        """Bits of the next images by the target encoder, on its running statistics; where there is another look at
        the same state, of both together."""
        logits = self.through(self.target, batch.next_images)
        if batch.second_looks is not None:
            logits = logits + self.through(self.target, batch.second_looks)
        return threshold(torch.sigmoid(logits))

    @torch.no_grad()
    def later_bits(self, batch: Batch) -> list[Tensor]:
        """Target bits of the images after each later action."""
        return [threshold(torch.sigmoid(self.through(self.target, step.images))) for step in batch.later]

    def noised(self, logits: Tensor, probs: Tensor, batch: Batch, hyper: Hyper) -> Tensor:
        """Binary Concrete samples where the objective asks for them, else the probabilities."""
        if not self.objective.noise or batch.noise is None:
            return probs
        return binary_concrete(logits, batch.noise, per_code(hyper.noise), per_code(hyper.temperature))

    def predict(self, codes: Tensor, actions: Tensor) -> Tensor:
        return self.through(self.model.predictor, codes, actions)

    def predict_later(self, logits: Tensor, batch: Batch, later_bits: list[Tensor]) -> LaterCodes:
        """On from the logits of the next bits, which are made bits again before each action."""
        steps = []
        for step, bits in zip(batch.later, later_bits):
            logits = self.predict(straight_through(torch.sigmoid(logits)), step.actions)
            steps.append((logits, bits, step.seen))
        return tuple(steps)

    def decode(self, codes: Tensor) -> Tensor | None:
        return self.through(self.model.decoder, codes) if self.model.decoder is not None else None

    def through(self, network: nn.Module, *inputs: Tensor) -> Tensor:
        """A network's output, by its twin if it has one."""
        return self.twins.get(network, network)(*inputs)

    def descend(self, loss: Tensor, *optimizers: torch.optim.Optimizer) -> None:
        """One optimizer step on a loss; several runs' losses are summed, each reaches its own weights only."""
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss.sum().backward()
        for optimizer in optimizers:
            optimizer.step()

    @torch.no_grad()
    def move_target(self, tau: float | Tensor) -> None:
        """φ' ← τ φ' + (1 − τ) φ, after every optimizer step; buffers (running statistics) are copied."""
        encoder = self.model.encoder
        for slow, fast in zip(self.target.parameters(), encoder.parameters()):
            slow.lerp_(fast, 1 - tau)
        for kept, current in zip(self.target.buffers(), encoder.buffers()):
            kept.copy_(current)


Scheme = Callable[["Learner", Batch, Hyper], Update]


def per_code(value: float | Tensor) -> float | Tensor:
    """A hyperparameter of one run or of several, made to broadcast against codes (..., N, K)."""
    return value[..., None, None] if isinstance(value, Tensor) else value


Feed = Callable[[Tensor], Tensor]


def _full_step(
    learner: Learner,
    batch: Batch,
    hyper: Hyper,
    logits: Tensor,
    probs: Tensor,
    next_bits: Tensor,
    later_bits: list[Tensor],
    feed: Feed,
) -> dict[str, Tensor]:
    """Encoder, predictor and decoder together under the whole objective."""
    noised = learner.noised(logits, probs, batch, hyper)
    predicted = learner.predict(feed(noised if learner.noisy_predictor else probs), batch.actions)
    codes = Codes(
        images=batch.images,
        next_probs=learner.probabilities(batch.next_images, hyper)[1] if learner.objective.looks else None,
        probs=probs,
        next_bits=next_bits,
        predicted=predicted,
        decoded=learner.decode(noised),
        triplets=batch.triplets,
        actions=batch.actions,
        later=learner.predict_later(predicted, batch, later_bits),
    )
    total, terms = learner.objective.evaluate(codes, hyper)
    learner.descend(total, learner.codes_optimizer, learner.predictor_optimizer)
    learner.move_target(hyper.tau)
    return terms


def _one_step(learner: Learner, batch: Batch, hyper: Hyper, feed: Feed) -> Update:
    logits, probs = learner.probabilities(batch.images, hyper)
    next_bits, later_bits = learner.target_bits(batch), learner.later_bits(batch)
    terms = _full_step(learner, batch, hyper, logits, probs, next_bits, later_bits, feed)
    return _report(terms, probs, next_bits)


def _two_steps(learner: Learner, batch: Batch, hyper: Hyper, feed: Feed) -> Update:
    logits, probs = learner.probabilities(batch.images, hyper)
    next_bits, later_bits = learner.target_bits(batch), learner.later_bits(batch)
    predictor_step(learner, batch, hyper, threshold(probs.detach()), next_bits, later_bits)
    terms = _full_step(learner, batch, hyper, logits, probs, next_bits, later_bits, feed)
    return _report(terms, probs, next_bits)


def predictor_step(
    learner: Learner, batch: Batch, hyper: Hyper, bits: Tensor, next_bits: Tensor, later_bits: list[Tensor]
) -> None:
    """Step 1 of the two-step schemes: the predictor alone, from hard bits to hard bits."""
    predicted = learner.predict(bits, batch.actions)
    loss = losses.prediction(predicted, next_bits)
    if later_bits:
        loss = loss + later_prediction(learner.predict_later(predicted, batch, later_bits))
    learner.descend(loss, learner.predictor_optimizer)
    learner.move_target(hyper.tau)


def soft(learner: Learner, batch: Batch, hyper: Hyper) -> Update:
    return _one_step(learner, batch, hyper, feed=lambda probs: probs)


def straight_through_scheme(learner: Learner, batch: Batch, hyper: Hyper) -> Update:
    return _one_step(learner, batch, hyper, feed=straight_through)


def two_step(learner: Learner, batch: Batch, hyper: Hyper) -> Update:
    return _two_steps(learner, batch, hyper, feed=lambda probs: probs)


def two_step_st(learner: Learner, batch: Batch, hyper: Hyper) -> Update:
    return _two_steps(learner, batch, hyper, feed=straight_through)


def mixed_two_step(straight: Tensor) -> Scheme:
    """Both two-step schemes at once, for several runs: straight-through where ``straight``, bool (S,), is true."""

    def feed(probs: Tensor) -> Tensor:
        return torch.where(straight[:, None, None], straight_through(probs), probs)

    return lambda learner, batch, hyper: _two_steps(learner, batch, hyper, feed)


def joint(learner: Learner, batch: Batch, hyper: Hyper) -> Update:
    _, probs = learner.probabilities(batch.images, hyper)
    _, next_probs = learner.probabilities(batch.next_images, hyper)
    next_bits, bits = threshold(next_probs.detach()), straight_through(probs)
    codes = Codes(
        images=batch.images,
        probs=probs,
        next_bits=next_bits,
        predicted=learner.predict(bits, batch.actions),
        decoded=learner.decode(bits),
        triplets=batch.triplets,
        actions=batch.actions,
        next_images=batch.next_images,
        next_probs=next_probs,
        next_decoded=learner.decode(straight_through(next_probs)),
    )
    total, terms = learner.objective.evaluate(codes, hyper)
    learner.descend(total, learner.codes_optimizer, learner.predictor_optimizer)
    return _report(terms, probs, next_bits)


def _report(terms: dict[str, Tensor], probs: Tensor, next_bits: Tensor) -> Update:
    return Update({name: term.detach() for name, term in terms.items()}, threshold(probs.detach()), next_bits)


SCHEMES: dict[str, Scheme] = {
    "soft": soft,
    "straight_through": straight_through_scheme,
    "two_step": two_step,
    "two_step_st": two_step_st,
    "joint": joint,
}
