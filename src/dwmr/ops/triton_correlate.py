"""Convolutions of any kernel size, stride and padding of many runs at once, and transposed ones, in Triton kernels.

Images lie with their channels last, so that what a row of taps sees is one stretch of memory, and its ends show
whether it is inside the image. Two kernels serve all passes:

    correlate  a matrix product for each row of taps: the convolution. Its input's gradient, which is a transposed
               convolution, is one correlation for each place that a pixel can have between strides (`_spread`)
    outer      output gradients times inputs, summed over groups of places, then over groups: the weights' gradient;
               and the output gradients alone: the biases'

Products are in TF32, as in `triton_conv`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from dwmr.ops import triton_conv
from dwmr.ops.dispatch import define
from dwmr.ops.triton_conv import check_size, padded_size

Pair = tuple[int, int]

NUMBERS = 64  # of what the taps see, and of outputs, in one step of a program
# How kernels are run: places in one step, warps, and how many steps are read ahead.
CORRELATE = {"BLOCK": 128, "num_warps": 4, "num_stages": 3}
OUTER = {"BLOCK": 64, "num_warps": 4, "num_stages": 3}
OUTSIDE = tl.constexpr(-(2**30))  # where a row of taps is said to begin that is not in the image at all


def _forward(inputs: Sequence[Tensor], form: Sequence[float]) -> list[Tensor]:
    """x (S, N, H, W, C), weight (S, O, C, k, k) and bias (S, O) to (S, N, H', W', O). ``form`` holds stride and
    padding, of rows and of columns."""
    (x, weight, bias), (stride, padding) = inputs, _pairs(form)
    taps = weight.permute(0, 3, 4, 2, 1).contiguous()
    y = _forward_fake(inputs, form)[0]
    _correlate(x.contiguous(), taps, y, bias, step=stride, start=(-padding[0], -padding[1]))
    return [y]


def _backward(
    gradient: Tensor, inputs: Sequence[Tensor], saved: Sequence[Tensor], form: Sequence[float], into_x: bool
) -> list[Tensor]:
    """The gradients of x, if asked for, of the weight and of the bias."""
    (x, weight, _), (stride, padding), arrived = inputs, _pairs(form), gradient.contiguous()
    of_taps, of_bias = _outer(x.contiguous(), arrived, weight.shape[-2:], stride, padding)
    others = [of_taps.permute(0, 4, 3, 1, 2).contiguous(), of_bias]
    return [_spread(arrived, weight, x.new_empty(x.shape), stride, padding), *others] if into_x else others


def _forward_fake(inputs: Sequence[Tensor], form: Sequence[float]) -> list[Tensor]:
    (x, weight, _), (stride, padding) = inputs, _pairs(form)
    sides = [(x.shape[2 + k] + 2 * padding[k] - weight.shape[3 + k]) // stride[k] + 1 for k in (0, 1)]
    return [x.new_empty(*x.shape[:2], *sides, weight.shape[1])]


def _transpose_forward(inputs: Sequence[Tensor], form: Sequence[float]) -> list[Tensor]:
    """x (S, N, H, W, D), weight (S, D, C, k, k) and bias (S, C) to (S, N, H', W', C). ``form`` holds stride, padding
    and output padding."""
    (x, weight, bias), (stride, padding, _) = inputs, _pairs(form)
    result = _transpose_fake(inputs, form)[0]
    return [_spread(x.contiguous(), weight, result, stride, padding) + bias[:, None, None, None]]


def _transpose_backward(
    gradient: Tensor, inputs: Sequence[Tensor], saved: Sequence[Tensor], form: Sequence[float], into_x: bool
) -> list[Tensor]:
    """The gradients of x, if asked for, of the weight and of the bias."""
    (x, weight, _), (stride, padding, _), arrived = inputs, _pairs(form), gradient.contiguous()
    of_taps, _ = _outer(arrived, x.contiguous(), weight.shape[-2:], stride, padding)
    others = [of_taps.permute(0, 4, 3, 1, 2).contiguous(), arrived.sum((1, 2, 3))]
    if not into_x:
        return others
    of_x, taps = x.new_empty(x.shape), weight.permute(0, 3, 4, 2, 1).contiguous()
    _correlate(arrived, taps, of_x, None, step=stride, start=(-padding[0], -padding[1]))
    return [of_x, *others]


def _transpose_fake(inputs: Sequence[Tensor], form: Sequence[float]) -> list[Tensor]:
    (x, weight, _), (stride, padding, more) = inputs, _pairs(form)
    sides = [(x.shape[2 + k] - 1) * stride[k] - 2 * padding[k] + weight.shape[3 + k] + more[k] for k in (0, 1)]
    return [x.new_empty(*x.shape[:2], *sides, weight.shape[2])]


any_conv = define("any_conv", _forward, _backward, _forward_fake)
any_transpose = define("any_transpose", _transpose_forward, _transpose_backward, _transpose_fake)


def _pairs(form: Sequence[float]) -> list[Pair]:
    return [(int(form[k]), int(form[k + 1])) for k in range(0, len(form), 2)]


def _spread(arrived: Tensor, weight: Tensor, result: Tensor, stride: Pair, padding: Pair) -> Tensor:
    """``result`` (S, N, H, W, C), filled with what the outputs (S, N, H', W', O) of a convolution give back to it.

    A pixel meets every stride-th tap only. Which ones these are depends on its place between strides, so each such
    place is a correlation of its own, with the taps turned.
    """
    kernel = weight.shape[-2:]
    if kernel[0] < stride[0] or kernel[1] < stride[1]:
        result.zero_()  # some pixels meet no tap at all
    for row in range(min(stride[0], kernel[0])):
        for col in range(min(stride[1], kernel[1])):
            taps = weight[..., row :: stride[0], col :: stride[1]].flip(3, 4).permute(0, 3, 4, 1, 2).contiguous()
            first = [(tap - pad) % step for tap, pad, step in zip((row, col), padding, stride)]
            start = [
                (pixel + pad - tap) // step - (count - 1)
                for pixel, pad, tap, step, count in zip(first, padding, (row, col), stride, taps.shape[1:3])
            ]
            _correlate(arrived, taps, result, None, step=(1, 1), start=start, first=first, apart=stride)
    return result


def _correlate(
    x: Tensor,
    taps: Tensor,
    result: Tensor,
    bias: Tensor | None,
    *,
    step: Sequence[int],
    start: Sequence[int],
    first: Sequence[int] = (0, 0),
    apart: Sequence[int] = (1, 1),
) -> None:
    """x (S, N, H, W, C) under taps (S, k, k, C, O), into the pixels of ``result`` (S, N, H', W', O) from the ``first``
    on, ``apart`` from each other. The taps begin at ``start`` and go on by a ``step`` for each of these."""
    rows, cols = (-(-(result.shape[2 + k] - first[k]) // apart[k]) for k in (0, 1))
    places, outputs, length = x.shape[1] * rows * cols, taps.shape[-1], taps.shape[2] * taps.shape[3]
    if places <= 0:
        return
    check_size(x, result, len(x))
    sizes = _sizes(taps.shape[1], length, outputs, NUMBERS)
    grid = (triton.cdiv(places, CORRELATE["BLOCK"]), triton.cdiv(outputs, sizes["OP"]), len(x))
    _correlate_kernel[grid](
        *(x, taps, result, result if bias is None else bias.contiguous(), places, rows, cols, x.shape[2]),
        *(step[0], *start, *result.shape[2:4], *first, *apart),
        LINE=x.shape[3] * x.shape[4],
        C=x.shape[4],
        STEP=step[1],
        BIASED=bias is not None,
        **sizes,
        **CORRELATE,
    )


def _sizes(taps: int, length: int, outputs: int, numbers: int) -> dict[str, Any]:
    """What the kernels are told of rows of taps of a length: a step takes several rows at once if they are short."""
    wide = min(numbers, padded_size(length))
    return {
        "TAPS": taps,
        "LENGTH": length,
        "OUT": outputs,
        "WIDE": wide,
        "KP": min(max(numbers, wide), wide * triton.next_power_of_2(taps)),
        "OP": min(NUMBERS, padded_size(outputs)),
        "PRECISION": triton_conv.PRECISION,
    }


def _outer(x: Tensor, arrived: Tensor, kernel: Sequence[int], stride: Pair, padding: Pair) -> tuple[Tensor, Tensor]:
    """The gradient (S, k, k, C, O) of taps that saw x (S, N, H, W, C), from that of their outputs (S, N, H', W', O);
    and the sum of the latter, (S, O)."""
    runs, channels, outputs = len(x), x.shape[4], arrived.shape[4]
    length, places = kernel[1] * channels, arrived[0, ..., 0].numel()
    check_size(x, arrived, runs)
    sizes = _sizes(kernel[0], length, outputs, 2 * NUMBERS)
    at_once, parts = sizes["KP"] // sizes["WIDE"], triton.cdiv(length, sizes["WIDE"])
    steps, wide = triton.cdiv(kernel[0], at_once) * parts, triton.cdiv(outputs, sizes["OP"])
    wanted = triton.cdiv(places, max(1, triton_conv.PROGRAMS // (runs * steps * wide)))
    size = triton.cdiv(wanted, OUTER["BLOCK"]) * OUTER["BLOCK"]
    groups = triton.cdiv(places, size)
    partial = x.new_empty(runs, groups, kernel[0], length, outputs)
    sums = x.new_empty(runs, groups, outputs)
    _outer_kernel[(groups, steps, runs * wide)](
        *(x, arrived, partial, sums, places, size, *arrived.shape[2:4], x.shape[2], stride[0], *padding),
        LINE=x.shape[3] * channels,
        C=channels,
        STEP=stride[1],
        **sizes,
        **OUTER,
    )
    return partial.sum(1).unflatten(2, (kernel[1], channels)), sums.sum(1)


@triton.jit
def _seen(left, line, height, k, LINE: tl.constexpr, LENGTH: tl.constexpr, WIDE: tl.constexpr):
    """Where in an image's row the numbers lie that its taps see, and which of them do: those inside the row."""
    near = tl.where((line >= 0) & (line < height), left, OUTSIDE) + k
    seen = (near >= 0) & (near < LINE)
    if LENGTH % WIDE != 0:
        seen &= k < LENGTH
    return near, seen


@triton.jit(do_not_specialize=["start_row", "start_col", "first_row", "first_col"])
def _correlate_kernel(
    x,
    taps,
    result,
    bias,
    places,
    rows,
    cols,
    height,
    step,
    start_row,
    start_col,
    result_height,
    result_width,
    first_row,
    first_col,
    apart_rows,
    apart_cols,
    LINE: tl.constexpr,
    C: tl.constexpr,
    STEP: tl.constexpr,
    BIASED: tl.constexpr,
    TAPS: tl.constexpr,
    LENGTH: tl.constexpr,
    OUT: tl.constexpr,
    WIDE: tl.constexpr,
    KP: tl.constexpr,
    OP: tl.constexpr,
    BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    run = tl.program_id(2).to(tl.int64)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    image, inside = place // (rows * cols), place % (rows * cols)
    row, col = inside // cols, inside % cols
    images = places // (rows * cols)
    o = tl.program_id(1) * OP + tl.arange(0, OP)
    tap, k = tl.arange(0, KP) // WIDE, tl.arange(0, KP) % WIDE
    x += run * images * height * LINE
    taps += run * (TAPS * LENGTH * OUT)
    top = row * step + start_row
    left = tl.where(place < places, (col * STEP + start_col) * C, OUTSIDE)
    total = tl.zeros((BLOCK, OP), tl.float32)
    for first in range(0, TAPS, KP // WIDE):
        for begin in range(0, LENGTH, WIDE):
            line = top[:, None] + (first + tap)[None, :]
            near, seen = _seen(left[:, None], line, height, (begin + k)[None, :], LINE, LENGTH, WIDE)
            known = (begin + k < LENGTH) & (first + tap < TAPS)
            v = tl.load(x + (image[:, None] * height + line) * LINE + near, seen, 0.0)
            w = tl.load(
                taps + ((first + tap) * LENGTH + begin + k)[:, None] * OUT + o[None, :],
                known[:, None] & (o < OUT)[None, :],
                0.0,
            )
            total = tl.dot(v, w, total, input_precision=PRECISION)
    if BIASED:
        total += tl.load(bias + run * OUT + o, o < OUT, 0.0)[None, :]
    pixel = (image * result_height + first_row + row * apart_rows) * result_width + first_col + col * apart_cols
    target = result + run * images * result_height * result_width * OUT + pixel[:, None] * OUT + o[None, :]
    tl.store(target, total, (place < places)[:, None] & (o < OUT)[None, :])


@triton.jit
def _outer_kernel(
    x,
    arrived,
    partial,
    sums,
    places,
    size,
    rows,
    cols,
    height,
    step,
    padding_rows,
    padding_cols,
    LINE: tl.constexpr,
    C: tl.constexpr,
    STEP: tl.constexpr,
    TAPS: tl.constexpr,
    LENGTH: tl.constexpr,
    OUT: tl.constexpr,
    WIDE: tl.constexpr,
    KP: tl.constexpr,
    OP: tl.constexpr,
    BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    group = tl.program_id(0)
    parts: tl.constexpr = (LENGTH + WIDE - 1) // WIDE
    wide: tl.constexpr = (OUT + OP - 1) // OP
    tap = tl.program_id(1) // parts * (KP // WIDE) + tl.arange(0, KP) // WIDE
    k = tl.program_id(1) % parts * WIDE + tl.arange(0, KP) % WIDE
    run = (tl.program_id(2) // wide).to(tl.int64)
    o = tl.program_id(2) % wide * OP + tl.arange(0, OP)
    images = places // (rows * cols)
    x += run * images * height * LINE
    arrived += run * places * OUT
    total = tl.zeros((KP, OP), tl.float32)
    of_bias = tl.zeros((OP,), tl.float32)
    end = tl.minimum(group * size + size, places)
    for begin in range(group * size, end, BLOCK):
        place = begin + tl.arange(0, BLOCK)
        image, inside = place // (rows * cols), place % (rows * cols)
        left = tl.where(place < end, (inside % cols * STEP - padding_cols) * C, OUTSIDE)
        line = (inside // cols * step - padding_rows)[:, None] + tap[None, :]
        near, seen = _seen(left[:, None], line, height, k[None, :], LINE, LENGTH, WIDE)
        v = tl.load(x + (image[:, None] * height + line) * LINE + near, seen, 0.0)
        g = tl.load(arrived + place[:, None] * OUT + o[None, :], (place < end)[:, None] & (o < OUT)[None, :], 0.0)
        total = tl.dot(tl.trans(v), g, total, input_precision=PRECISION)
        of_bias += tl.sum(g, 0)
    at = run * tl.num_programs(0) + group
    known = ((k < LENGTH) & (tap < TAPS))[:, None] & (o < OUT)[None, :]
    tl.store(partial + (at * TAPS * LENGTH + tap * LENGTH + k)[:, None] * OUT + o[None, :], total, known)
    if tl.program_id(1) == 0:
        tl.store(sums + at * OUT + o, of_bias, o < OUT)
