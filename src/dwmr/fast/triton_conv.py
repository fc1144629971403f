"""3×3 convolution + per-channel normalisation + ReLU (+ 2×2 average pooling) as four Triton kernels.

This is one block of `dwmr.nets.encoders.ConvEncoder`, for many runs at once: images (S, N, C, H, W), each run s with
its own weights. Stock convolutions are slow on such small images and channels, and each elementwise step is a pass over
the largest tensors of the whole update. Here

    convolve        implicit matrix product over (channel, tap); with flipped weights it also gives the input's gradient
    weight_gradient the matrix product of output gradients and shifted inputs, summed over groups of images
    normalize       one program a plane (image, channel): mean, deviation, affine map, ReLU, pooling in registers
    normalize_back  the same plane once more, back to the convolution's output

so that the convolution's output is written once and read once going forward, and read once going back.
The plain twin is `plain_block`.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional as F

EPS = 1e-5
# Three TF32 products restore float32 accuracy on the matrix units.
PRECISION = "tf32x3"
IMAGES_PER_GROUP = 8


def conv_block(images: Tensor, weight: Tensor, scale: Tensor, shift: Tensor, pool: bool) -> Tensor:
    """images (S, N, C, H, W), weight (S, O, C, 3, 3), scale and shift (S, O) to (S, N, O, H', W')."""
    return _ConvBlock.apply(images, weight, scale, shift, pool)


def plain_block(images: Tensor, weight: Tensor, scale: Tensor, shift: Tensor, pool: bool) -> Tensor:
    """`conv_block` in plain torch, run by run."""
    outputs = []
    for x, w, a, b in zip(images, weight, scale, shift):
        y = F.relu(F.group_norm(F.conv2d(x, w, padding=1), w.shape[0], a, b, EPS))
        outputs.append(F.avg_pool2d(y, 2) if pool else y)
    return torch.stack(outputs)


class _ConvBlock(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, images: Tensor, weight: Tensor, scale: Tensor, shift: Tensor, pool: bool) -> Tensor:
        images, weight = images.contiguous(), weight.contiguous()
        scale, shift = scale.contiguous(), shift.contiguous()
        convolved = convolve(images, weight)
        output, mean, deviation = normalize(convolved, scale, shift, pool)
        ctx.save_for_backward(images, weight, scale, shift, convolved, mean, deviation)
        ctx.pool = pool
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        images, weight, scale, shift, convolved, mean, deviation = ctx.saved_tensors
        arrived, d_scale, d_shift = normalize_back(
            gradients[0].contiguous(), convolved, mean, deviation, scale, shift, ctx.pool
        )
        d_images = convolve(arrived, weight, transposed=True) if ctx.needs_input_grad[0] else None
        d_weight = weight_gradient(images, arrived)
        return d_images, d_weight, d_scale, d_shift, None


def convolve(images: Tensor, weight: Tensor, transposed: bool = False) -> Tensor:
    """images (S, N, C, H, W) with weight (S, O, C, 3, 3) and zero padding; ``transposed`` maps O channels back to C."""
    runs, count, channels, height, width = images.shape
    outputs = weight.shape[2] if transposed else weight.shape[1]
    result = images.new_empty(runs, count, outputs, height, width)
    block = 128 if height * width >= 128 else 64
    inner = max(16, min(32, triton.next_power_of_2(channels * 9)))
    _convolve[(runs * count, triton.cdiv(height * width, block))](
        images,
        weight,
        result,
        count,
        HEIGHT=height,
        WIDTH=width,
        CIN=channels,
        COUT=outputs,
        WIDE=max(16, triton.next_power_of_2(outputs)),
        BLOCK=block,
        INNER=inner,
        TRANSPOSED=transposed,
        PRECISION=PRECISION,
        num_warps=4,
    )
    return result


@triton.jit
def _convolve(
    images,
    weight,
    result,
    count,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    CIN: tl.constexpr,
    COUT: tl.constexpr,
    WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
    INNER: tl.constexpr,
    TRANSPOSED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    image = tl.program_id(0).to(tl.int64)
    run = image // count
    pixel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row, col = pixel // WIDTH, pixel % WIDTH
    out = tl.arange(0, WIDE)
    area: tl.constexpr = HEIGHT * WIDTH
    total = tl.zeros((BLOCK, WIDE), tl.float32)
    for start in range(0, CIN * 9, INNER):
        inner = start + tl.arange(0, INNER)
        channel, tap = inner // 9, inner % 9
        r = row[:, None] + (tap // 3 - 1)[None, :]
        c = col[:, None] + (tap % 3 - 1)[None, :]
        inside = (r >= 0) & (r < HEIGHT) & (c >= 0) & (c < WIDTH)
        known = inner < CIN * 9
        # A sum of a pixel and a tap's offset: neighbouring pixels are seen to be neighbours in memory.
        near = pixel[:, None] + (channel * area + (tap // 3 - 1) * WIDTH + tap % 3 - 1)[None, :]
        x = tl.load(images + image * CIN * area + near, inside & known[None, :] & (pixel < area)[:, None], 0.0)
        if TRANSPOSED:
            place = (channel[:, None] * COUT + out[None, :]) * 9 + (8 - tap)[:, None]
        else:
            place = out[None, :] * (CIN * 9) + inner[:, None]
        w = tl.load(weight + run * (CIN * COUT * 9) + place, known[:, None] & (out < COUT)[None, :], 0.0)
        total = tl.dot(x, w, total, input_precision=PRECISION)
    target = result + (image * COUT + out[None, :]) * area + pixel[:, None]
    tl.store(target, total, (pixel < area)[:, None] & (out < COUT)[None, :])


def weight_gradient(images: Tensor, arrived: Tensor) -> Tensor:
    """Gradient (S, O, C, 3, 3) from inputs (S, N, C, H, W) and the gradient (S, N, O, H, W) of the outputs."""
    runs, count, channels, height, width = images.shape
    outputs = arrived.shape[2]
    groups = triton.cdiv(count, IMAGES_PER_GROUP)
    inner = min(64, max(16, triton.next_power_of_2(channels * 9)))
    partial = images.new_empty(runs, groups, outputs, channels * 9)
    _weight_gradient[(runs * groups, triton.cdiv(channels * 9, inner))](
        images,
        arrived,
        partial,
        count,
        groups,
        HEIGHT=height,
        WIDTH=width,
        CIN=channels,
        COUT=outputs,
        WIDE=max(16, triton.next_power_of_2(outputs)),
        BLOCK=64,
        INNER=inner,
        IMAGES=IMAGES_PER_GROUP,
        PRECISION=PRECISION,
        num_warps=4,
    )
    return partial.sum(1).view(runs, outputs, channels, 3, 3)


@triton.jit
def _weight_gradient(
    images,
    arrived,
    partial,
    count,
    groups,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    CIN: tl.constexpr,
    COUT: tl.constexpr,
    WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
    INNER: tl.constexpr,
    IMAGES: tl.constexpr,
    PRECISION: tl.constexpr,
):
    place = tl.program_id(0).to(tl.int64)
    run, group = place // groups, place % groups
    inner = tl.program_id(1) * INNER + tl.arange(0, INNER)
    channel, tap = inner // 9, inner % 9
    known = inner < CIN * 9
    out = tl.arange(0, WIDE)
    area: tl.constexpr = HEIGHT * WIDTH
    total = tl.zeros((WIDE, INNER), tl.float32)
    for step in range(IMAGES):
        number = group * IMAGES + step
        image = run * count + number
        for start in range(0, area, BLOCK):
            pixel = start + tl.arange(0, BLOCK)
            row, col = pixel // WIDTH, pixel % WIDTH
            live = (pixel < area) & (number < count)
            g = tl.load(
                arrived + (image * COUT + out[:, None]) * area + pixel[None, :],
                live[None, :] & (out < COUT)[:, None],
                0.0,
            )
            r = row[:, None] + (tap // 3 - 1)[None, :]
            c = col[:, None] + (tap % 3 - 1)[None, :]
            inside = (r >= 0) & (r < HEIGHT) & (c >= 0) & (c < WIDTH)
            near = pixel[:, None] + (channel * area + (tap // 3 - 1) * WIDTH + tap % 3 - 1)[None, :]
            x = tl.load(images + image * CIN * area + near, inside & known[None, :] & live[:, None], 0.0)
            total = tl.dot(g, x, total, input_precision=PRECISION)
    target = partial + (place * COUT + out[:, None]) * (CIN * 9) + inner[None, :]
    tl.store(target, total, known[None, :] & (out < COUT)[:, None])


def normalize(convolved: Tensor, scale: Tensor, shift: Tensor, pool: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The block's output, and each plane's mean and inverse deviation (S·N·O,)."""
    runs, count, channels, height, width = convolved.shape
    out_h, out_w = (height // 2, width // 2) if pool else (height, width)
    planes = runs * count * channels
    result = convolved.new_empty(runs, count, channels, out_h, out_w)
    mean, deviation = convolved.new_empty(planes), convolved.new_empty(planes)
    block = triton.next_power_of_2(out_h * out_w)
    _normalize[(planes,)](
        convolved,
        scale,
        shift,
        result,
        mean,
        deviation,
        count * channels,
        channels,
        OUT_H=out_h,
        OUT_W=out_w,
        EPS=EPS,
        SIDE=2 if pool else 1,
        BLOCK=block,
        num_warps=_warps(block),
    )
    return result, mean, deviation


@triton.jit
def _normalize(
    convolved,
    scale,
    shift,
    result,
    means,
    deviations,
    planes_a_run,
    channels,
    OUT_H: tl.constexpr,
    OUT_W: tl.constexpr,
    EPS: tl.constexpr,
    SIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    plane = tl.program_id(0).to(tl.int64)
    feature = (plane // planes_a_run) * channels + plane % channels
    place = tl.arange(0, BLOCK)
    live = place < OUT_H * OUT_W
    corner = (
        convolved
        + plane * (OUT_H * OUT_W * SIDE * SIDE)
        + (place // OUT_W) * SIDE * (OUT_W * SIDE)
        + (place % OUT_W) * SIDE
    )
    size = OUT_H * OUT_W * SIDE * SIDE
    total = tl.zeros((BLOCK,), tl.float32)
    for dy in tl.static_range(SIDE):
        for dx in tl.static_range(SIDE):
            total += tl.load(corner + dy * (OUT_W * SIDE) + dx, live, 0.0)
    mean = tl.sum(total, 0) / size
    square = tl.zeros((BLOCK,), tl.float32)
    for dy in tl.static_range(SIDE):
        for dx in tl.static_range(SIDE):
            d = tl.where(live, tl.load(corner + dy * (OUT_W * SIDE) + dx, live, 0.0) - mean, 0.0)
            square += d * d
    deviation = 1 / tl.sqrt(tl.sum(square, 0) / size + EPS)
    a = tl.load(scale + feature) * deviation
    b = tl.load(shift + feature)
    output = tl.zeros((BLOCK,), tl.float32)
    for dy in tl.static_range(SIDE):
        for dx in tl.static_range(SIDE):
            value = (tl.load(corner + dy * (OUT_W * SIDE) + dx, live, 0.0) - mean) * a + b
            output += tl.maximum(value, 0.0)
    tl.store(result + plane * (OUT_H * OUT_W) + place, output / (SIDE * SIDE), live)
    tl.store(means + plane, mean)
    tl.store(deviations + plane, deviation)


def normalize_back(
    gradient: Tensor,
    convolved: Tensor,
    mean: Tensor,
    deviation: Tensor,
    scale: Tensor,
    shift: Tensor,
    pool: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the convolution's output (S, N, O, H, W) and of scale and shift (S, O)."""
    runs, count, channels, height, width = convolved.shape
    out_h, out_w = (height // 2, width // 2) if pool else (height, width)
    result = torch.empty_like(convolved)
    d_scale, d_shift = torch.empty_like(mean), torch.empty_like(mean)
    block = triton.next_power_of_2(out_h * out_w)
    _normalize_back[(mean.numel(),)](
        gradient,
        convolved,
        mean,
        deviation,
        scale,
        shift,
        result,
        d_scale,
        d_shift,
        count * channels,
        channels,
        OUT_H=out_h,
        OUT_W=out_w,
        SIDE=2 if pool else 1,
        BLOCK=block,
        num_warps=_warps(block),
    )
    per_run = (runs, count, channels)
    return result, d_scale.view(per_run).sum(1), d_shift.view(per_run).sum(1)


@triton.jit
def _normalize_back(
    gradient,
    convolved,
    means,
    deviations,
    scale,
    shift,
    result,
    d_scale,
    d_shift,
    planes_a_run,
    channels,
    OUT_H: tl.constexpr,
    OUT_W: tl.constexpr,
    SIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    plane = tl.program_id(0).to(tl.int64)
    feature = (plane // planes_a_run) * channels + plane % channels
    place = tl.arange(0, BLOCK)
    live = place < OUT_H * OUT_W
    size = OUT_H * OUT_W * SIDE * SIDE
    offset = plane * size + (place // OUT_W) * SIDE * (OUT_W * SIDE) + (place % OUT_W) * SIDE
    mean, deviation = tl.load(means + plane), tl.load(deviations + plane)
    a, b = tl.load(scale + feature), tl.load(shift + feature)
    arrived = tl.load(gradient + plane * (OUT_H * OUT_W) + place, live, 0.0) / (SIDE * SIDE)
    first = tl.zeros((BLOCK,), tl.float32)
    second = tl.zeros((BLOCK,), tl.float32)
    for dy in tl.static_range(SIDE):
        for dx in tl.static_range(SIDE):
            standard = (tl.load(convolved + offset + dy * (OUT_W * SIDE) + dx, live, 0.0) - mean) * deviation
            passed = tl.where(live & (standard * a + b > 0), arrived, 0.0)
            first += passed
            second += passed * standard
    sum_first, sum_second = tl.sum(first, 0), tl.sum(second, 0)
    for dy in tl.static_range(SIDE):
        for dx in tl.static_range(SIDE):
            standard = (tl.load(convolved + offset + dy * (OUT_W * SIDE) + dx, live, 0.0) - mean) * deviation
            passed = tl.where(live & (standard * a + b > 0), arrived, 0.0)
            value = a * deviation * (passed - (sum_first + standard * sum_second) / size)
            tl.store(result + offset + dy * (OUT_W * SIDE) + dx, value, live)
    tl.store(d_scale + plane, sum_second)
    tl.store(d_shift + plane, sum_first)


def _warps(block: int) -> int:
    return max(1, min(8, block // 256))
