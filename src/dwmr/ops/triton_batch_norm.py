"""Batch normalisation of several runs in two Triton kernels, sums and map, both ways.

Rows lie with channels last: x (S, M, C), M samples and positions of each of S runs. Plain PyTorch takes some ten passes
over such a tensor forwards and backwards; here it is read twice and written once in each direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

GROUPS = 64  # programs a run for the sums
NUMBERS = 4096  # in one step of a program


def forward(inputs: Sequence[Tensor], form: Sequence[float]) -> list[Tensor]:
    """x (S, M, C) normalised by its own moments, and these: mean and variance (S, C).

    ``inputs`` are x, weight and bias, ``form`` what is added to the variance.
    """
    x, weight, bias = inputs[0].contiguous(), inputs[1], inputs[2]
    (eps,) = form
    rows = x.shape[1]
    sums = _reduce(x, None)
    mean = sums[:, 0] / rows
    var = (sums[:, 1] / rows - mean.square()).clamp_min(0)
    scale, shift, _ = _affine_map(mean, var, weight, bias, eps)
    y = torch.empty_like(x)
    _map_rows(x, None, (scale, shift, scale, shift), y)
    return [y, mean, var]


def backward(
    gradient: Tensor, inputs: Sequence[Tensor], saved: Sequence[Tensor], form: Sequence[float], into_x: bool
) -> list[Tensor]:
    """The gradients of x, if asked for, weight and bias."""
    x, gradient = inputs[0].contiguous(), gradient.contiguous()
    mean, var = saved
    (eps,) = form
    rows = x.shape[1]
    scale, shift, deviation = _affine_map(mean, var, inputs[1], inputs[2], eps)
    sums = _reduce(x, gradient)
    d_bias = sums[:, 0]
    # Σ g·x̂ from Σ g·x
    d_weight = (sums[:, 1] - mean * d_bias) * deviation
    if not into_x:
        return [d_weight, d_bias.contiguous()]
    dx = torch.empty_like(x)
    # dx = scale · (g − (d_bias + x̂ d_weight) / M) = scale·g − slope·x − offset
    slope = scale * d_weight * deviation / rows
    offset = scale * d_bias / rows - slope * mean
    _map_rows(x, gradient, (scale, shift, slope, offset), dx)
    return [dx, d_weight, d_bias.contiguous()]


def _affine_map(mean: Tensor, var: Tensor, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """The normalisation as x · scale + shift, and 1 / deviation."""
    deviation = (var + eps).rsqrt()
    scale = weight * deviation
    return scale, bias - mean * scale, deviation


def _map_rows(x: Tensor, gradient: Tensor | None, maps: Sequence[Tensor], result: Tensor) -> None:
    """All rows of x (S, M, C) by scale and shift, or of the gradient by scale, slope and offset."""
    runs, rows, _ = x.shape
    sizes = _sizes(x) | {"BACK": gradient is not None}
    grid = (runs, triton.cdiv(rows, sizes["BLOCK"]))
    _map[grid](x, x if gradient is None else gradient, *maps, result, rows, **sizes)


def _sizes(x: Tensor) -> dict[str, Any]:
    padded = triton.next_power_of_2(x.shape[2])
    return {"C": x.shape[2], "CP": padded, "BLOCK": max(16, NUMBERS // padded)}


def _reduce(x: Tensor, gradient: Tensor | None) -> Tensor:
    """Two sums over the rows of each run, (S, 2, C): of x and its square, or of the gradient, by itself and times x."""
    runs, rows, channels = x.shape
    partial = x.new_empty(runs, GROUPS, 2, channels)
    sizes = _sizes(x)
    steps = triton.cdiv(triton.cdiv(rows, sizes["BLOCK"]), GROUPS)
    _sums[(runs, GROUPS)](
        x, x if gradient is None else gradient, partial, rows, steps, BACK=gradient is not None, **sizes
    )
    return partial.sum(1)


@triton.jit
def _sums(
    x,
    gradient,
    partial,
    rows,
    steps,
    BACK: tl.constexpr,
    C: tl.constexpr,
    CP: tl.constexpr,
    BLOCK: tl.constexpr,
):
    run = tl.program_id(0).to(tl.int64)
    group = tl.program_id(1)
    c = tl.arange(0, CP)
    first = tl.zeros((BLOCK, CP), tl.float32)
    second = tl.zeros((BLOCK, CP), tl.float32)
    for step in range(steps):
        row = (group * steps + step) * BLOCK + tl.arange(0, BLOCK)
        live = (row < rows)[:, None] & (c < C)[None, :]
        place = (run * rows + row[:, None]) * C + c[None, :]
        v = tl.load(x + place, live, 0.0)
        g = v
        if BACK:
            g = tl.load(gradient + place, live, 0.0)
        first += g
        second += g * v
    target = partial + (run * tl.num_programs(1) + group) * (2 * C) + c
    tl.store(target, tl.sum(first, 0), c < C)
    tl.store(target + C, tl.sum(second, 0), c < C)


@triton.jit
def _map(
    x,
    gradient,
    scale,
    shift,
    slope,
    offset,
    result,
    rows,
    BACK: tl.constexpr,
    C: tl.constexpr,
    CP: tl.constexpr,
    BLOCK: tl.constexpr,
):
    run = tl.program_id(0).to(tl.int64)
    row = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    c = tl.arange(0, CP)
    live = (row < rows)[:, None] & (c < C)[None, :]
    a = tl.load(scale + run * C + c, c < C, 0.0)[None, :]
    b = tl.load(shift + run * C + c, c < C, 0.0)[None, :]
    place = (run * rows + row[:, None]) * C + c[None, :]
    v = tl.load(x + place, live, 0.0)
    y = v * a + b
    if BACK:
        m = tl.load(slope + run * C + c, c < C, 0.0)[None, :]
        n = tl.load(offset + run * C + c, c < C, 0.0)[None, :]
        y = a * tl.load(gradient + place, live, 0.0) - m * v - n
    tl.store(result + place, y, live)
