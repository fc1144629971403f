"""Normalisation of every channel of every image, ReLU and perhaps pooling: two Triton kernels, one program an image.

Images lie with channels last, (S·N, H, W, O); the block's output has a border of zeros for the next convolution.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

EPS = 1e-5  # torch.nn.GroupNorm's


def normalize(y: Tensor, scale: Tensor, shift: Tensor, pool: bool) -> tuple[Tensor, Tensor]:
    """The block's output (S·N, H' + 2, W' + 2, O) with its border, and mean and inverse deviation (S·N, 2, O)."""
    images, height, width, outputs = y.shape
    side = 2 if pool else 1
    result = y.new_empty(images, height // side + 2, width // side + 2, outputs)
    moments = y.new_empty(images, 2, outputs, dtype=torch.float32)
    _normalize[(images,)](y, scale, shift, result, moments, EPS=EPS, SIDE=side, **_sizes(y, scale, shift))
    return result, moments


def _sizes(y: Tensor, scale: Tensor, shift: Tensor) -> dict[str, int]:
    """What both kernels are told of a convolution's output y (S·N, H, W, O)."""
    images, height, width, outputs = y.shape
    padded = triton.next_power_of_2(outputs)
    return {
        "count": images // len(scale),
        "run_scale": scale.stride(0),
        "run_shift": shift.stride(0),
        "HEIGHT": height,
        "WIDTH": width,
        "OUT": outputs,
        "OP": padded,
        "BLOCK": max(16, 4096 // padded),  # pixels in one step: 4,096 numbers
        "num_warps": 8 if height * width > 512 else 4,
    }


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
    moments,
    count,
    run_scale,
    run_shift,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    OUT: tl.constexpr,
    OP: tl.constexpr,
    EPS: tl.constexpr,
    SIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    image = tl.program_id(0).to(tl.int64)
    run = image // count
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
    a = tl.load(scale + run * run_scale + o, known, 0.0) * deviation
    b = tl.load(shift + run * run_shift + o, known, 0.0) - mean * a
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
    tl.store(moments + 2 * image * OUT + o, mean, known)
    tl.store(moments + (2 * image + 1) * OUT + o, deviation, known)


def normalize_back(
    gradient: Tensor, y: Tensor, moments: Tensor, scale: Tensor, shift: Tensor, pool: bool, copies: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """From the gradient (S·N, H', W', O) of the block's output to those of the convolution's output with a border of
    zeros, (S·N, H + 2, W + 2, O), and of scale and shift (S, O). Where 2×2 pixels are ``copies`` of one, their
    gradients lie together: (S·N, H / 2 + 2, W / 2 + 2, 4 · O)."""
    images, height, width, outputs = y.shape
    runs, side = len(scale), 2 if pool else 1
    apart = 2 if copies else 1
    result = gradient.new_empty(images, height // apart + 2, width // apart + 2, apart**2 * outputs)
    of_norm = torch.empty_like(moments)
    given = (gradient, y, moments, scale, shift, result, of_norm)
    _normalize_back[(images,)](*given, SIDE=side, COPIES=apart, **_sizes(y, scale, shift))
    d_scale, d_shift = (each.clone() for each in of_norm.unflatten(0, (runs, -1)).sum(1).unbind(1))
    return result, d_scale, d_shift


@triton.jit
def _normalize_back(
    gradient,
    y,
    moments,
    scale,
    shift,
    result,
    of_norm,
    count,
    run_scale,
    run_shift,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    OUT: tl.constexpr,
    OP: tl.constexpr,
    SIDE: tl.constexpr,
    COPIES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    image = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, OP)
    known = o < OUT
    run = image // count
    mean = tl.load(moments + 2 * image * OUT + o, known, 0.0)[None, :]
    deviation = tl.load(moments + (2 * image + 1) * OUT + o, known, 0.0)[None, :]
    a = tl.load(scale + run * run_scale + o, known, 0.0)[None, :]
    b = tl.load(shift + run * run_shift + o, known, 0.0)[None, :]
    out_h: tl.constexpr = HEIGHT // SIDE
    out_w: tl.constexpr = WIDTH // SIDE
    y += image * (HEIGHT * WIDTH * OUT)
    gradient += image * (out_h * out_w * OUT)
    high: tl.constexpr = HEIGHT // COPIES
    wide: tl.constexpr = WIDTH // COPIES
    many: tl.constexpr = COPIES * COPIES
    result += image * ((high + 2) * (wide + 2) * (many * OUT))
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
                at = (up // COPIES + 1) * (wide + 2) + across // COPIES + 1
                at = at * many + up % COPIES * COPIES + across % COPIES
                tl.store(result + at[:, None] * OUT + o[None, :], storable(value, result), live)
    clear_border(result, tl.arange(0, many * OP), high, wide, many * OUT, BLOCK // many)
    tl.store(of_norm + 2 * image * OUT + o, of_scale, known)
    tl.store(of_norm + (2 * image + 1) * OUT + o, of_shift, known)
