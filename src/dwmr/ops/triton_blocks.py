"""Blocks of 3×3 convolution, normalisation of every channel of every image and ReLU on Triton kernels, for several runs
at once. Before its convolution a block may double the image, after the ReLU it may pool 2×2; the last may be a
convolution with a bias alone.

Each elementwise step by itself would be a pass over the largest tensors of the whole update:

    convolve, weight_gradient  the convolutions and their gradients
    normalize                  one program an image: moments in one pass, then affine map, ReLU and pooling
    normalize_back             the same image once more, back to the convolution's output

Doubling an image's sides by copying its pixels and then convolving it 3×3 is a convolution of the small image: the four
copies of a pixel see 2×2 small pixels each, through taps that are sums of the nine (`doubled_taps`). So nothing is
enlarged but the results, and the four copies fill the matrix units where there are few channels.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dwmr.ops import triton_conv
from dwmr.ops.dispatch import all_channels_last, channels_last, define
from dwmr.ops.triton_conv import convolve, framed, of_runs, scaled, unscaled, weight_gradient
from dwmr.ops.triton_norm import normalize, normalize_back

PLAIN, POOLED, DOUBLED = range(3)  # kinds of blocks


def conv_blocks(x: Tensor, parameters: Sequence[Tensor], kinds: Sequence[int]) -> Tensor:
    """x (N, C, H, W) through all blocks, to (N, O, H', W').

    Args:
        x: the images or features; their sides are even where a block pools.
        parameters: weight (O, C, 3, 3), scale (O,) and shift (O,) of each block in turn; of the last perhaps weight and
            bias.
        kinds: whether each block is plain, pools or doubles.
    """
    weights = list(parameters)
    for place, kind in enumerate(kinds):
        if kind == DOUBLED:
            weights[3 * place] = doubled_taps(weights[3 * place])
    return _blocks([x, *weights], kinds)[0]


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


def _forward(inputs: Sequence[Tensor], kinds: Sequence[float]) -> list[Tensor]:
    """x (S, N, C, H, W) to (S, N, O, H', W'), and of each block its input, and its convolution and moments."""
    x, *parameters = inputs
    lead = x.shape[:2]
    y = x = framed(x.flatten(0, 1).permute(0, 2, 3, 1), triton_conv.STORAGE)
    saved: list[Tensor] = []
    for place, kind in enumerate(kinds):
        weight, *norm = (of_runs(tensor) for tensor in parameters[3 * place : 3 * place + 3])
        y = convolve(x, weight, copies=kind == DOUBLED)
        saved.append(x)
        if len(norm) == 2:
            x, moments = normalize(y, norm[0], norm[1], kind == POOLED)
            saved += [y, moments]
    if len(parameters) % 3:
        result = (y.unflatten(0, lead) + parameters[-1][:, None, None, None]).permute(0, 1, 4, 2, 3)
    else:
        inside = x[:, 1:-1, 1:-1].permute(0, 3, 1, 2).unflatten(0, lead)
        result = inputs[0].new_empty(inside.shape).copy_(inside)
    return [result, *(each.unflatten(0, lead) for each in saved)]


def _backward(
    gradient: Tensor, inputs: Sequence[Tensor], saved: Sequence[Tensor], kinds: Sequence[float], into_x: bool
) -> list[Tensor]:
    """The gradients of x, if asked for, and of the parameters."""
    parameters, last = inputs[1:], gradient.permute(0, 1, 3, 4, 2)
    biased = len(parameters) % 3 != 0
    if biased:
        back, inside, parts = _framed_parts(last, 2 if kinds[-1] == DOUBLED else 1)
        arrived, factor = back, scaled(parts, inside)
    else:
        arrived = back = last.new_empty(last.shape, dtype=triton_conv.STORAGE).flatten(0, 1)
        factor = scaled(last, arrived.unflatten(0, last.shape[:2]))
    rest = [each.flatten(0, 1) for each in saved]
    found: list[Tensor] = []
    for place, kind in reversed(list(enumerate(kinds))):
        weight, *norm = (of_runs(tensor) for tensor in parameters[3 * place : 3 * place + 3])
        of_norm: list[Tensor] = []
        if len(norm) == 2:
            moments, y = rest.pop(), rest.pop()
            back, *of_norm = normalize_back(arrived, y, moments, norm[0], norm[1], kind == POOLED, kind == DOUBLED)
        found = [weight_gradient(rest.pop(), back, weight.shape), *of_norm, *found]
        if place or into_x:
            arrived = convolve(back, weight, transposed=True)
    found = [unscaled(each, factor) for each in found]
    if biased:
        found.append(last.sum((1, 2, 3)))
    if into_x:
        found.insert(0, unscaled(arrived.unflatten(0, last.shape[:2]), factor).permute(0, 1, 4, 2, 3))
    return found


def _framed_parts(gradient: Tensor, apart: int) -> tuple[Tensor, Tensor, Tensor]:
    """Zeros to hold a gradient (S, N, H, W, O) with a border, (S·N, H + 2, W + 2, O), or where 2×2 pixels are copies
    of one (S·N, H / 2 + 2, W / 2 + 2, 4 · O); and two views of one shape, of what is inside and of the gradient."""
    parts = gradient.unflatten(3, (-1, apart)).unflatten(2, (-1, apart))
    runs, count, height, _, width, _, outputs = parts.shape
    frame = gradient.new_zeros(runs * count, height + 2, width + 2, apart**2 * outputs, dtype=triton_conv.STORAGE)
    inside = frame[:, 1:-1, 1:-1].unflatten(-1, (apart, apart, outputs)).unflatten(0, (runs, count))
    return frame, inside.permute(0, 1, 2, 4, 3, 5, 6), parts


def _fake(inputs: Sequence[Tensor], kinds: Sequence[float]) -> list[Tensor]:
    x, *parameters = inputs
    runs, count, channels, height, width = x.shape
    found: list[Tensor] = []
    for place, kind in enumerate(kinds):
        outputs = parameters[3 * place].shape[1]
        found.append(x.new_empty(runs, count, height + 2, width + 2, channels, dtype=triton_conv.STORAGE))
        if kind == DOUBLED:
            outputs, height, width = outputs // 4, 2 * height, 2 * width
        if len(parameters) == 3 * place + 2:
            return [channels_last(x, (runs, count, outputs, height, width)), *found]
        found.append(x.new_empty(runs, count, height, width, outputs, dtype=triton_conv.STORAGE))
        found.append(x.new_empty(runs, count, 2, outputs))
        channels = outputs
        if kind == POOLED:
            height, width = height // 2, width // 2
    return [x.new_empty(runs, count, channels, height, width), *found]


_blocks = define("conv_blocks", _forward, _backward, _fake, all_channels_last)
