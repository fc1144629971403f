"""The coskewness term and its gradient in three Triton kernels, for many runs at once: columns standardised, the
third moments with their pull on the standardised columns, and that pull taken back to the probabilities.

In the second each program owns some bits j and some bits i, and goes through the bits k > i:

    M_jk = Σ_n x_nj x_ni x_nk,    gradient_j += x_i ⊙ (X sign(M)ᵀ)_j      over i < k, i ≠ j ≠ k

Every unordered triple is met three times, once for each of its bits as j, so no two programs write the same gradient
but for the split over i, whose parts are summed afterwards. Nothing of size K³ or N·K² is ever in memory.
The reference is `dwmr.ops.coskewness.reference`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from dwmr.ops.dispatch import define, scale_gradient, value_and_gradient

# Products in half precision, which has TF32's digits (standardised bits of N samples are below √N): values to 1e-3; of
# the gradient, a sum of signs, the few that rounding flips. "tf32x3" is precise.
PRECISION = "half"
MAX_SAMPLES = 512
COLUMNS = 4  # bits a program where columns are taken by themselves
PROGRAMS = 528  # enough to fill the largest GPUs a few times over
WARPS = 8  # with four, the registers do not hold a program's numbers


def _forward(inputs: Sequence[Tensor], form: Sequence[float]) -> list[Tensor]:
    """The term (S,) over all triplets for float32 probs (S, N, K) with N ≤ `MAX_SAMPLES`, and its gradient.

    ``form`` is what is added to the bits' deviations.
    """
    probs = inputs[0].contiguous()
    runs, samples, bits = probs.shape
    block_n = max(16, triton.next_power_of_2(samples))
    block = 32 if block_n <= 256 else 16
    blocks = triton.cdiv(bits, block)
    chunks = min(max(1, triton.cdiv(PROGRAMS, runs * blocks)), bits)
    chunk = triton.cdiv(bits, chunks)
    chunks = triton.cdiv(bits, chunk)
    x, std = torch.empty_like(probs), probs.new_empty(runs, bits)
    columns = (runs, triton.cdiv(bits, COLUMNS))
    _standardize[columns](probs, x, std, samples, bits, form[0], N=block_n, BLOCK=COLUMNS)
    loss = probs.new_empty(runs, chunks, blocks)
    pulls = probs.new_empty(runs, chunks, samples, bits)
    _third_moments[(runs, blocks, chunks)](
        x, loss, pulls, samples, bits, chunk, N=block_n, BLOCK=block, PRECISION=PRECISION, num_warps=WARPS
    )
    factor = 6 / (samples * bits * (bits - 1) * (bits - 2))
    gradient = torch.empty_like(probs)
    _pull_back[columns](x, std, pulls.sum(1), gradient, samples, bits, factor, form[0], N=block_n, BLOCK=COLUMNS)
    return [loss.sum((1, 2)) * (factor / 3), gradient]


coskewness = define("coskewness", _forward, scale_gradient, value_and_gradient)


@triton.jit
def _standardize(probs, x, std, samples, bits, eps, N: tl.constexpr, BLOCK: tl.constexpr):
    """x = (p − mean) / (std + ε) of each column."""
    run = tl.program_id(0).to(tl.int64)
    n = tl.arange(0, N)
    k = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    live = (n < samples)[:, None] & (k < bits)[None, :]
    place = (run * samples + n[:, None]) * bits + k[None, :]
    p = tl.load(probs + place, live, 0.0)
    # The mean of equal numbers need not be that number.
    constant = tl.max(tl.where(live, p, float("-inf")), 0) <= tl.min(tl.where(live, p, float("inf")), 0)
    centred = tl.where(live & ~constant[None, :], p - (tl.sum(p, 0) / samples)[None, :], 0.0)
    deviation = tl.sqrt(tl.sum(centred * centred, 0) / (samples - 1))
    tl.store(x + place, centred / (deviation + eps)[None, :], live)
    tl.store(std + run * bits + k, deviation, k < bits)


@triton.jit
def _pull_back(x, std, pull, gradient, samples, bits, factor, eps, N: tl.constexpr, BLOCK: tl.constexpr):
    """From g, the pull on x, to the one on p: (g − mean g) / (std + ε) − x Σ g x / ((N − 1) std)."""
    run = tl.program_id(0).to(tl.int64)
    n = tl.arange(0, N)
    k = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    live = (n < samples)[:, None] & (k < bits)[None, :]
    place = (run * samples + n[:, None]) * bits + k[None, :]
    g = tl.load(pull + place, live, 0.0)
    v = tl.load(x + place, live, 0.0)
    deviation = tl.load(std + run * bits + k, k < bits, 1.0)
    along = tl.sum(g * v, 0) / ((samples - 1) * tl.where(deviation > 0, deviation, 1.0))  # v is 0 where it is not
    centred = g - (tl.sum(g, 0) / samples)[None, :]
    tl.store(gradient + place, (centred / (deviation + eps)[None, :] - v * along[None, :]) * factor, live)


@triton.jit
def _third_moments(
    x, loss, gradient, samples, bits, chunk, N: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr
):
    run = tl.program_id(0).to(tl.int64)
    dtype: tl.constexpr = tl.float16 if PRECISION == "half" else tl.float32
    precision: tl.constexpr = "ieee" if PRECISION == "half" else PRECISION
    blocks, chunks = tl.num_programs(1), tl.num_programs(2)
    n = tl.arange(0, N)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    base = x + run * samples * bits
    here = (n < samples)[:, None]
    own = tl.load(base + n[:, None] * bits + j[None, :], here & (j < bits)[None, :], 0.0)
    first = tl.program_id(2) * chunk
    last = tl.minimum(first + chunk, bits)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    pull = tl.zeros((N, BLOCK), tl.float32)
    for start in range((first // BLOCK) * BLOCK, bits, BLOCK):
        k = start + tl.arange(0, BLOCK)
        later = tl.load(base + n[:, None] * bits + k[None, :], here & (k < bits)[None, :], 0.0).to(dtype)
        for i in range(first, tl.minimum(last, start + BLOCK)):
            column = tl.load(base + n * bits + i, n < samples, 0.0)
            moments = tl.dot(tl.trans((own * column[:, None]).to(dtype)), later, input_precision=precision)
            counted = (k > i)[None, :] & (j != i)[:, None] & (j[:, None] != k[None, :])
            moments = tl.where(counted & (j < bits)[:, None] & (k < bits)[None, :], moments, 0.0)
            total += tl.abs(moments)
            sign = tl.where(moments > 0, 1.0, tl.where(moments < 0, -1.0, 0.0))
            pull += column[:, None] * tl.dot(later, tl.trans(sign.to(dtype)), input_precision=precision)
    part = run * chunks + tl.program_id(2)
    tl.store(loss + part * blocks + tl.program_id(1), tl.sum(tl.sum(total, 0), 0))
    target = gradient + (part * samples + n[:, None]) * bits + j[None, :]
    tl.store(target, pull, here & (j < bits)[None, :])
