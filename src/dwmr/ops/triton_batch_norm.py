"""Batch normalisation with an optional ReLU of several runs in four Triton kernels: moments, map, and both backwards.

Rows lie with channels last: x (S, M, C), M samples and positions of each of S runs. Plain PyTorch takes some ten passes
over such a tensor forwards and backwards; here it is read twice and written once in each direction.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from dwmr.ops.triton_norm import relu

GROUPS = 64  # programs a run for the sums
NUMBERS = 4096  # in one step of a program


def forward(x: Tensor, weight: Tensor, bias: Tensor, eps: float, relu: bool) -> tuple[Tensor, Tensor, Tensor]:
    """x (S, M, C) normalised by its own moments, and these: mean and variance (S, C)."""
    x = x.contiguous()
    rows = x.shape[1]
    sums = _reduce(_sums, x, x, weight, bias, relu)
    mean = sums[:, 0] / rows
    var = (sums[:, 1] / rows - mean.square()).clamp_min(0)
    scale, shift, _ = _affine_map(mean, var, weight, bias, eps)
    return affine(x, scale, shift, relu), mean, var


def backward(
    gradient: Tensor, x: Tensor, mean: Tensor, var: Tensor, weight: Tensor, bias: Tensor, eps: float, relu: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x, weight and bias."""
    x, gradient = x.contiguous(), gradient.contiguous()
    runs, rows, channels = x.shape
    scale, shift, deviation = _affine_map(mean, var, weight, bias, eps)
    sums = _reduce(_back_sums, x, gradient, scale, shift, relu)
    d_bias = sums[:, 0]
    # Σ g·x̂ from Σ g·x
    d_weight = (sums[:, 1] - mean * d_bias) * deviation
    dx = torch.empty_like(x)
    # dx = scale · (g − (d_bias + x̂ d_weight) / M) = scale·g − slope·x − offset
    slope = scale * d_weight * deviation / rows
    offset = scale * d_bias / rows - slope * mean
    block = _block(channels)
    _back_map[(runs, triton.cdiv(rows, block))](
        *(x, gradient, scale, shift, slope, offset, dx, rows),
        C=channels,
        CP=triton.next_power_of_2(channels),
        BLOCK=block,
        RELU=relu,
    )
    return dx, d_weight, d_bias.contiguous()


def _affine_map(mean: Tensor, var: Tensor, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """The normalisation as x · scale + shift, and 1 / deviation."""
    deviation = (var + eps).rsqrt()
    scale = weight * deviation
    return scale, bias - mean * scale, deviation


def affine(x: Tensor, scale: Tensor, shift: Tensor, relu: bool) -> Tensor:
    """x (S, M, C) · scale + shift, both (S, C), and perhaps ReLU, in one pass; no gradient."""
    runs, rows, channels = x.shape
    y = torch.empty_like(x)
    block = _block(channels)
    _map[(runs, triton.cdiv(rows, block))](
        x, scale, shift, y, rows, C=channels, CP=triton.next_power_of_2(channels), BLOCK=block, RELU=relu
    )
    return y


def _block(channels: int) -> int:
    return max(16, NUMBERS // triton.next_power_of_2(channels))


def _reduce(kernel: Any, x: Tensor, gradient: Tensor, scale: Tensor, shift: Tensor, relu: bool) -> Tensor:
    """Two sums over the rows of each run, (S, 2, C)."""
    runs, rows, channels = x.shape
    partial = x.new_empty(runs, GROUPS, 2, channels)
    block = _block(channels)
    kernel[(runs, GROUPS)](
        x,
        gradient,
        scale.contiguous(),
        shift.contiguous(),
        partial,
        rows,
        triton.cdiv(triton.cdiv(rows, block), GROUPS),
        C=channels,
        CP=triton.next_power_of_2(channels),
        BLOCK=block,
        RELU=relu,
    )
    return partial.sum(1)


@triton.jit
def _sums(
    x,
    gradient,
    scale,
    shift,
    partial,
    rows,
    steps,
    C: tl.constexpr,
    CP: tl.constexpr,
    BLOCK: tl.constexpr,
    RELU: tl.constexpr,
):
    run = tl.program_id(0).to(tl.int64)
    group = tl.program_id(1)
    c = tl.arange(0, CP)
    first = tl.zeros((BLOCK, CP), tl.float32)
    second = tl.zeros((BLOCK, CP), tl.float32)
    for step in range(steps):
        row = (group * steps + step) * BLOCK + tl.arange(0, BLOCK)
        live = (row < rows)[:, None] & (c < C)[None, :]
        v = tl.load(x + (run * rows + row[:, None]) * C + c[None, :], live, 0.0)
        first += v
        second += v * v
    target = partial + (run * tl.num_programs(1) + group) * (2 * C) + c
    tl.store(target, tl.sum(first, 0), c < C)
    tl.store(target + C, tl.sum(second, 0), c < C)


@triton.jit
def _map(x, scale, shift, y, rows, C: tl.constexpr, CP: tl.constexpr, BLOCK: tl.constexpr, RELU: tl.constexpr):
    run = tl.program_id(0).to(tl.int64)
    row = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    c = tl.arange(0, CP)
    live = (row < rows)[:, None] & (c < C)[None, :]
    a = tl.load(scale + run * C + c, c < C, 0.0)[None, :]
    b = tl.load(shift + run * C + c, c < C, 0.0)[None, :]
    place = (run * rows + row[:, None]) * C + c[None, :]
    v = tl.load(x + place, live, 0.0) * a + b
    if RELU:
        v = relu(v)
    tl.store(y + place, v, live)


@triton.jit
def _back_sums(
    x,
    gradient,
    scale,
    shift,
    partial,
    rows,
    steps,
    C: tl.constexpr,
    CP: tl.constexpr,
    BLOCK: tl.constexpr,
    RELU: tl.constexpr,
):
    run = tl.program_id(0).to(tl.int64)
    group = tl.program_id(1)
    c = tl.arange(0, CP)
    a = tl.load(scale + run * C + c, c < C, 0.0)[None, :]
    b = tl.load(shift + run * C + c, c < C, 0.0)[None, :]
    first = tl.zeros((BLOCK, CP), tl.float32)
    second = tl.zeros((BLOCK, CP), tl.float32)
    for step in range(steps):
        row = (group * steps + step) * BLOCK + tl.arange(0, BLOCK)
        live = (row < rows)[:, None] & (c < C)[None, :]
        place = (run * rows + row[:, None]) * C + c[None, :]
        v = tl.load(x + place, live, 0.0)
        g = tl.load(gradient + place, live, 0.0)
        if RELU:
            g = tl.where(v * a + b > 0, g, 0.0)
        first += g
        second += g * v
    target = partial + (run * tl.num_programs(1) + group) * (2 * C) + c
    tl.store(target, tl.sum(first, 0), c < C)
    tl.store(target + C, tl.sum(second, 0), c < C)


@triton.jit
def _back_map(
    x,
    gradient,
    scale,
    shift,
    slope,
    offset,
    dx,
    rows,
    C: tl.constexpr,
    CP: tl.constexpr,
    BLOCK: tl.constexpr,
    RELU: tl.constexpr,
):
    run = tl.program_id(0).to(tl.int64)
    row = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    c = tl.arange(0, CP)
    live = (row < rows)[:, None] & (c < C)[None, :]
    a = tl.load(scale + run * C + c, c < C, 0.0)[None, :]
    b = tl.load(shift + run * C + c, c < C, 0.0)[None, :]
    m = tl.load(slope + run * C + c, c < C, 0.0)[None, :]
    n = tl.load(offset + run * C + c, c < C, 0.0)[None, :]
    place = (run * rows + row[:, None]) * C + c[None, :]
    v = tl.load(x + place, live, 0.0)
    g = tl.load(gradient + place, live, 0.0)
    if RELU:
        g = tl.where(v * a + b > 0, g, 0.0)
    tl.store(dx + place, a * g - m * v - n, live)
