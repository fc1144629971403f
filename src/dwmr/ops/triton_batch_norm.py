"""Batch normalisation of several runs in two Triton kernels each way: sums over the rows, then a map of all rows.

Rows lie with channels last: x (S, M, C), M samples and positions of each of S runs. Plain PyTorch takes some ten passes
over such a tensor forwards and backwards; here it is read twice and written once in each direction. Each program of the
second kernel adds up what those of the first left, so that nothing small is computed in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from dwmr.ops.dispatch import define, like

PROGRAMS = 1024  # over all runs
MAX_GROUPS = 256  # programs per run
NUMBERS = 4096  # in one step of a program


def _forward(inputs: Sequence[Tensor], form: Sequence[float]) -> list[Tensor]:
    """x (S, M, C) normalised by its own moments, and these: mean and variance (S, C).

    ``inputs`` are x, weight and bias, ``form`` what is added to the variance.
    """
    x, weight, bias = (each.contiguous() for each in inputs)
    y, mean, var = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(weight)
    grid, sizes = _launch(x)
    sums = x.new_empty(*grid, 2, x.shape[2])
    _sums[grid](x, x, sums, BACK=False, **sizes)
    _map[grid](x, sums, weight, bias, mean, var, y, form[0], **sizes)
    return [y, mean, var]


def _backward(
    gradient: Tensor, inputs: Sequence[Tensor], saved: Sequence[Tensor], form: Sequence[float], into_x: bool
) -> list[Tensor]:
    """The gradients of x, if asked for, weight and bias."""
    x, weight, gradient = inputs[0].contiguous(), inputs[1].contiguous(), gradient.contiguous()
    mean, var = (each.contiguous() for each in saved)
    dx, d_weight, d_bias = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(weight)
    grid, sizes = _launch(x)
    sums = x.new_empty(*grid, 2, x.shape[2])
    _sums[grid](x, gradient, sums, BACK=True, **sizes)
    _map_back[grid](x, gradient, sums, weight, mean, var, d_weight, d_bias, dx, form[0], **sizes)
    return [dx, d_weight, d_bias] if into_x else [d_weight, d_bias]


batch_norm = define("batch_norm", _forward, _backward, like)


def _launch(x: Tensor) -> tuple[tuple[int, int], dict[str, Any]]:
    """The programs of a kernel, (runs, groups of rows), and what all kernels are told of x."""
    runs, rows, channels = x.shape
    padded = triton.next_power_of_2(channels)
    block = max(16, NUMBERS // padded)
    groups = min(MAX_GROUPS, triton.next_power_of_2(triton.cdiv(PROGRAMS, runs)))
    steps = triton.cdiv(triton.cdiv(rows, block), groups)
    sizes = {"rows": rows, "steps": steps, "GROUPS": groups, "C": channels, "CP": padded, "BLOCK": block}
    return (runs, groups), sizes


@triton.jit
def _sums(
    x,
    gradient,
    sums,
    rows,
    steps,
    GROUPS: tl.constexpr,
    C: tl.constexpr,
    CP: tl.constexpr,
    BLOCK: tl.constexpr,
    BACK: tl.constexpr,
):
    """Over a group's rows, x and its square; on the way back the gradient, by itself and times x."""
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
    target = sums + (run * GROUPS + group) * (2 * C) + c
    tl.store(target, tl.sum(first, 0), c < C)
    tl.store(target + C, tl.sum(second, 0), c < C)


@triton.jit
def _of_all_groups(sums, run, GROUPS: tl.constexpr, C: tl.constexpr, CP: tl.constexpr):
    """Both sums over all rows of a run."""
    c = tl.arange(0, CP)[None, :]
    place = (run * GROUPS + tl.arange(0, GROUPS)[:, None]) * (2 * C) + c
    first = tl.sum(tl.load(sums + place, c < C, 0.0), 0)
    return first, tl.sum(tl.load(sums + place + C, c < C, 0.0), 0)


@triton.jit
def _map(
    x,
    sums,
    weight,
    bias,
    mean,
    var,
    result,
    eps,
    rows,
    steps,
    GROUPS: tl.constexpr,
    C: tl.constexpr,
    CP: tl.constexpr,
    BLOCK: tl.constexpr,
):
    run = tl.program_id(0).to(tl.int64)
    group = tl.program_id(1)
    c = tl.arange(0, CP)
    once, square = _of_all_groups(sums, run, GROUPS, C, CP)
    middle = once / rows
    spread = square / rows - middle * middle
    spread = tl.where(spread < 0, 0.0, spread)  # NaN stays NaN
    if group == 0:
        tl.store(mean + run * C + c, middle, c < C)
        tl.store(var + run * C + c, spread, c < C)
    a = tl.load(weight + run * C + c, c < C, 0.0) / tl.sqrt(spread + eps)
    b = tl.load(bias + run * C + c, c < C, 0.0) - middle * a
    for step in range(steps):
        row = (group * steps + step) * BLOCK + tl.arange(0, BLOCK)
        live = (row < rows)[:, None] & (c < C)[None, :]
        place = (run * rows + row[:, None]) * C + c[None, :]
        tl.store(result + place, tl.load(x + place, live, 0.0) * a[None, :] + b[None, :], live)


@triton.jit
def _map_back(
    x,
    gradient,
    sums,
    weight,
    mean,
    var,
    d_weight,
    d_bias,
    result,
    eps,
    rows,
    steps,
    GROUPS: tl.constexpr,
    C: tl.constexpr,
    CP: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """dx = a · (g − (Σ g + x̂ Σ g x̂) / M) with a = weight / deviation, as a·g − m·x − n."""
    run = tl.program_id(0).to(tl.int64)
    group = tl.program_id(1)
    c = tl.arange(0, CP)
    of_bias, product = _of_all_groups(sums, run, GROUPS, C, CP)
    middle = tl.load(mean + run * C + c, c < C, 0.0)
    inverse = 1 / tl.sqrt(tl.load(var + run * C + c, c < C, 0.0) + eps)
    of_weight = (product - middle * of_bias) * inverse
    if group == 0:
        tl.store(d_weight + run * C + c, of_weight, c < C)
        tl.store(d_bias + run * C + c, of_bias, c < C)
    a = tl.load(weight + run * C + c, c < C, 0.0) * inverse
    m = a * of_weight * inverse / rows
    n = a * of_bias / rows - m * middle
    for step in range(steps):
        row = (group * steps + step) * BLOCK + tl.arange(0, BLOCK)
        live = (row < rows)[:, None] & (c < C)[None, :]
        place = (run * rows + row[:, None]) * C + c[None, :]
        g = tl.load(gradient + place, live, 0.0)
        v = tl.load(x + place, live, 0.0)
        tl.store(result + place, a[None, :] * g - m[None, :] * v - n[None, :], live)
