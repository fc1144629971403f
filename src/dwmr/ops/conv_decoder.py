"""Blocks of doubling, 3×3 convolution, per-channel normalisation of every image and ReLU, then a last convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from dwmr.ops.conv_features import EPS
from dwmr.ops.dispatch import define


def conv_decoder(x: Tensor, parameters: Sequence[Tensor], doubles: Sequence[bool]) -> Tensor:
    """Features (N, C, H, W) to images (N, O, H', W'), in fused CUDA kernels.

    Args:
        x: the features.
        parameters: weight (O, C, 3, 3), scale (O,) and shift (O,) of each block, then weight and bias of the last
            convolution.
        doubles: whether the image is doubled in size, by copying its pixels, before each convolution.
    """
    *weights, bias = (each.unsqueeze(0) for each in parameters)
    for place, double in enumerate(doubles):
        if double:
            weights[3 * place] = doubled_taps(weights[3 * place])
    return _decoder(x.permute(0, 2, 3, 1).unsqueeze(0), bias, weights, list(doubles))[0].squeeze(0).permute(0, 3, 1, 2)


def reference(x: Tensor, parameters: Sequence[Tensor], doubles: Sequence[bool]) -> Tensor:
    """`conv_decoder` in plain PyTorch."""
    *weights, bias = parameters
    for place, double in enumerate(doubles):
        weight, *norm = weights[3 * place : 3 * place + 3]
        x = F.interpolate(x, scale_factor=2) if double else x
        x = F.conv2d(x, weight, None if norm else bias, padding=1)
        x = F.relu(F.group_norm(x, x.shape[1], norm[0], norm[1], EPS)) if norm else x
    return x


def doubled_taps(weight: Tensor) -> Tensor:
    """Taps (S, O, C, 3, 3) of a doubled image as (S, 4 · O, C, 3, 3) of the small one: for the upper and lower copies
    of a pixel, the left and right one, and each output."""
    return _copies(_copies(weight, -1), -2).flatten(1, 3)


def _copies(taps: Tensor, axis: int) -> Tensor:
    """What the two copies of a pixel along an axis see of the small image, (S, 2, …): the first its neighbour before
    and itself twice, the second itself twice and its neighbour after."""
    before, here, after = taps.unbind(axis)
    none = torch.zeros_like(here)
    seen = (before, here + after, none), (none, before + here, after)
    return torch.stack([torch.stack(each, axis) for each in seen], 1)


def _forward(x: Tensor, bias: Tensor, parameters: list[Tensor], doubles: list[bool]) -> list[Tensor]:
    """Images (S, N, H', W', O), then whatever the backward pass needs."""
    from dwmr.ops.triton_decode import decoder_forward

    return decoder_forward(x, bias, parameters, doubles)


def _fake(x: Tensor, bias: Tensor, parameters: list[Tensor], doubles: list[bool]) -> list[Tensor]:
    from dwmr.ops.triton_decode import decoder_shapes

    return decoder_shapes(x, parameters, doubles)


def _backward(
    gradient: Tensor, bias: Tensor, parameters: list[Tensor], saved: list[Tensor], doubles: list[bool]
) -> list[Tensor]:
    """The gradients of x, bias and the parameters."""
    from dwmr.ops.triton_decode import decoder_backward

    return decoder_backward(gradient, parameters, saved, doubles)


def _fake_backward(
    gradient: Tensor, bias: Tensor, parameters: list[Tensor], saved: list[Tensor], doubles: list[bool]
) -> list[Tensor]:
    runs, count, height, width, channels = saved[0].shape
    of_x = gradient.new_empty(runs, count, height - 2, width - 2, channels)
    return [of_x, torch.empty_like(bias), *(torch.empty_like(each) for each in parameters)]


def _setup(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    _, bias, parameters, doubles = inputs
    ctx.save_for_backward(bias, *parameters, *output[1:])
    ctx.form = len(parameters), doubles


def _differentiate(ctx: Any, upstream: list[Tensor]) -> tuple[Tensor, Tensor, list[Tensor], None]:
    bias, *rest = ctx.saved_tensors
    count, doubles = ctx.form
    of_x, of_bias, *found = _decoder_backward(upstream[0], bias, rest[:count], rest[count:], doubles)
    return of_x, of_bias, found, None


_decoder_backward = define(
    "conv_decoder_backward",
    _backward,
    _fake_backward,
    schema="(Tensor gradient, Tensor bias, Tensor[] parameters, Tensor[] saved, bool[] doubles) -> Tensor[]",
)
_decoder = define(
    "conv_decoder",
    _forward,
    _fake,
    schema="(Tensor x, Tensor bias, Tensor[] parameters, bool[] doubles) -> Tensor[]",
    setup=_setup,
    backward=_differentiate,
)
