"""The coskewness term by its symmetry, with its gradient in closed form.

M_ijk does not change when its indices are permuted, so i < j < k suffices. For a fixed i the moments with all later
pairs (j, k) are one symmetric matrix product, and so is their gradient:

    M_i = (x_i ⊙ X)ᵀ X,   S_i = sign(M_i) off the diagonal,   Y = X S_i
    ∂/∂X_j += x_i ⊙ Y_j,   ∂/∂x_i += ½ Σ_j X_j ⊙ Y_j           (X: the columns after i)

Both are formed in the forward pass, for a few i at a time, and M_i is dropped at once: a third of the multiplications,
and nothing of size K³ or N·K² in memory.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dwmr.training.losses import standardize

BLOCK = 4  # bits i taken together: larger products, fewer of them


def coskewness(probs: Tensor) -> Tensor:
    """`dwmr.training.losses.coskewness` over all triplets, for probs (..., N, K)."""
    samples, bits = probs.shape[-2:]
    total = _DistinctThirdMoments.apply(standardize(probs))
    return 6 * total / (samples * bits * (bits - 1) * (bits - 2))


class _DistinctThirdMoments(torch.autograd.Function):
    """Σ over i < j < k of |Σ_n x_ni x_nj x_nk|, for x (..., N, K)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        gradient = torch.zeros_like(x) if ctx.needs_input_grad[0] else None
        total = x.new_zeros(x.shape[:-2])
        for start in range(0, x.shape[-1] - 2, BLOCK):
            first = x[..., start : start + BLOCK]
            later = x[..., start + 1 :]
            size, width = first.shape[-1], later.shape[-1]
            products = (first.unsqueeze(-1) * later.unsqueeze(-2)).flatten(-2)
            moments = (products.mT @ later).unflatten(-2, (size, width))
            moments.diagonal(dim1=-2, dim2=-1).zero_()
            # The r-th bit of the block is paired with the bits after it: not with the first r of ``later``.
            for r in range(1, size):
                moments[..., r, :r, :] = 0
                moments[..., r, :, :r] = 0
            total += moments.abs().sum((-3, -2, -1)) / 2
            if gradient is not None:
                signs = moments.sign_().transpose(-3, -2).flatten(-2)
                pull = (later @ signs).unflatten(-1, (size, width))
                gradient[..., start : start + size] += (later.unsqueeze(-2) * pull).sum(-1) / 2
                gradient[..., start + 1 :] += (first.unsqueeze(-1) * pull).sum(-2)
        ctx.save_for_backward(gradient)
        return total

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Tensor | None:
        (gradient,) = ctx.saved_tensors
        return None if gradient is None else gradient * upstream[0][..., None, None]
