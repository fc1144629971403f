"""Training schemes: what one minibatch does to the weights.

Each scheme reads top to bottom: codes, losses, step, target update. They differ in what the predictor is fed:

    soft              probabilities, gradient through them (the paper's "fully differentiable")
    straight_through  hard bits, gradient as if they were probabilities
    two_step          first the predictor alone on hard bits, then everything on probabilities (§3.3)
    two_step_st       the same, the second step straight-through (§5.1)
    predictor_alone   the predictor alone on hard bits, for an encoder that is finished
    joint             DeepCubeAI: both frames encoded with gradient, straight-through, no target encoder
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from dwmr.config import Hyper
from dwmr.data.batches import Batch
from dwmr.models.bits import straight_through, threshold
from dwmr.training import losses
from dwmr.training.learner import Learner
from dwmr.training.objectives import Codes, later_prediction


@dataclass(frozen=True)
class Update:
    """What an update reports, detached: the unweighted loss terms, and the bits before and after the action."""

    terms: dict[str, Tensor]
    bits: Tensor
    next_bits: Tensor


Scheme = Callable[[Learner, Batch, Hyper], Update]


def _whole_update(
    learner: Learner, batch: Batch, hyper: Hyper, *, feed: Callable[[Tensor], Tensor], two_steps: bool
) -> Update:
    """Encoder, predictor and decoder together under the whole objective; before that the predictor alone on hard bits,
    if there are two steps. ``feed`` turns probabilities into what the predictor is given."""
    logits, probs = learner.probabilities(batch.images, hyper)
    next_bits, later_bits = _targets(learner, batch)
    if two_steps:
        predictor_step(learner, batch, hyper, threshold(probs.detach()), next_bits, later_bits)
    predicted = learner.predict(feed(probs), batch.actions)
    codes = Codes(
        images=batch.images,
        probs=probs,
        next_bits=next_bits,
        predicted=predicted,
        decoded=learner.decode(learner.noised(logits, probs, batch, hyper)),
        triplets=batch.triplets,
        actions=batch.actions,
        next_probs=learner.probabilities(batch.next_images, hyper)[1] if learner.objective.next_probs else None,
        later=learner.predict_later(predicted, batch, later_bits),
    )
    total, terms = learner.evaluate(codes, hyper)
    learner.descend(total, learner.codes_optimizer, learner.predictor_optimizer)
    learner.move_target(hyper.tau)
    return _report(terms, probs, next_bits)


def _targets(learner: Learner, batch: Batch) -> tuple[Tensor, list[Tensor]]:
    """Target bits of the next images, and of the images after each later action."""
    next_bits = learner.target_bits(batch.next_images, batch.second_views)
    return next_bits, [learner.target_bits(step.images) for step in batch.later]


def predictor_step(
    learner: Learner, batch: Batch, hyper: Hyper, bits: Tensor, next_bits: Tensor, later_bits: list[Tensor]
) -> Tensor:
    """Step 1 of the two-step schemes: the predictor alone, from hard bits to hard bits. Returns its loss."""
    predicted = learner.predict(bits, batch.actions)
    loss = learner.each(losses.prediction, predicted, next_bits)
    if later_bits:
        loss = loss + learner.each(later_prediction, learner.predict_later(predicted, batch, later_bits))
    learner.descend(loss, learner.predictor_optimizer)
    learner.move_target(hyper.tau)
    return loss


def mixed_two_step(straight: Tensor) -> Scheme:
    """Both two-step schemes at once, for several runs: straight-through where ``straight``, bool (S,), is true."""

    def feed(probs: Tensor) -> Tensor:
        return torch.where(straight[:, None, None], straight_through(probs), probs)

    return partial(_whole_update, feed=feed, two_steps=True)


def predictor_alone(learner: Learner, batch: Batch, hyper: Hyper) -> Update:
    bits, (next_bits, later_bits) = learner.target_bits(batch.images), _targets(learner, batch)
    loss = predictor_step(learner, batch, hyper, bits, next_bits, later_bits)
    return Update({"pred": loss.detach()}, bits, next_bits)


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
    total, terms = learner.evaluate(codes, hyper)
    learner.descend(total, learner.codes_optimizer, learner.predictor_optimizer)
    return _report(terms, probs, next_bits)


def _report(terms: dict[str, Tensor], probs: Tensor, next_bits: Tensor) -> Update:
    return Update({name: term.detach() for name, term in terms.items()}, threshold(probs.detach()), next_bits)


SCHEMES: dict[str, Scheme] = {
    "soft": partial(_whole_update, feed=lambda probs: probs, two_steps=False),
    "straight_through": partial(_whole_update, feed=straight_through, two_steps=False),
    "two_step": partial(_whole_update, feed=lambda probs: probs, two_steps=True),
    "two_step_st": partial(_whole_update, feed=straight_through, two_steps=True),
    "predictor_alone": predictor_alone,
    "joint": joint,
}
