"""The first block of `ConvEncoder` in two Triton kernels, one program an image.

The first convolution reads a grey image and has the largest output of all, which is cheaper to compute again than to
write and read back. The four pixels that are pooled into one see 4×4 pixels v of the image, so that one product makes
all their outputs y = vᵀw at once, and nothing of the image's full size is ever stored.

Neither the normalisation nor its gradient needs a pass of its own: with V = Σ v and M = Σ v vᵀ over the image,

    Σ y = wᵀV,   Σ y² = wᵀMw,   Σ y v = Mw,   and for gradients p that pass the ReLU, with P = Σ v p,   Σ y p = wᵀP.

So going forward, one pass over the image sums V and M, and one pools; going back, one sums P.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from dwmr.ops import triton_conv
from dwmr.ops.triton_norm import EPS, clear_border, relu, storable

BLOCK = 64  # pooled pixels in one step
SEEN = tl.constexpr(16)


def fits(x: Tensor, weight: Tensor, pool: float) -> bool:
    """Whether images (S·N, C, H, W) are grey and pooled, and become 16 channels at most."""
    return bool(pool) and x.shape[1] == 1 and weight.shape[1] <= 16


def first_block(x: Tensor, weight: Tensor, scale: Tensor, shift: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The block's output (S·N, H / 2 + 2, W / 2 + 2, O) with its border, and for the way back the images' sums V and M
    (S·N, 1 + 16, 16), and mean and inverse deviation of the outputs (S·N, 2, O)."""
    images, _, height, width = x.shape
    outputs = weight.shape[1]
    result = x.new_empty(images, height // 2 + 2, width // 2 + 2, outputs, dtype=triton_conv.STORAGE)
    sums = x.new_empty(images, 17, 16)
    moments = x.new_empty(images, 2, outputs)
    _first[(images,)](x, weight, scale, shift, result, sums, moments, **_sizes(x, weight, scale, shift), EPS=EPS)
    return result, sums, moments


def first_block_back(
    gradient: Tensor, x: Tensor, sums: Tensor, moments: Tensor, weight: Tensor, scale: Tensor, shift: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """From the gradient (S·N, H / 2, W / 2, O) of the block's output to those of weight, scale and shift."""
    images, (runs, outputs) = len(x), weight.shape[:2]
    partial = x.new_empty(images, 4, outputs, 1, 4, 4)
    of_norm = torch.empty_like(moments)
    given = (gradient, x, weight, sums, moments, scale, shift, partial, of_norm)
    _first_back[(images,)](*given, **_sizes(x, weight, scale, shift))
    d_weight = _of_one_pixel(partial.unflatten(0, (runs, -1)).sum(1))
    d_scale, d_shift = (each.clone() for each in of_norm.unflatten(0, (runs, -1)).sum(1).unbind(1))
    return d_weight, d_scale, d_shift


def _of_one_pixel(gradient: Tensor) -> Tensor:
    """From the gradients (S, 4, O, 1, 4, 4) of taps as the four pixels see them to (S, O, 1, 3, 3)."""
    parts = [gradient[:, 2 * y + x, ..., y : y + 3, x : x + 3] for y in range(2) for x in range(2)]
    return torch.stack(parts).sum(0)


def _sizes(x: Tensor, weight: Tensor, scale: Tensor, shift: Tensor) -> dict[str, int | str]:
    runs, outputs = weight.shape[:2]
    padded = max(4, triton.next_power_of_2(outputs))
    return {
        "count": len(x) // runs,
        "run_weight": weight.stride(0),
        "run_scale": scale.stride(0),
        "run_shift": shift.stride(0),
        "HEIGHT": x.shape[2],
        "WIDTH": x.shape[3],
        "OUT": outputs,
        "OP": padded,
        "BLOCK": BLOCK,
        "PRECISION": triton_conv.PRECISION,
        "num_warps": max(2, padded // 4),
        "num_stages": 1,
    }


@triton.jit
def _seen(x, start, dtype: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """What the pooled pixels from ``start`` on see of an image, (BLOCK, 16): 4×4 pixels. Beyond the image's border, and
    where there is no pixel, zeros."""
    place = (start + tl.arange(0, BLOCK))[:, None]
    k = tl.arange(0, SEEN)[None, :]
    row = place // (WIDTH // 2) * 2 + k // 4 - 1
    col = place % (WIDTH // 2) * 2 + k % 4 - 1
    live = (place < (HEIGHT // 2) * (WIDTH // 2)) & (row >= 0) & (row < HEIGHT) & (col >= 0) & (col < WIDTH)
    return tl.load(x + row * WIDTH + col, live, 0.0).to(dtype)


@triton.jit
def _taps(weight, dtype: tl.constexpr, OUT: tl.constexpr, OP: tl.constexpr):
    """The weights (O, 1, 3, 3) of one run as (16, 4 · OP): for each of the four pixels, each output."""
    k = tl.arange(0, SEEN)[:, None]
    each = tl.arange(0, 4 * OP)[None, :]
    pixel, o = each // OP, each % OP
    dy, dx = k // 4 - pixel // 2, k % 4 - pixel % 2
    known = (o < OUT) & (dy >= 0) & (dy < 3) & (dx >= 0) & (dx < 3)
    return tl.load(weight + o * 9 + dy * 3 + dx, known, 0.0).to(dtype)


@triton.jit
def _of_all(sums, OP: tl.constexpr):
    """Sums (4 · OP,) of the four pixels' outputs as sums of the outputs, for all four again."""
    total = tl.sum(tl.reshape(sums, (4, OP)), 0)
    return tl.reshape(tl.broadcast_to(total[None, :], (4, OP)), (4 * OP,))


@triton.jit
def _first(
    x,
    weight,
    scale,
    shift,
    result,
    sums,
    moments,
    count,
    run_weight,
    run_scale,
    run_shift,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    OUT: tl.constexpr,
    OP: tl.constexpr,
    EPS: tl.constexpr,
    BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    image = tl.program_id(0).to(tl.int64)
    run = image // count
    out_h: tl.constexpr = HEIGHT // 2
    out_w: tl.constexpr = WIDTH // 2
    size: tl.constexpr = HEIGHT * WIDTH
    dtype: tl.constexpr = result.dtype.element_ty
    x += image * size
    w = _taps(weight + run * run_weight, dtype, OUT, OP)
    first = tl.zeros((BLOCK, SEEN), tl.float32)
    second = tl.zeros((SEEN, SEEN), tl.float32)
    for start in range(0, out_h * out_w, BLOCK):
        v = _seen(x, start, dtype, HEIGHT, WIDTH, BLOCK)
        first += v
        second = tl.dot(tl.trans(v), v, second, input_precision=PRECISION)
    once = tl.sum(first, 0)
    w32 = w.to(tl.float32)
    mean = _of_all(tl.sum(once[:, None] * w32, 0), OP) / size
    square = _of_all(tl.sum(tl.dot(second, w32, input_precision="ieee") * w32, 0), OP) / size
    deviation = 1 / tl.sqrt(relu(square - mean * mean) + EPS)
    each = tl.arange(0, 4 * OP)
    o = each % OP
    known = o < OUT
    a = tl.load(scale + run * run_scale + o, known, 0.0) * deviation
    b = tl.load(shift + run * run_shift + o, known, 0.0) - mean * a
    one = tl.arange(0, OP)
    result += image * ((out_h + 2) * (out_w + 2) * OUT)
    for start in range(0, out_h * out_w, BLOCK):
        v = _seen(x, start, dtype, HEIGHT, WIDTH, BLOCK)
        y = relu(tl.dot(v, w, input_precision=PRECISION) * a[None, :] + b[None, :])
        pooled = tl.sum(tl.reshape(y, (BLOCK, 4, OP)), 1) / 4
        place = start + tl.arange(0, BLOCK)
        inside = (place < out_h * out_w)[:, None] & (one < OUT)[None, :]
        at = (place // out_w + 1) * (out_w + 2) + place % out_w + 1
        tl.store(result + at[:, None] * OUT + one[None, :], storable(pooled, result), inside)
    clear_border(result, one, out_h, out_w, OUT, BLOCK)
    k = tl.arange(0, SEEN)
    sums += image * ((1 + SEEN) * SEEN)
    tl.store(sums + k, once)
    tl.store(sums + SEEN + k[:, None] * SEEN + k[None, :], second)
    tl.store(moments + 2 * image * OUT + o, mean, known & (each < OP))
    tl.store(moments + (2 * image + 1) * OUT + o, deviation, known & (each < OP))


@triton.jit
def _first_back(
    gradient,
    x,
    weight,
    sums,
    moments,
    scale,
    shift,
    partial,
    of_norm,
    count,
    run_weight,
    run_scale,
    run_shift,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    OUT: tl.constexpr,
    OP: tl.constexpr,
    BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    image = tl.program_id(0).to(tl.int64)
    run = image // count
    out_h: tl.constexpr = HEIGHT // 2
    out_w: tl.constexpr = WIDTH // 2
    size: tl.constexpr = HEIGHT * WIDTH
    dtype: tl.constexpr = gradient.dtype.element_ty
    x += image * size
    gradient += image * (out_h * out_w * OUT)
    w = _taps(weight + run * run_weight, dtype, OUT, OP)
    each = tl.arange(0, 4 * OP)
    o = each % OP
    known = o < OUT
    mean = tl.load(moments + 2 * image * OUT + o, known, 0.0)
    deviation = tl.load(moments + (2 * image + 1) * OUT + o, known, 0.0)
    a = tl.load(scale + run * run_scale + o, known, 0.0) * deviation
    b = tl.load(shift + run * run_shift + o, known, 0.0) - mean * a
    first = tl.zeros((BLOCK, 4 * OP), tl.float32)
    total = tl.zeros((SEEN, 4 * OP), tl.float32)
    for start in range(0, out_h * out_w, BLOCK):
        place = start + tl.arange(0, BLOCK)
        live = (place < out_h * out_w)[:, None] & known[None, :]
        g = tl.load(gradient + place[:, None] * OUT + o[None, :], live, 0.0)
        v = _seen(x, start, dtype, HEIGHT, WIDTH, BLOCK)
        y = tl.dot(v, w, input_precision=PRECISION)
        passed = tl.where(y * a[None, :] + b[None, :] > 0, g, 0.0)
        first += passed
        total = tl.dot(tl.trans(v), passed, total, input_precision=PRECISION)
    w32 = w.to(tl.float32)
    k = tl.arange(0, SEEN)
    sums += image * ((1 + SEEN) * SEEN)
    once = tl.load(sums + k)[:, None]
    second = tl.load(sums + SEEN + k[:, None] * SEEN + k[None, :])
    of_shift = _of_all(tl.sum(first, 0), OP)
    of_scale = (_of_all(tl.sum(total * w32, 0), OP) - mean * of_shift) * deviation
    standard = (tl.dot(second, w32, input_precision="ieee") - once * mean[None, :]) * deviation[None, :]
    back = total - (once * of_shift[None, :] + standard * of_scale[None, :]) / size
    # A pooled pixel gives each of its four a quarter of its gradient.
    target = partial + ((image * 4 + each // OP) * OUT + o)[None, :] * SEEN + k[:, None]
    tl.store(target, back * a[None, :] / 4, known[None, :])
    tl.store(of_norm + 2 * image * OUT + o, of_scale / 4, known & (each < OP))
    tl.store(of_norm + (2 * image + 1) * OUT + o, of_shift / 4, known & (each < OP))
