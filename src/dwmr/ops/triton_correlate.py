"""Convolutions of any kernel size, stride and padding of many runs at once, and transposed ones, in Triton kernels.

Images lie with their channels last, so that what a row of taps sees is one stretch of memory, and its ends show
whether it is inside the image. Two kernels serve all passes:

    correlate  a matrix product for each row of taps: the convolution. Its input's gradient, which is a transposed
               convolution, is one correlation for each place that a pixel can have between strides (`_spread`)
    outer      output gradients times inputs, summed over groups of places, then over groups: the weights' gradient

Products are in TF32, as in `triton_conv`.
"""

from __future__ import annotations

from collections.abc import Sequence

import triton
import triton.language as tl
from torch import Tensor

from dwmr.ops import triton_conv
from dwmr.ops.dispatch import define
from dwmr.ops.triton_conv import check_size, padded_size

Pair = tuple[int, int]

PLACES = 128  # of outputs in one program
NUMBERS = 64  # of inputs, or of outputs, in one step of a program


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
    of_weight = _outer(x.contiguous(), arrived, weight.shape[-2:], stride, padding).permute(0, 4, 3, 1, 2)
    others = [of_weight.contiguous(), arrived.sum((1, 2, 3))]
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
    of_weight = _outer(arrived, x.contiguous(), weight.shape[-2:], stride, padding).permute(0, 4, 3, 1, 2)
    others = [of_weight.contiguous(), arrived.sum((1, 2, 3))]
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
    wide = min(NUMBERS, padded_size(outputs))
    grid = (triton.cdiv(places, PLACES), triton.cdiv(outputs, wide), len(x))
    _correlate_kernel[grid](
        *(x, taps, result, result if bias is None else bias.contiguous(), places, rows, cols, x.shape[2]),
        *(step[0], start[0], start[1], *result.shape[2:4], *first, *apart),
        LINE=x.shape[3] * x.shape[4],
        C=x.shape[4],
        STEP=step[1],
        TAPS=taps.shape[1],
        LENGTH=length,
        OUT=outputs,
        BIASED=bias is not None,
        BLOCK=PLACES,
        KP=min(NUMBERS, padded_size(length)),
        OP=wide,
        PRECISION=triton_conv.PRECISION,
        num_warps=4,
    )


def _outer(x: Tensor, arrived: Tensor, kernel: Sequence[int], stride: Pair, padding: Pair) -> Tensor:
    """The gradient (S, k, k, C, O) of taps that saw x (S, N, H, W, C), from that of their outputs (S, N, H', W', O)."""
    runs, channels, outputs = len(x), x.shape[4], arrived.shape[4]
    length, places = kernel[1] * channels, arrived[0, ..., 0].numel()
    check_size(x, arrived, runs)
    sizes = {"KP": min(2 * NUMBERS, padded_size(length)), "OP": min(NUMBERS, padded_size(outputs))}
    blocks, wide = triton.cdiv(length, sizes["KP"]), triton.cdiv(outputs, sizes["OP"])
    wanted = triton.cdiv(places, max(1, triton_conv.PROGRAMS // (runs * kernel[0] * blocks * wide)))
    size = triton.cdiv(wanted, 32) * 32
    groups = triton.cdiv(places, size)
    partial = x.new_empty(runs, groups, kernel[0], length, outputs)
    _outer_kernel[(groups, kernel[0] * blocks, runs * wide)](
        *(x, arrived, partial, places, size, *arrived.shape[2:4], x.shape[2], stride[0], padding[0], padding[1]),
        LINE=x.shape[3] * channels,
        C=channels,
        STEP=stride[1],
        TAPS=kernel[0],
        LENGTH=length,
        OUT=outputs,
        BLOCK=32,
        PRECISION=triton_conv.PRECISION,
        num_warps=4,
        **sizes,
    )
    return partial.sum(1).unflatten(2, (kernel[1], channels))


@triton.jit
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
    TAPS: tl.constexpr,
    LENGTH: tl.constexpr,
    OUT: tl.constexpr,
    BIASED: tl.constexpr,
    BLOCK: tl.constexpr,
    KP: tl.constexpr,
    OP: tl.constexpr,
    PRECISION: tl.constexpr,
):
    run = tl.program_id(2).to(tl.int64)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = place < places
    image, inside = place // (rows * cols), place % (rows * cols)
    row, col = inside // cols, inside % cols
    images = places // (rows * cols)
    o = tl.program_id(1) * OP + tl.arange(0, OP)
    k = tl.arange(0, KP)
    x += run * images * height * LINE
    taps += run * (TAPS * LENGTH * OUT)
    top = row * step + start_row
    left = col * STEP * C + start_col * C  # of the stretch that a row of taps sees, in the image's row
    total = tl.zeros((BLOCK, OP), tl.float32)
    for tap in range(TAPS):
        line = top + tap
        known = live & (line >= 0) & (line < height)
        at = (image * height + line) * LINE + left
        for begin in range(0, LENGTH, KP):
            near = left[:, None] + (begin + k)[None, :]
            seen = known[:, None] & (near >= 0) & (near < LINE) & (begin + k < LENGTH)[None, :]
            v = tl.load(x + at[:, None] + (begin + k)[None, :], seen, 0.0)
            w = tl.load(
                taps + (tap * LENGTH + begin + k)[:, None] * OUT + o[None, :],
                (begin + k < LENGTH)[:, None] & (o < OUT)[None, :],
                0.0,
            )
            total = tl.dot(v, w, total, input_precision=PRECISION)
    if BIASED:
        total += tl.load(bias + run * OUT + o, o < OUT, 0.0)[None, :]
    pixel = (image * result_height + first_row + row * apart_rows) * result_width + first_col + col * apart_cols
    target = result + (run * images * result_height * result_width + pixel)[:, None] * OUT + o[None, :]
    tl.store(target, total, live[:, None] & (o < OUT)[None, :])


@triton.jit
def _outer_kernel(
    x,
    arrived,
    partial,
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
    BLOCK: tl.constexpr,
    KP: tl.constexpr,
    OP: tl.constexpr,
    PRECISION: tl.constexpr,
):
    group = tl.program_id(0)
    blocks: tl.constexpr = (LENGTH + KP - 1) // KP
    wide: tl.constexpr = (OUT + OP - 1) // OP
    tap = tl.program_id(1) // blocks
    k = tl.program_id(1) % blocks * KP + tl.arange(0, KP)
    run = (tl.program_id(2) // wide).to(tl.int64)
    o = tl.program_id(2) % wide * OP + tl.arange(0, OP)
    images = places // (rows * cols)
    x += run * images * height * LINE
    arrived += run * places * OUT
    total = tl.zeros((KP, OP), tl.float32)
    end = tl.minimum(group * size + size, places)
    for begin in range(group * size, end, BLOCK):
        place = begin + tl.arange(0, BLOCK)
        live = place < end
        image, inside = place // (rows * cols), place % (rows * cols)
        line = inside // cols * step - padding_rows + tap
        left = inside % cols * STEP * C - padding_cols * C
        near = left[:, None] + k[None, :]
        seen = (live & (line >= 0) & (line < height))[:, None] & (near >= 0) & (near < LINE) & (k < LENGTH)[None, :]
        v = tl.load(x + ((image * height + line) * LINE)[:, None] + near, seen, 0.0)
        g = tl.load(arrived + place[:, None] * OUT + o[None, :], live[:, None] & (o < OUT)[None, :], 0.0)
        total = tl.dot(tl.trans(v), g, total, input_precision=PRECISION)
    target = partial + ((run * tl.num_programs(0) + group) * TAPS + tap) * (LENGTH * OUT)
    tl.store(target + k[:, None] * OUT + o[None, :], total, (k < LENGTH)[:, None] & (o < OUT)[None, :])
