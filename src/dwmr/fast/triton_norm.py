"""Normalisation of every channel of every image, ReLU and perhaps pooling: two Triton kernels, one program an image.

Images lie with channels last, (S·N, H, W, O); the block's output has a border of zeros for the next convolution.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

EPS = 1e-5  # torch.nn.GroupNorm's


def normalize(y: Tensor, scale: Tensor, shift: Tensor, pool: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The block's output (S·N, H' + 2, W' + 2, O) with its border, and mean and inverse deviation (S·N, O)."""
    images, height, width, outputs = y.shape
    side = 2 if pool else 1
    result = y.new_empty(images, height // side + 2, width // side + 2, outputs)
    mean, deviation = y.new_empty(2, images, outputs, dtype=torch.float32)
    _normalize[(images,)](
        y,
        scale,
        shift,
        result,
        mean,
        deviation,
        images // len(scale),
        HEIGHT=height,
        WIDTH=width,
        OUT=outputs,
        OP=triton.next_power_of_2(outputs),
        EPS=EPS,
        SIDE=side,
        BLOCK=_pixels(outputs),
        num_warps=8 if height * width > 512 else 4,
    )
    return result, mean, deviation


def _pixels(outputs: int) -> int:
    """Pixels in one step of a normalisation: 4,096 numbers."""
    return max(16, 4096 // triton.next_power_of_2(outputs))


@triton.jit
def relu(x):
    """With NaN kept, which a maximum on a GPU would make zero: a run that diverged must look so."""
    return tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def storable(value, target):
    """Half precision ends at 65,504: what is larger stays finite, and what is not finite stays so."""
    if target.dtype.element_ty == tl.float16:
        kept = tl.clamp(value, -65504.0, 65504.0, propagate_nan=tl.PropagateNan.ALL)
        value = tl.where(tl.abs(value) == float("inf"), value, kept)
    return value


@triton.jit
def clear_border(image, o, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, OUT: tl.constexpr, BLOCK: tl.constexpr):
    """Zeros around an image (H + 2, W + 2, O): its first and last row, then its first and last column."""
    wide: tl.constexpr = WIDTH + 2
    for start in range(0, 2 * wide + 2 * HEIGHT, BLOCK):
        edge = start + tl.arange(0, BLOCK)
        side = edge - 2 * wide
        in_rows = side < 0
        row = tl.where(in_rows, (edge // wide) * (HEIGHT + 1), side // 2 + 1)
        col = tl.where(in_rows, edge % wide, (side % 2) * (WIDTH + 1))
        live = (edge < 2 * wide + 2 * HEIGHT)[:, None] & (o < OUT)[None, :]
        nothing = tl.zeros((BLOCK, o.shape[0]), tl.float32)
        tl.store(image + (row * wide + col)[:, None] * OUT + o[None, :], nothing, live)


@triton.jit
def _normalize(
    y,
    scale,
    shift,
    result,
    means,
    deviations,
    count,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    OUT: tl.constexpr,
    OP: tl.constexpr,
    EPS: tl.constexpr,
    SIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    image = tl.program_id(0).to(tl.int64)
    feature = (image // count) * OUT + tl.arange(0, OP)
    o = tl.arange(0, OP)
    known = o < OUT
    y += image * (HEIGHT * WIDTH * OUT)
    first = tl.zeros((BLOCK, OP), tl.float32)
    second = tl.zeros((BLOCK, OP), tl.float32)
    for start in range(0, HEIGHT * WIDTH, BLOCK):
        pixel = start + tl.arange(0, BLOCK)
        live = (pixel < HEIGHT * WIDTH)[:, None] & known[None, :]
        v = tl.load(y + pixel[:, None] * OUT + o[None, :], live, 0.0).to(tl.float32)
        first += v
        second += v * v
    mean = tl.sum(first, 0) / (HEIGHT * WIDTH)
    variance = relu(tl.sum(second, 0) / (HEIGHT * WIDTH) - mean * mean)
    deviation = 1 / tl.sqrt(variance + EPS)
    a = tl.load(scale + feature, known, 0.0) * deviation
    b = tl.load(shift + feature, known, 0.0) - mean * a
    out_h: tl.constexpr = HEIGHT // SIDE
    out_w: tl.constexpr = WIDTH // SIDE
    result += image * ((out_h + 2) * (out_w + 2) * OUT)
    for start in range(0, out_h * out_w, BLOCK):
        place = start + tl.arange(0, BLOCK)
        live = (place < out_h * out_w)[:, None] & known[None, :]
        r, c = place // out_w, place % out_w
        total = tl.zeros((BLOCK, OP), tl.float32)
        for dy in tl.static_range(SIDE):
            for dx in tl.static_range(SIDE):
                pixel = (r * SIDE + dy) * WIDTH + c * SIDE + dx
                v = tl.load(y + pixel[:, None] * OUT + o[None, :], live, 0.0).to(tl.float32)
                total += relu(v * a[None, :] + b[None, :])
        at = (r + 1) * (out_w + 2) + c + 1
        tl.store(result + at[:, None] * OUT + o[None, :], storable(total / (SIDE * SIDE), result), live)
    clear_border(result, o, out_h, out_w, OUT, BLOCK)
    tl.store(means + image * OUT + o, mean, known)
    tl.store(deviations + image * OUT + o, deviation, known)


def normalize_back(
    gradient: Tensor,
    y: Tensor,
    mean: Tensor,
    deviation: Tensor,
    scale: Tensor,
    shift: Tensor,
    pool: bool,
    border: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """From the gradient (S·N, H', W', O) of the block's output to those of the convolution's output, (S·N, H, W, O) or
    with a border of zeros, and of scale and shift (S, O)."""
    images, height, width, outputs = y.shape
    runs, side = len(scale), 2 if pool else 1
    edge = 2 if border else 0
    result = gradient.new_empty(images, height + edge, width + edge, outputs)
    d_scale, d_shift = torch.empty_like(mean), torch.empty_like(mean)
    _normalize_back[(images,)](
        gradient,
        y,
        mean,
        deviation,
        scale,
        shift,
        result,
        d_scale,
        d_shift,
        images // runs,
        HEIGHT=height,
        WIDTH=width,
        OUT=outputs,
        OP=triton.next_power_of_2(outputs),
        SIDE=side,
        BORDER=int(border),
        BLOCK=_pixels(outputs),
        num_warps=8 if height * width > 512 else 4,
    )
    per_run = (runs, images // runs, outputs)
    return result, d_scale.view(per_run).sum(1), d_shift.view(per_run).sum(1)


@triton.jit
def _normalize_back(
    gradient,
    y,
    means,
    deviations,
    scale,
    shift,
    result,
    d_scale,
    d_shift,
    count,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    OUT: tl.constexpr,
    OP: tl.constexpr,
    SIDE: tl.constexpr,
    BORDER: tl.constexpr,
    BLOCK: tl.constexpr,
):
    image = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, OP)
    known = o < OUT
    feature = (image // count) * OUT + o
    mean = tl.load(means + image * OUT + o, known, 0.0)[None, :]
    deviation = tl.load(deviations + image * OUT + o, known, 0.0)[None, :]
    a = tl.load(scale + feature, known, 0.0)[None, :]
    b = tl.load(shift + feature, known, 0.0)[None, :]
    out_h: tl.constexpr = HEIGHT // SIDE
    out_w: tl.constexpr = WIDTH // SIDE
    y += image * (HEIGHT * WIDTH * OUT)
    gradient += image * (out_h * out_w * OUT)
    result += image * ((HEIGHT + 2 * BORDER) * (WIDTH + 2 * BORDER) * OUT)
    first = tl.zeros((BLOCK, OP), tl.float32)
    second = tl.zeros((BLOCK, OP), tl.float32)
    for start in range(0, out_h * out_w, BLOCK):
        place = start + tl.arange(0, BLOCK)
        live = (place < out_h * out_w)[:, None] & known[None, :]
        r, c = place // out_w, place % out_w
        g = tl.load(gradient + place[:, None] * OUT + o[None, :], live, 0.0).to(tl.float32) / (SIDE * SIDE)
        for dy in tl.static_range(SIDE):
            for dx in tl.static_range(SIDE):
                pixel = (r * SIDE + dy) * WIDTH + c * SIDE + dx
                standard = (tl.load(y + pixel[:, None] * OUT + o[None, :], live, 0.0).to(tl.float32) - mean) * deviation
                passed = tl.where(standard * a + b > 0, g, 0.0)
                first += passed
                second += passed * standard
    of_shift, of_scale = tl.sum(first, 0), tl.sum(second, 0)
    size: tl.constexpr = HEIGHT * WIDTH
    for start in range(0, out_h * out_w, BLOCK):
        place = start + tl.arange(0, BLOCK)
        live = (place < out_h * out_w)[:, None] & known[None, :]
        r, c = place // out_w, place % out_w
        g = tl.load(gradient + place[:, None] * OUT + o[None, :], live, 0.0).to(tl.float32) / (SIDE * SIDE)
        for dy in tl.static_range(SIDE):
            for dx in tl.static_range(SIDE):
                up, across = r * SIDE + dy, c * SIDE + dx
                pixel = up * WIDTH + across
                standard = (tl.load(y + pixel[:, None] * OUT + o[None, :], live, 0.0).to(tl.float32) - mean) * deviation
                passed = tl.where(standard * a + b > 0, g, 0.0)
                value = a * deviation * (passed - (of_shift[None, :] + standard * of_scale[None, :]) / size)
                at = (up + BORDER) * (WIDTH + 2 * BORDER) + across + BORDER
                tl.store(result + at[:, None] * OUT + o[None, :], storable(value, result), live)
    if BORDER:
        clear_border(result, o, HEIGHT, WIDTH, OUT, BLOCK)
    tl.store(d_scale + image * OUT + o, of_scale, known)
    tl.store(d_shift + image * OUT + o, of_shift, known)
