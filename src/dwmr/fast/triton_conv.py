"""The convolutional parts of `ConvEncoder` and `ConvDecoder` in four Triton kernels, for many runs at once.

Each block is a 3×3 convolution, a normalisation of every channel of every image, ReLU, and perhaps 2×2 average pooling.
Stock convolutions are slow on such small images and channels, and each elementwise step is a pass over the largest
tensors of the whole update. Here activations lie with channels last and a border of zeros, so that the three taps of a
row are 3·C neighbouring numbers:

    convolve         a matrix product for each of the three rows of taps; with turned weights, the input's gradient
    weight_gradient  output gradients times inputs, summed over groups of images, then over groups
    normalize        one program an image: moments in one pass, then affine map, ReLU and pooling in another
    normalize_back   the same image once more, back to the convolution's output (both in `triton_norm`)

Products use the matrix units in TF32, as stock convolutions do by default. The plain twin is `plain_features`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional as F

from dwmr.fast.triton_norm import EPS, normalize, normalize_back

PRECISION = "tf32"
PROGRAMS = 528  # a few for each multiprocessor of the largest GPUs


@dataclass(frozen=True)
class Block:
    """Weights (S, O, C, 3, 3), scale and shift (S, O) of all runs, and whether the block pools."""

    weight: Tensor
    scale: Tensor
    shift: Tensor
    pool: bool


def conv_features(images: Tensor, blocks: Sequence[Block]) -> Tensor:
    """images (S, N, C, H, W) through all blocks to (S, N, O, H', W'). The images themselves get no gradient."""
    weights = [tensor for block in blocks for tensor in (block.weight, block.scale, block.shift)]
    return _Features.apply(images, tuple(block.pool for block in blocks), *weights)


def plain_features(images: Tensor, blocks: Sequence[Block]) -> Tensor:
    """`conv_features` in plain torch, run by run."""
    outputs = []
    for run, x in enumerate(images):
        for block in blocks:
            y = F.conv2d(x, block.weight[run], padding=1)
            x = F.relu(F.group_norm(y, y.shape[1], block.scale[run], block.shift[run], EPS))
            x = F.avg_pool2d(x, 2) if block.pool else x
        outputs.append(x)
    return torch.stack(outputs)


class _Features(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, images: Tensor, pools: tuple[bool, ...], *weights: Tensor) -> Tensor:
        runs, count, _channels, _height, _width = images.shape
        x = _padded(images.flatten(0, 1).permute(0, 2, 3, 1))
        saved: list[Tensor] = []
        for place, pool in enumerate(pools):
            weight, scale, shift = (tensor.contiguous() for tensor in weights[3 * place : 3 * place + 3])
            y = convolve(x, weight)
            output, mean, deviation = normalize(y, scale, shift, pool)
            saved += [x, y, mean, deviation, weight, scale, shift]
            x = output
        ctx.save_for_backward(*saved)
        ctx.pools = pools
        return _unpadded(x).permute(0, 3, 1, 2).reshape(runs, count, x.shape[-1], x.shape[1] - 2, x.shape[2] - 2)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        arrived = gradients[0].flatten(0, 1).permute(0, 2, 3, 1).contiguous()
        found: list[Tensor | None] = []
        for place in reversed(range(len(ctx.pools))):
            x, y, mean, deviation, weight, scale, shift = ctx.saved_tensors[7 * place : 7 * place + 7]
            back, d_scale, d_shift = normalize_back(
                arrived, y, mean, deviation, scale, shift, ctx.pools[place], place > 0
            )
            found = [weight_gradient(x, back, weight.shape), d_scale, d_shift, *found]
            if place:
                arrived = convolve(back, weight, transposed=True)
        return None, None, *found


def conv_norm_relu(x: Tensor, weight: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """One block without pooling: x (S·N, H, W, C) to (S·N, H, W, O), with gradients of all."""
    return _NormedConvolution.apply(x, weight, scale, shift)


def conv(x: Tensor, weight: Tensor) -> Tensor:
    """The convolution alone: x (S·N, H, W, C) with weight (S, O, C, 3, 3) to (S·N, H, W, O)."""
    return _Convolution.apply(x, weight)


class _NormedConvolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        weight, scale, shift = weight.contiguous(), scale.contiguous(), shift.contiguous()
        padded = _padded(x)
        y = convolve(padded, weight)
        output, mean, deviation = normalize(y, scale, shift, pool=False)
        ctx.save_for_backward(padded, y, mean, deviation, weight, scale, shift)
        return _unpadded(output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        padded, y, mean, deviation, weight, scale, shift = ctx.saved_tensors
        arrived = gradients[0].contiguous()
        back, d_scale, d_shift = normalize_back(arrived, y, mean, deviation, scale, shift, pool=False, border=True)
        d_weight = weight_gradient(padded, back, weight.shape)
        return convolve(back, weight, transposed=True), d_weight, d_scale, d_shift


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        weight, padded = weight.contiguous(), _padded(x)
        ctx.save_for_backward(padded, weight)
        return convolve(padded, weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        padded, weight = ctx.saved_tensors
        back = _padded(gradients[0])
        return convolve(back, weight, transposed=True), weight_gradient(padded, back, weight.shape)


def _padded(x: Tensor) -> Tensor:
    return F.pad(x, (0, 0, 1, 1, 1, 1)).contiguous()


def _unpadded(x: Tensor) -> Tensor:
    return x[:, 1:-1, 1:-1]


def convolve(x: Tensor, weight: Tensor, transposed: bool = False) -> Tensor:
    """x (S·N, H + 2, W + 2, C) with weight (S, O, C, 3, 3) to (S·N, H, W, O); ``transposed`` maps O channels to C."""
    images, height, width, channels = x.shape[0], x.shape[1] - 2, x.shape[2] - 2, x.shape[3]
    outputs = weight.shape[2] if transposed else weight.shape[1]
    result = x.new_empty(images, height, width, outputs)
    block = 128 if height * width >= 512 else 64
    _convolve[(images, triton.cdiv(height * width, block))](
        x,
        weight,
        result,
        images // len(weight),
        HEIGHT=height,
        WIDTH=width,
        C=channels,
        OUT=outputs,
        KP=_padded_taps(channels),
        OP=max(16, triton.next_power_of_2(outputs)),
        BLOCK=block,
        TRANSPOSED=transposed,
        PRECISION=PRECISION,
        num_warps=4,
    )
    return result


def _padded_taps(channels: int) -> int:
    """Inner size of one product: the 3·C numbers of a row of taps, or all nine taps of a single channel."""
    return 16 if channels == 1 else max(16, triton.next_power_of_2(3 * channels))


@triton.jit
def _convolve(
    x,
    weight,
    result,
    count,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    C: tl.constexpr,
    OUT: tl.constexpr,
    KP: tl.constexpr,
    OP: tl.constexpr,
    BLOCK: tl.constexpr,
    TRANSPOSED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    image = tl.program_id(0).to(tl.int64)
    pixel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    live = pixel < HEIGHT * WIDTH
    corner = (pixel // WIDTH) * (WIDTH + 2) + pixel % WIDTH
    k = tl.arange(0, KP)
    o = tl.arange(0, OP)
    x += image * ((HEIGHT + 2) * (WIDTH + 2) * C)
    weight += (image // count) * (C * OUT * 9)
    total = tl.zeros((BLOCK, OP), tl.float32)
    if C == 1:
        near = (k // 3) * (WIDTH + 2) + k % 3
        v = tl.load(x + corner[:, None] + near[None, :], live[:, None] & (k < 9)[None, :], 0.0)
        tap = 8 - k if TRANSPOSED else k
        w = tl.load(weight + o[None, :] * 9 + tap[:, None], (k < 9)[:, None] & (o < OUT)[None, :], 0.0)
        total = tl.dot(v, w, total, input_precision=PRECISION)
    else:
        known = (k < 3 * C)[:, None] & (o < OUT)[None, :]
        dx, c = k // C, k % C
        for dy in tl.static_range(3):
            v = tl.load(
                x + (corner[:, None] + dy * (WIDTH + 2)) * C + k[None, :], live[:, None] & (k < 3 * C)[None, :], 0.0
            )
            if TRANSPOSED:
                place = (c[:, None] * OUT + o[None, :]) * 9 + (2 - dy) * 3 + (2 - dx)[:, None]
            else:
                place = (o[None, :] * C + c[:, None]) * 9 + dy * 3 + dx[:, None]
            w = tl.load(weight + place, known, 0.0)
            total = tl.dot(v, w, total, input_precision=PRECISION)
    target = result + (image * (HEIGHT * WIDTH) + pixel[:, None]) * OUT + o[None, :]
    tl.store(target, total, live[:, None] & (o < OUT)[None, :])


def weight_gradient(x: Tensor, arrived: Tensor, shape: torch.Size) -> Tensor:
    """Gradient (S, O, C, 3, 3) from inputs (S·N, H + 2, W + 2, C) and output gradients (S·N, H or H + 2, …, O)."""
    images, height, width, channels = x.shape[0], x.shape[1] - 2, x.shape[2] - 2, x.shape[3]
    runs, outputs = shape[:2]
    count = images // runs
    size = max(1, images // PROGRAMS)
    groups = triton.cdiv(count, size)
    partial = x.new_empty(runs, groups, *shape[1:])
    taps, rows = _padded_taps(channels), max(16, triton.next_power_of_2(outputs))
    apart = channels > 1 and taps * rows > 4096  # three sums of that size do not fit one program's registers
    _weight_gradient[(runs * groups, 3 if apart else 1)](
        x,
        arrived,
        partial,
        count,
        groups,
        size,
        HEIGHT=height,
        WIDTH=width,
        C=channels,
        OUT=outputs,
        KP=taps,
        OP=rows,
        BLOCK=64 if channels > 16 else 128,
        BORDER=(arrived.shape[1] - height) // 2,
        APART=apart,
        PRECISION=PRECISION,
        num_warps=4,
        num_stages=2 if apart else 3,  # what is read ahead has to fit the shared memory
    )
    return partial.sum(1)


@triton.jit
def _weight_gradient(
    x,
    arrived,
    partial,
    count,
    groups,
    size,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    C: tl.constexpr,
    OUT: tl.constexpr,
    KP: tl.constexpr,
    OP: tl.constexpr,
    BLOCK: tl.constexpr,
    BORDER: tl.constexpr,
    APART: tl.constexpr,
    PRECISION: tl.constexpr,
):
    place = tl.program_id(0).to(tl.int64)
    first = tl.program_id(1)  # the row of taps that a program sums, where they are summed apart
    run, group = place // groups, place % groups
    k = tl.arange(0, KP)
    o = tl.arange(0, OP)
    top = tl.zeros((OP, KP), tl.float32)
    middle = tl.zeros((OP, KP), tl.float32)
    bottom = tl.zeros((OP, KP), tl.float32)
    row: tl.constexpr = (WIDTH + 2) * C
    for number in range(group * size, tl.minimum(group * size + size, count)):
        image = run * count + number
        source = x + image * ((HEIGHT + 2) * (WIDTH + 2) * C)
        gradient = arrived + image * ((HEIGHT + 2 * BORDER) * (WIDTH + 2 * BORDER) * OUT)
        for start in range(0, HEIGHT * WIDTH, BLOCK):
            pixel = start + tl.arange(0, BLOCK)
            live = pixel < HEIGHT * WIDTH
            r, c = pixel // WIDTH, pixel % WIDTH
            at = (r + BORDER) * (WIDTH + 2 * BORDER) + c + BORDER
            g = tl.load(gradient + at[:, None] * OUT + o[None, :], live[:, None] & (o < OUT)[None, :], 0.0)
            g = tl.trans(g)
            corner = r * (WIDTH + 2) + c
            if C == 1:
                near = (k // 3) * (WIDTH + 2) + k % 3
                v = tl.load(source + corner[:, None] + near[None, :], live[:, None] & (k < 9)[None, :], 0.0)
                top = tl.dot(g, v, top, input_precision=PRECISION)
            elif APART:
                inside = live[:, None] & (k < 3 * C)[None, :]
                taps = source + first * row + corner[:, None] * C + k[None, :]
                top = tl.dot(g, tl.load(taps, inside, 0.0), top, input_precision=PRECISION)
            else:
                inside = live[:, None] & (k < 3 * C)[None, :]
                taps = source + corner[:, None] * C + k[None, :]
                top = tl.dot(g, tl.load(taps, inside, 0.0), top, input_precision=PRECISION)
                middle = tl.dot(g, tl.load(taps + row, inside, 0.0), middle, input_precision=PRECISION)
                bottom = tl.dot(g, tl.load(taps + 2 * row, inside, 0.0), bottom, input_precision=PRECISION)
    target = partial + place * (C * OUT * 9) + o[:, None] * (C * 9)
    if C == 1:
        tl.store(target + k[None, :], top, (k < 9)[None, :] & (o < OUT)[:, None])
    else:
        target += ((k % C) * 9 + k // C)[None, :]
        known = (k < 3 * C)[None, :] & (o < OUT)[:, None]
        if APART:
            tl.store(target + 3 * first, top, known)
        else:
            tl.store(target, top, known)
            tl.store(target + 3, middle, known)
            tl.store(target + 6, bottom, known)
