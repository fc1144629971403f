"""Mean absolute third cross-moment of three distinct bits (the paper's eq. 6), and the standardisation before it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dwmr.ops.dispatch import define, use_cpu_kernels, use_triton

EPS = 1e-6


def standardize(probs: Tensor) -> Tensor:
    """Eq. 2: each bit (N, K) less its batch mean, over its standard deviation + ε; a constant bit becomes 0."""
    centred = probs - probs.mean(-2, keepdim=True)
    spread = probs.var(-2, correction=1, keepdim=True)
    # The mean of equal numbers need not be that number, and the root's slope at 0 is infinite: constant bits are kept
    # out of both, so that they and their gradients are 0, not noise over ε, and not NaN.
    varies = (probs != probs[..., :1, :]).any(-2, keepdim=True) & ~(spread <= 0)  # NaN stays NaN
    deviation = torch.where(varies, torch.where(varies, spread, 1.0).sqrt(), 0.0)
    return torch.where(varies, centred, 0.0) / (deviation + EPS)


def coskewness(probs: Tensor) -> Tensor:
    """The term over all triplets of bits, for probs (N, K)."""
    if use_triton(probs, "coskewness"):
        from dwmr.ops.triton_coskewness import MAX_SAMPLES

        if probs.shape[-2] <= MAX_SAMPLES:
            return _coskewness(probs.unsqueeze(0))[0].squeeze(0)
    if use_cpu_kernels(probs, "coskewness"):
        samples, bits = probs.shape[-2:]
        total = _distinct_third_moments(standardize(probs).unsqueeze(0))[0].squeeze(0)
        return 6 * total / (samples * bits * (bits - 1) * (bits - 2))
    return reference(probs)


def reference(probs: Tensor) -> Tensor:
    """The term in plain PyTorch.

    The sum over distinct indices is the sum over all of them, less those where at least two coincide:
    Σ|M_ijk| − 3 Σ|M_iij| + 2 Σ|M_iii|. No mask and no index gathering is needed.
    """
    samples, bits = probs.shape[-2:]
    standard = standardize(probs)
    pairs = (standard.unsqueeze(-1) * standard.unsqueeze(-2)).flatten(-2)
    every = (pairs.mT @ standard).abs().sum((-2, -1))
    two_equal = (standard.square().mT @ standard).abs().sum((-2, -1))
    all_equal = standard.pow(3).sum(-2).abs().sum(-1)
    distinct = every - 3 * two_equal + 2 * all_equal
    return distinct / (samples * bits * (bits - 1) * (bits - 2))


def _fake(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.new_empty(len(x)), torch.empty_like(x)


def _save_gradient(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(output[1])


def _scale_gradient(ctx: Any, upstream: Tensor, _: Tensor) -> Tensor:
    """The gradient was formed together with the value."""
    return ctx.saved_tensors[0] * upstream[:, None, None]


def _on_gpu(probs: Tensor) -> tuple[Tensor, Tensor]:
    from dwmr.ops.triton_coskewness import value_and_gradient

    return value_and_gradient(probs, EPS)


def _on_cpu(standard: Tensor) -> tuple[Tensor, Tensor]:
    from dwmr.ops.native import distinct_third_moments

    found = [distinct_third_moments(run) for run in standard.contiguous()]
    return standard.new_tensor([total for total, _ in found]), torch.stack([gradient for _, gradient in found])


# Each returns the values (S,) and their gradients (S, N, K).
_coskewness = define(
    "coskewness",
    _on_gpu,
    _fake,
    schema="(Tensor probs) -> (Tensor, Tensor)",
    setup=_save_gradient,
    backward=_scale_gradient,
)
_distinct_third_moments = define(
    "distinct_third_moments",
    _on_cpu,
    _fake,
    schema="(Tensor standard) -> (Tensor, Tensor)",
    setup=_save_gradient,
    backward=_scale_gradient,
)
