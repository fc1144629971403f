"""Blocks of doubling, 3×3 convolution, per-channel normalisation of every image and ReLU, then a last convolution."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from dwmr.ops.conv_features import EPS
from dwmr.ops.dispatch import Kernels, define


def conv_decoder(x: Tensor, parameters: Sequence[Tensor], doubles: Sequence[bool]) -> Tensor:
    """Features (N, C, H, W) to images (N, O, H', W'), in fused CUDA kernels.

    Args:
        x: the features.
        parameters: weight (O, C, 3, 3), scale (O,) and shift (O,) of each block, then weight and bias of the last
            convolution.
        doubles: whether the image is doubled in size, by copying its pixels, before each convolution.
    """
    *weights, bias = parameters
    for place, double in enumerate(doubles):
        if double:
            weights[3 * place] = doubled_taps(weights[3 * place])
    return _decoder([x.permute(0, 2, 3, 1), bias, *weights], doubles)[0].permute(0, 3, 1, 2)


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
    """Taps (O, C, 3, 3) of a doubled image as (4 · O, C, 3, 3) of the small one: for the upper and lower copies of a
    pixel, the left and right one, and each output."""
    return _copies(_copies(weight, -1), -2).flatten(0, 2)


def _copies(taps: Tensor, axis: int) -> Tensor:
    """What the two copies of a pixel along an axis see of the small image, (2, …): the first its neighbour before
    and itself twice, the second itself twice and its neighbour after."""
    before, here, after = taps.unbind(axis)
    none = torch.zeros_like(here)
    seen = (before, here + after, none), (none, before + here, after)
    return torch.stack([torch.stack(each, axis) for each in seen])


def _kernels(x: Tensor) -> Kernels:
    from dwmr.ops import triton_decode

    return triton_decode.decoder_forward, triton_decode.decoder_backward


def _fake(inputs: list[Tensor], doubles: list[float]) -> list[Tensor]:
    from dwmr.ops.triton_decode import decoder_shapes

    return decoder_shapes(inputs, doubles)


_decoder = define("conv_decoder", _kernels, _fake)
