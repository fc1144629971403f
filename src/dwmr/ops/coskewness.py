"""Mean absolute third cross-moment of three distinct bits (the paper's eq. 6), and the standardisation before it."""

from collections.abc import Sequence

import torch
from torch import Tensor

from dwmr.ops.dispatch import define, scale_gradient, use_cpu_kernels, use_triton, value_and_gradient
from dwmr.ops.native import call

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
        from dwmr.ops import triton_coskewness

        if probs.shape[-2] <= triton_coskewness.MAX_SAMPLES:
            return triton_coskewness.coskewness([probs], [EPS])[0]
    if use_cpu_kernels(probs, "coskewness"):
        samples, bits = probs.shape[-2:]
        return 6 * _third([standardize(probs)])[0] / (samples * bits * (bits - 1) * (bits - 2))
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


def _third_moments(inputs: Sequence[Tensor], form: Sequence[float]) -> list[Tensor]:
    """Σ over i < j < k of |Σ_n x_ni x_nj x_nk| for each run of standardised bits x (S, N, K), and its gradient."""
    x = inputs[0].contiguous()
    gradients, totals = torch.empty_like(x), []
    for run, gradient in zip(x, gradients, strict=True):
        totals.append(call("coskewness", run, *run.shape, gradient, torch.get_num_threads()))
    return [x.new_tensor(totals), gradients]


_third = define("third_moments", _third_moments, scale_gradient, value_and_gradient)
