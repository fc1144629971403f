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

from dwmr.ops import triton_conv
from dwmr.ops.triton_conv import convolve, framed, of_runs, scaled, unscaled, weight_gradient
from dwmr.ops.triton_norm import normalize, normalize_back


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


class _Decoding(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, images: Tensor, bias: Tensor, doubles: tuple[bool, ...], *tensors: Tensor) -> Tensor:
        x = y = framed(images.flatten(0, 1), triton_conv.STORAGE)
        saved: list[Tensor] = []
        for place, double in enumerate(doubles):
            weight, *norm = (of_runs(tensor) for tensor in tensors[3 * place : 3 * place + 3])
            y = convolve(x, weight, copies=double)
            saved += [x, weight]
            if norm:
                scale, shift = norm
                x, moments = normalize(y, scale, shift, pool=False)
                saved += [y, moments, scale, shift]
        ctx.save_for_backward(*saved)
        ctx.doubles = doubles
        return y.unflatten(0, images.shape[:2]) + bias[:, None, None, None]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        back, inside, parts = _framed_parts(gradients[0], ctx.doubles[-1])
        factor = scaled(parts, inside)
        arrived = back
        found: list[Tensor] = []
        for place, double in reversed(list(enumerate(ctx.doubles))):
            x, weight, *normed = ctx.saved_tensors[6 * place : 6 * place + 6]
            of_norm: list[Tensor] = []
            if normed:
                y, moments, scale, shift = normed
                back, *of_norm = normalize_back(arrived, y, moments, scale, shift, pool=False, copies=double)
            found = [weight_gradient(x, back, weight.shape), *of_norm, *found]
            arrived = convolve(back, weight, transposed=True)
        of_images = arrived.unflatten(0, gradients[0].shape[:2])
        of_bias = gradients[0].sum((1, 2, 3))
        return unscaled(of_images, factor), of_bias, None, *(unscaled(each, factor) for each in found)


def _framed_parts(gradient: Tensor, copies: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Zeros to hold a gradient (S, N, H, W, O) with a border, (S·N, H + 2, W + 2, O), or where 2×2 pixels are copies
    of one (S·N, H / 2 + 2, W / 2 + 2, 4 · O); and two views of one shape, of what is inside and of the gradient."""
    apart = 2 if copies else 1
    parts = gradient.unflatten(3, (-1, apart)).unflatten(2, (-1, apart))
    runs, count, height, _, width, _, outputs = parts.shape
    frame = gradient.new_zeros(runs * count, height + 2, width + 2, apart**2 * outputs, dtype=triton_conv.STORAGE)
    inside = frame[:, 1:-1, 1:-1].unflatten(-1, (apart, apart, outputs)).unflatten(0, (runs, count))
    return frame, inside.permute(0, 1, 2, 4, 3, 5, 6), parts
