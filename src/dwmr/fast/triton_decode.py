"""The convolutional part of `ConvDecoder` on the kernels of `triton_conv`, for many runs at once.

To double an image's sides by copying its pixels and then to convolve it 3×3 is a convolution of the small image: the
four copies of a pixel see 2×2 small pixels each, through taps that are sums of the nine (`doubled_taps`). So nothing is
ever enlarged but the results, and the four copies fill the matrix units where there are few channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dwmr.fast import triton_conv
from dwmr.fast.triton_conv import convolve, framed, scaled, unscaled, weight_gradient
from dwmr.fast.triton_norm import normalize, normalize_back


@dataclass(frozen=True)
class DecodingBlock:
    """Weights (S, O, C, 3, 3), scale and shift (S, O) of all runs, and whether the image is doubled before."""

    weight: Tensor
    scale: Tensor
    shift: Tensor
    double: bool


def decode(x: Tensor, blocks: Sequence[DecodingBlock], weight: Tensor, bias: Tensor, double: bool) -> Tensor:
    """x (S, N, C, H, W) through all blocks and a last convolution, to (S, N, O, H', W')."""
    tensors: list[Tensor] = []
    for block in blocks:
        tensors += [doubled_taps(block.weight) if block.double else block.weight, block.scale, block.shift]
    tensors.append(doubled_taps(weight) if double else weight)
    doubles = (*(block.double for block in blocks), double)
    return _Decoding.apply(x.permute(0, 1, 3, 4, 2), bias, doubles, *tensors).permute(0, 1, 4, 2, 3)


def doubled_taps(weight: Tensor) -> Tensor:
    """Taps (S, O, C, 3, 3) of a doubled image as (S, 4 · O, C, 3, 3) of the small one: for the left and right copy of a
    pixel, its upper and lower one, and each output."""
    return _copies(_copies(weight, -2), -1).flatten(1, 3)


def _copies(taps: Tensor, axis: int) -> Tensor:
    """What the two copies of a pixel along an axis see of the small image, (S, 2, …): the first its neighbour before
    and itself twice, the second itself twice and its neighbour after."""
    before, here, after = taps.unbind(axis)
    none = torch.zeros_like(here)
    seen = (before, here + after, none), (none, before + here, after)
    return torch.stack([torch.stack(each, axis) for each in seen], 1)


class _Decoding(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, images: Tensor, bias: Tensor, doubles: tuple[bool, ...], *tensors: Tensor) -> Tensor:
        x = y = framed(images.flatten(0, 1), triton_conv.STORAGE)
        saved: list[Tensor] = []
        for place, double in enumerate(doubles):
            weight, *norm = (tensor.contiguous() for tensor in tensors[3 * place : 3 * place + 3])
            y = convolve(x, weight)
            y = _apart(y) if double else y
            saved += [x, weight]
            if norm:
                scale, shift = norm
                x, mean, deviation = normalize(y, scale, shift, pool=False)
                saved += [y, mean, deviation, scale, shift]
        ctx.save_for_backward(*saved)
        ctx.doubles = doubles
        return y.unflatten(0, images.shape[:2]) + bias[:, None, None, None]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        arrived, factor = scaled(gradients[0])
        found: list[Tensor] = []
        for place, double in reversed(list(enumerate(ctx.doubles))):
            x, weight, *normed = ctx.saved_tensors[7 * place : 7 * place + 7]
            of_norm: list[Tensor] = []
            if normed:
                y, mean, deviation, scale, shift = normed
                arrived, *of_norm = normalize_back(
                    arrived, y, mean, deviation, scale, shift, pool=False, border=not double
                )
            back = _together(arrived) if double else arrived if normed else framed(arrived)
            found = [weight_gradient(x, back, weight.shape), *of_norm, *found]
            arrived = convolve(back, weight, transposed=True)
        of_images = arrived.unflatten(0, gradients[0].shape[:2])
        of_bias = gradients[0].sum((1, 2, 3))
        return unscaled(of_images, factor), of_bias, None, *(unscaled(each, factor) for each in found)


def _apart(y: Tensor) -> Tensor:
    """Four copies of each pixel (N, H, W, 4 · O) at their places (N, 2 · H, 2 · W, O)."""
    images, height, width, outputs = y.shape
    copies = y.view(images, height, width, 2, 2, outputs // 4).permute(0, 1, 4, 2, 3, 5)
    return copies.reshape(images, 2 * height, 2 * width, outputs // 4)


def _together(y: Tensor) -> Tensor:
    """The way back of `_apart`, with a border of zeros."""
    images, height, width, outputs = y.shape
    height, width = height // 2, width // 2
    result = y.new_zeros(images, height + 2, width + 2, 4 * outputs)
    copies = y.view(images, height, 2, width, 2, outputs).permute(0, 1, 3, 4, 2, 5)
    result[:, 1:-1, 1:-1].unflatten(-1, (2, 2, outputs)).copy_(copies)
    return result
