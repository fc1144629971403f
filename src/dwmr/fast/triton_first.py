"""The first block of `ConvEncoder` in two Triton kernels, one program an image.

The first convolution has few channels to read and the largest output of all, which is cheaper to compute again than to
write and read back: going forward once for the moments and once for the pooled result, going back once for the sums and
once for the weights' gradient. Nothing of the image's full size is ever stored. As in `triton_conv`, two neighbouring
pixels are made at once.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from dwmr.fast import triton_conv
from dwmr.fast.triton_conv import Launch
from dwmr.fast.triton_norm import EPS, clear_border, relu, storable

LAUNCH = Launch(block=64, warps=4, stages=1)  # of pooled pixels


def fits(x: Tensor, weight: Tensor, pool: bool) -> bool:
    """Whether framed images (S·N, H + 2, W + 2, C) are small enough in channels, and are pooled."""
    return pool and x.shape[-1] <= 4 and weight.shape[1] <= 16


def first_block(x: Tensor, weight: Tensor, scale: Tensor, shift: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The block's output (S·N, H / 2 + 2, W / 2 + 2, O) with its border, and mean and inverse deviation (S·N, O)."""
    images, height, width, channels = x.shape
    outputs = weight.shape[1]
    result = x.new_empty(images, height // 2 + 1, width // 2 + 1, outputs)
    mean, deviation = x.new_empty(2, images, outputs, dtype=torch.float32)
    _first[(images,)](
        x,
        triton_conv.laid_out(weight, False, 2, x.dtype),
        scale,
        shift,
        result,
        mean,
        deviation,
        images // len(weight),
        HEIGHT=height - 2,
        WIDTH=width - 2,
        EPS=EPS,
        **_sizes(channels, outputs),
    )
    return result, mean, deviation


def first_block_back(
    gradient: Tensor, x: Tensor, mean: Tensor, deviation: Tensor, weight: Tensor, scale: Tensor, shift: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """From the gradient (S·N, H / 2, W / 2, O) of the block's output to those of weight, scale and shift."""
    images, height, width, channels = x.shape
    runs, outputs = weight.shape[:2]
    partial = x.new_empty(images, 2, outputs, 3, 4, channels, dtype=torch.float32)
    d_scale, d_shift = torch.empty_like(mean), torch.empty_like(mean)
    _first_back[(images,)](
        gradient,
        x,
        triton_conv.laid_out(weight, False, 2, x.dtype),
        mean,
        deviation,
        scale,
        shift,
        partial,
        d_scale,
        d_shift,
        images // runs,
        HEIGHT=height - 2,
        WIDTH=width - 2,
        **_sizes(channels, outputs),
    )
    d_weight = triton_conv.of_one_pixel(partial.unflatten(0, (runs, -1)).sum(1))
    return d_weight, *(each.unflatten(0, (runs, -1)).sum(1) for each in (d_scale, d_shift))


def _sizes(channels: int, outputs: int) -> dict[str, int | str]:
    return {
        "C": channels,
        "OUT": outputs,
        "KP": max(16, triton.next_power_of_2(12 * channels)),
        "OP": max(8, triton.next_power_of_2(outputs)),
        "BLOCK": LAUNCH.block,
        "PRECISION": triton_conv.PRECISION,
        "num_warps": LAUNCH.warps,
        "num_stages": LAUNCH.stages,
    }


@triton.jit
def _seen(x, row, col, live, WIDE: tl.constexpr, C: tl.constexpr, KP: tl.constexpr):
    """What pixels (row, col) and (row, col + 1) see of a framed image: three rows of four pixels."""
    k = tl.arange(0, KP)
    near = k // (4 * C) * (WIDE * C) + k % (4 * C)
    at = (row * WIDE + col) * C
    return tl.load(x + at[:, None] + near[None, :], live[:, None] & (k < 12 * C)[None, :], 0.0)


@triton.jit
def _taps(taps, C: tl.constexpr, OUT: tl.constexpr, KP: tl.constexpr, OP: tl.constexpr):
    """The weights of one run, (KP, 2 · OP): for both pixels, each output."""
    k = tl.arange(0, KP)
    both = tl.arange(0, 2 * OP)
    pixel, o = both // OP, both % OP
    known = (k < 12 * C)[:, None] & (o < OUT)[None, :]
    return tl.load(taps + k[:, None] * (2 * OUT) + (pixel * OUT + o)[None, :], known, 0.0)


@triton.jit
def _outputs(
    x,
    w,
    start,
    below,
    OUT_H: tl.constexpr,
    OUT_W: tl.constexpr,
    C: tl.constexpr,
    KP: tl.constexpr,
    BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Of both pixels in the upper or lower row of the pooled ones from ``start`` on: what they see, and the
    convolution's outputs. Where there is no pixel both are zero."""
    place = start + tl.arange(0, BLOCK)
    v = _seen(x, place // OUT_W * 2 + below, place % OUT_W * 2, place < OUT_H * OUT_W, 2 * OUT_W + 2, C, KP)
    return v, tl.dot(v, w, input_precision=PRECISION)


@triton.jit
def _passed(
    gradient,
    x,
    w,
    start,
    below,
    mean,
    deviation,
    a,
    b,
    OUT_H: tl.constexpr,
    OUT_W: tl.constexpr,
    C: tl.constexpr,
    OUT: tl.constexpr,
    KP: tl.constexpr,
    OP: tl.constexpr,
    BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Of the same pixels: what they see, their standardised outputs, and the gradients that pass the ReLU."""
    place = start + tl.arange(0, BLOCK)
    o = tl.arange(0, 2 * OP) % OP
    known = (place < OUT_H * OUT_W)[:, None] & (o < OUT)[None, :]
    g = tl.load(gradient + place[:, None] * OUT + o[None, :], known, 0.0).to(tl.float32)
    v, y = _outputs(x, w, start, below, OUT_H, OUT_W, C, KP, BLOCK, PRECISION)
    standard = (y - mean) * deviation
    return v, standard, tl.where(standard * a + b > 0, g / 4, 0.0)


@triton.jit
def _of_both(sums, OP: tl.constexpr):
    """Sums (2 · OP,) of two pixels' outputs as sums of the outputs, for both pixels again."""
    total = tl.sum(tl.reshape(sums, (2, OP)), 0)
    return tl.reshape(tl.broadcast_to(total[None, :], (2, OP)), (2 * OP,))


@triton.jit
def _first(
    x,
    taps,
    scale,
    shift,
    result,
    means,
    deviations,
    count,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    C: tl.constexpr,
    OUT: tl.constexpr,
    KP: tl.constexpr,
    OP: tl.constexpr,
    EPS: tl.constexpr,
    BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    image = tl.program_id(0).to(tl.int64)
    run = image // count
    wide: tl.constexpr = WIDTH + 2
    out_h: tl.constexpr = HEIGHT // 2
    out_w: tl.constexpr = WIDTH // 2
    x += image * ((HEIGHT + 2) * wide * C)
    w = _taps(taps + run * (12 * C * 2 * OUT), C, OUT, KP, OP)
    first = tl.zeros((BLOCK, 2 * OP), tl.float32)
    second = tl.zeros((BLOCK, 2 * OP), tl.float32)
    for start in range(0, out_h * out_w, BLOCK):
        for below in tl.static_range(2):
            _, y = _outputs(x, w, start, below, out_h, out_w, C, KP, BLOCK, PRECISION)
            first += y
            second += y * y
    mean = _of_both(tl.sum(first, 0), OP) / (HEIGHT * WIDTH)
    variance = relu(_of_both(tl.sum(second, 0), OP) / (HEIGHT * WIDTH) - mean * mean)
    deviation = 1 / tl.sqrt(variance + EPS)
    both = tl.arange(0, 2 * OP)
    o = both % OP
    known = o < OUT
    a = tl.load(scale + run * OUT + o, known, 0.0) * deviation
    b = tl.load(shift + run * OUT + o, known, 0.0) - mean * a
    one = tl.arange(0, OP)
    result += image * ((out_h + 2) * (out_w + 2) * OUT)
    for start in range(0, out_h * out_w, BLOCK):
        total = tl.zeros((BLOCK, 2 * OP), tl.float32)
        for below in tl.static_range(2):
            _, y = _outputs(x, w, start, below, out_h, out_w, C, KP, BLOCK, PRECISION)
            total += relu(y * a[None, :] + b[None, :])
        pooled = tl.sum(tl.reshape(total, (BLOCK, 2, OP)), 1) / 4
        place = start + tl.arange(0, BLOCK)
        inside = (place < out_h * out_w)[:, None] & (one < OUT)[None, :]
        at = (place // out_w + 1) * (out_w + 2) + place % out_w + 1
        tl.store(result + at[:, None] * OUT + one[None, :], storable(pooled, result), inside)
    clear_border(result, one, out_h, out_w, OUT, BLOCK)
    tl.store(means + image * OUT + o, mean, known & (both < OP))
    tl.store(deviations + image * OUT + o, deviation, known & (both < OP))


@triton.jit
def _first_back(
    gradient,
    x,
    taps,
    means,
    deviations,
    scale,
    shift,
    partial,
    d_scale,
    d_shift,
    count,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    C: tl.constexpr,
    OUT: tl.constexpr,
    KP: tl.constexpr,
    OP: tl.constexpr,
    BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    image = tl.program_id(0).to(tl.int64)
    run = image // count
    wide: tl.constexpr = WIDTH + 2
    out_h: tl.constexpr = HEIGHT // 2
    out_w: tl.constexpr = WIDTH // 2
    x += image * ((HEIGHT + 2) * wide * C)
    gradient += image * (out_h * out_w * OUT)
    w = _taps(taps + run * (12 * C * 2 * OUT), C, OUT, KP, OP)
    both = tl.arange(0, 2 * OP)
    o = both % OP
    known = o < OUT
    mean = tl.load(means + image * OUT + o, known, 0.0)[None, :]
    deviation = tl.load(deviations + image * OUT + o, known, 0.0)[None, :]
    a = tl.load(scale + run * OUT + o, known, 0.0)[None, :]
    b = tl.load(shift + run * OUT + o, known, 0.0)[None, :]
    first = tl.zeros((BLOCK, 2 * OP), tl.float32)
    second = tl.zeros((BLOCK, 2 * OP), tl.float32)
    for start in range(0, out_h * out_w, BLOCK):
        for below in tl.static_range(2):
            _, standard, passed = _passed(
                gradient, x, w, start, below, mean, deviation, a, b, out_h, out_w, C, OUT, KP, OP, BLOCK, PRECISION
            )
            first += passed
            second += passed * standard
    of_shift, of_scale = _of_both(tl.sum(first, 0), OP), _of_both(tl.sum(second, 0), OP)
    total = tl.zeros((2 * OP, KP), tl.float32)
    for start in range(0, out_h * out_w, BLOCK):
        for below in tl.static_range(2):
            v, standard, passed = _passed(
                gradient, x, w, start, below, mean, deviation, a, b, out_h, out_w, C, OUT, KP, OP, BLOCK, PRECISION
            )
            means_of_all = (of_shift[None, :] + standard * of_scale[None, :]) / (HEIGHT * WIDTH)
            back = storable(a * deviation * (passed - means_of_all), x).to(v.dtype)
            # Where there is no pixel nothing is seen, so those rows add nothing.
            total = tl.dot(tl.trans(back), v, total, input_precision=PRECISION)
    k = tl.arange(0, KP)
    target = partial + ((image * 2 + both // OP) * OUT + o)[:, None] * (12 * C) + k[None, :]
    tl.store(target, total, known[:, None] & (k < 12 * C)[None, :])
    tl.store(d_scale + image * OUT + o, of_scale, known & (both < OP))
    tl.store(d_shift + image * OUT + o, of_shift, known & (both < OP))
