"""A step of Adam for the weights of many runs in one Triton kernel."""

from __future__ import annotations

import math

import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024


def adam(
    flat: Tensor,
    gradient: Tensor,
    mean: Tensor,
    square: Tensor,
    steps: Tensor,
    lr: Tensor,
    betas: tuple[float, float],
    eps: float,
) -> None:
    """Move weights, means and squares, float32 (S, P), by the step whose number is in ``steps``, float64 (S,)."""
    runs, size = flat.shape
    _adam[(triton.cdiv(size, BLOCK), runs)](
        flat,
        gradient,
        mean,
        square,
        steps,
        lr,
        size,
        BETA_1=betas[0],
        BETA_2=betas[1],
        LOG_1=math.log2(betas[0]),
        LOG_2=math.log2(betas[1]),
        EPS=eps,
        BLOCK=BLOCK,
    )


@triton.jit
def _adam(
    flat,
    gradient,
    mean,
    square,
    steps,
    lr,
    size,
    BETA_1: tl.constexpr,
    BETA_2: tl.constexpr,
    LOG_1: tl.constexpr,
    LOG_2: tl.constexpr,
    EPS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    run = tl.program_id(1).to(tl.int64)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = place < size
    at = run * size + place
    step = tl.load(steps + run)
    # Powers of the betas near 1 want more than single precision.
    length = (tl.load(lr + run) / (1 - tl.exp2(step * LOG_1))).to(tl.float32)
    root = tl.sqrt(1 - tl.exp2(step * LOG_2)).to(tl.float32)
    g = tl.load(gradient + at, live, 0.0)
    m = tl.load(mean + at, live, 0.0)
    m += (g - m) * (1 - BETA_1)
    v = tl.load(square + at, live, 0.0) * BETA_2 + g * g * (1 - BETA_2)
    tl.store(mean + at, m, live)
    tl.store(square + at, v, live)
    tl.store(flat + at, tl.load(flat + at, live, 0.0) - length * m / (tl.sqrt(v) / root + EPS), live)
