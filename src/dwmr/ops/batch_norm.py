"""Batch normalisation by the batch's own moments, with an optional ReLU."""

from typing import cast

import torch
from torch import Tensor, nn

from dwmr.ops.dispatch import Kernels, define


def batch_norm(x: Tensor, norm: nn.BatchNorm2d, *, relu: bool, bias: Tensor | None = None) -> Tensor:
    """x (N, C, H, W) through ``norm`` in training mode, in fused CUDA kernels; running statistics move on.

    ``bias`` (C,) is that of a convolution just before: it moves the mean and nothing else, so it is only added to the
    running mean. Its gradient is exactly zero.
    """
    last = x.permute(0, 2, 3, 1)
    rows = last.flatten(0, 2)
    y, mean, var = _batch_norm([rows, norm.weight, norm.bias], [norm.eps, relu])
    track(norm, mean if bias is None else mean + bias, var, len(rows))
    return y.view(last.shape).permute(0, 3, 1, 2)


@torch.no_grad()
def track(norm: nn.BatchNorm2d, mean: Tensor, var: Tensor, count: int) -> None:
    """Move running statistics on, given a batch's mean and variance (C,) over ``count`` numbers of each channel."""
    momentum = cast(float, norm.momentum)
    for kept, fresh in ((norm.running_mean, mean), (norm.running_var, var * (count / (count - 1)))):
        cast(Tensor, kept).mul_(1 - momentum).add_(fresh, alpha=momentum)
    cast(Tensor, norm.num_batches_tracked).add_(1)


def reference(x: Tensor, weight: Tensor, bias: Tensor, eps: float, relu: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Rows x (S, M, C) normalised by their moments, with weight and bias (S, C); and the mean and variance (S, C)."""
    var, mean = torch.var_mean(x, dim=1, correction=0)
    y = (x - mean[:, None]) * (var[:, None] + eps).rsqrt() * weight[:, None] + bias[:, None]
    return (y.relu() if relu else y), mean, var


def fits(norm: nn.Module) -> bool:
    """Whether the kernels know this layer."""
    return isinstance(norm, nn.BatchNorm2d) and norm.affine and norm.track_running_stats and bool(norm.momentum)


def _kernels(x: Tensor) -> Kernels:
    from dwmr.ops import triton_batch_norm

    return triton_batch_norm.forward, triton_batch_norm.backward


def _fake(inputs: list[Tensor], form: list[float]) -> list[Tensor]:
    return [each.new_empty(each.shape) for each in inputs]


_batch_norm = define("batch_norm", _kernels, _fake)
