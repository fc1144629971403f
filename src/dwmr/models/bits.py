"""From probabilities to bits."""

import torch
from torch import Tensor


def threshold(probs: Tensor) -> Tensor:
    """Hard bits b = 1(p ≥ 0.5), as numbers 0 and 1 of the same type; no gradient."""
    return (probs >= 0.5).to(probs.dtype)


def straight_through(probs: Tensor) -> Tensor:
    """Hard bits going forward, the probabilities' gradient going back.

    The added difference is exactly zero, so the values are exactly 0 and 1.
    """
    return threshold(probs) + (probs - probs.detach())


def binary_concrete(
    logits: Tensor, uniform: Tensor, scale: float | Tensor = 1.0, temperature: float | Tensor = 1.0
) -> Tensor:
    """Relaxed samples of bits, sigmoid((logits + noise) / temperature), with logistic noise of the given scale made
    from numbers uniform in (0, 1)."""
    return torch.sigmoid((logits + scale * torch.logit(uniform)) / temperature)
