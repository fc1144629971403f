"""The blocks of `dwmr.ops.conv_features` on Triton kernels, for several runs at once.

Each elementwise step by itself would be a pass over the largest tensors of the whole update:

    convolve, weight_gradient  the convolutions and their gradients
    normalize                  one program an image: moments in one pass, then affine map, ReLU and pooling
    normalize_back             the same image once more, back to the convolution's output
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dwmr.errors import InputError
from dwmr.ops import triton_conv
from dwmr.ops.triton_conv import convolve, framed, of_runs, scaled, unscaled, weight_gradient
from dwmr.ops.triton_norm import normalize, normalize_back


def features_forward(inputs: Sequence[Tensor], pools: Sequence[float]) -> list[Tensor]:
    """images (S, N, C, H, W) to features (S, N, O, H', W'), and of each block its input, convolution and moments.

    ``inputs`` are the images, and taps, scale and shift of each block.
    """
    images, *parameters = inputs
    runs, count, _, height, width = images.shape
    x = framed(images.flatten(0, 1).permute(0, 2, 3, 1), triton_conv.STORAGE)
    saved: list[Tensor] = []
    for place, pool in enumerate(pools):
        weight, scale, shift = (of_runs(tensor) for tensor in parameters[3 * place : 3 * place + 3])
        if pool and (height % 2 or width % 2):
            raise InputError(f"images of {height}×{width} cannot be pooled: both sides must be even")
        y = convolve(x, weight)
        output, moments = normalize(y, scale, shift, bool(pool))
        saved += [each.unflatten(0, (runs, count)) for each in (x, y, moments)]
        height, width = output.shape[1] - 2, output.shape[2] - 2
        x = output
    result = images.new_empty(runs, count, x.shape[-1], height, width)
    result.copy_(x[:, 1:-1, 1:-1].permute(0, 3, 1, 2).unflatten(0, (runs, count)))
    return [result, *saved]


def features_backward(
    gradient: Tensor, inputs: Sequence[Tensor], saved: Sequence[Tensor], pools: Sequence[float], into_images: bool
) -> list[Tensor]:
    """The gradients of the parameters, from that of the features; images get none."""
    parameters = inputs[1:]
    last = gradient.permute(0, 1, 3, 4, 2)
    arrived = torch.empty(last.shape, dtype=triton_conv.STORAGE, device=last.device)
    factor = scaled(last, arrived)
    arrived = arrived.flatten(0, 1)
    rest = [each.flatten(0, 1) for each in saved]
    found: list[Tensor] = []
    for place in reversed(range(len(pools))):
        weight, scale, shift = (of_runs(tensor) for tensor in parameters[3 * place : 3 * place + 3])
        moments, y, x = rest.pop(), rest.pop(), rest.pop()
        back, d_scale, d_shift = normalize_back(arrived, y, moments, scale, shift, bool(pools[place]))
        found = [weight_gradient(x, back, weight.shape), d_scale, d_shift, *found]
        if place:
            arrived = convolve(back, weight, transposed=True)
    return [unscaled(each, factor) for each in found]


def features_shapes(inputs: Sequence[Tensor], pools: Sequence[float]) -> list[Tensor]:
    """Empty tensors of the shapes that `features_forward` returns."""
    images, *parameters = inputs
    runs, count, channels, height, width = images.shape
    storage = triton_conv.STORAGE
    shapes: list[Tensor] = []
    outputs = channels
    for place, pool in enumerate(pools):
        before, outputs = outputs, parameters[3 * place].shape[1]
        shapes.append(images.new_empty(runs, count, height + 2, width + 2, before, dtype=storage))
        shapes.append(images.new_empty(runs, count, height, width, outputs, dtype=storage))
        shapes.append(images.new_empty(runs, count, 2, outputs))
        height, width = (height // 2, width // 2) if pool else (height, width)
    return [images.new_empty(runs, count, outputs, height, width), *shapes]
