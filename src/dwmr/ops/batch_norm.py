"""Batch normalisation by the batch's own moments, with an optional ReLU."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from dwmr.ops.dispatch import define


def batch_norm(x: Tensor, norm: nn.BatchNorm2d, *, relu: bool, bias: Tensor | None = None) -> Tensor:
    """x (N, C, H, W) through ``norm`` in training mode, in fused CUDA kernels; running statistics move on.

    ``bias`` (C,) is that of a convolution just before: it moves the mean and nothing else, so it is only added to the
    running mean. Its gradient is exactly zero.
    """
    last = x.permute(0, 2, 3, 1)
    rows = last.flatten(0, 2)
    y, mean, var = _batch_norm(rows.unsqueeze(0), norm.weight.unsqueeze(0), norm.bias.unsqueeze(0), norm.eps, relu)
    with torch.no_grad():
        count, momentum = len(rows), cast(float, norm.momentum)
        mean = mean.squeeze(0) if bias is None else mean.squeeze(0) + bias
        var = var.squeeze(0) * (count / (count - 1))
        for kept, fresh in ((norm.running_mean, mean), (norm.running_var, var)):
            cast(Tensor, kept).mul_(1 - momentum).add_(fresh, alpha=momentum)
        cast(Tensor, norm.num_batches_tracked).add_(1)
    return y.squeeze(0).view(last.shape).permute(0, 3, 1, 2)


def reference(x: Tensor, weight: Tensor, bias: Tensor, eps: float, relu: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Rows x (S, M, C) normalised by their moments, with weight and bias (S, C); and the mean and variance (S, C)."""
    var, mean = torch.var_mean(x, dim=1, correction=0)
    y = (x - mean[:, None]) * (var[:, None] + eps).rsqrt() * weight[:, None] + bias[:, None]
    return (y.relu() if relu else y), mean, var


def fits(norm: nn.Module) -> bool:
    """Whether the kernels know this layer."""
    return isinstance(norm, nn.BatchNorm2d) and norm.affine and norm.track_running_stats and bool(norm.momentum)


def _forward(x: Tensor, weight: Tensor, bias: Tensor, eps: float, relu: bool) -> tuple[Tensor, Tensor, Tensor]:
    from dwmr.ops import triton_batch_norm

    return triton_batch_norm.forward(x, weight, bias, eps, relu)


def _fake(x: Tensor, weight: Tensor, bias: Tensor, eps: float, relu: bool) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(x.shape), torch.empty_like(weight), torch.empty_like(weight)


def _backward(
    gradient: Tensor, x: Tensor, mean: Tensor, var: Tensor, weight: Tensor, bias: Tensor, eps: float, relu: bool
) -> tuple[Tensor, Tensor, Tensor]:
    from dwmr.ops import triton_batch_norm

    return triton_batch_norm.backward(gradient, x, mean, var, weight, bias, eps, relu)


def _fake_backward(
    gradient: Tensor, x: Tensor, mean: Tensor, var: Tensor, weight: Tensor, bias: Tensor, eps: float, relu: bool
) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(x.shape), torch.empty_like(weight), torch.empty_like(bias)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    x, weight, bias, eps, relu = inputs
    _, mean, var = output
    ctx.save_for_backward(x, mean, var, weight, bias)
    ctx.form = eps, relu


def _differentiate(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
    return *_batch_norm_backward(gradient, *ctx.saved_tensors, *ctx.form), None, None


_TENSORS = "Tensor x, Tensor mean, Tensor var, Tensor weight, Tensor bias, float eps, bool relu"
_batch_norm_backward = define(
    "batch_norm_backward",
    _backward,
    _fake_backward,
    schema=f"(Tensor gradient, {_TENSORS}) -> (Tensor, Tensor, Tensor)",
)
_batch_norm = define(
    "batch_norm",
    _forward,
    _fake,
    schema="(Tensor x, Tensor weight, Tensor bias, float eps, bool relu) -> (Tensor, Tensor, Tensor)",
    setup=_setup,
    backward=_differentiate,
)
