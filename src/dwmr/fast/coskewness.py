"""The coskewness term by its symmetry, with its gradient in closed form.

M_ijk does not change when its indices are permuted, so i < j < k suffices. For a fixed i the moments with all later
pairs (j, k) are one symmetric matrix product, and so is their gradient:

    M_i = (x_i ⊙ X)ᵀ X,   S_i = sign(M_i) off the diagonal,   Y = X S_i
    ∂/∂X_j += x_i ⊙ Y_j,   ∂/∂x_i += ½ Σ_j X_j ⊙ Y_j           (X: the columns after i)

Both are formed in the forward pass and M_i is dropped at once: a sixth of the moments' cost in memory traffic, a third
of the multiplications, and nothing of size K³ or N·K² in memory.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dwmr.losses import standardize


def coskewness(probs: Tensor) -> Tensor:
    """`dwmr.losses.coskewness` over all triplets, for probs (..., N, K)."""
    samples, bits = probs.shape[-2:]
    total = _DistinctThirdMoments.apply(standardize(probs))
    return 6 * total / (samples * bits * (bits - 1) * (bits - 2))


class _DistinctThirdMoments(torch.autograd.Function):
    """Σ over i < j < k of |Σ_n x_ni x_nj x_nk|, for x (..., N, K)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        wanted = ctx.needs_input_grad[0]
        gradient = torch.zeros_like(x) if wanted else None
        total = x.new_zeros(x.shape[:-2])
        for i in range(x.shape[-1] - 2):
            column, later = x[..., i : i + 1], x[..., i + 1 :]
            moments = (later * column).mT @ later
            moments.diagonal(dim1=-2, dim2=-1).zero_()
            total += moments.abs().sum((-2, -1)) / 2
            if gradient is not None:
                pull = later @ moments.sign_()
                gradient[..., i] += (later * pull).sum(-1) / 2
                gradient[..., i + 1 :].addcmul_(column, pull)
        ctx.save_for_backward(gradient)
        return total

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Tensor | None:
        (gradient,) = ctx.saved_tensors
        return None if gradient is None else gradient * upstream[0][..., None, None]
