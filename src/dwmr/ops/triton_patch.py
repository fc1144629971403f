"""Convolutions over disjoint patches (stride = kernel) of many runs at once, and transposed ones, in Triton kernels.

Between an image and its patches' numbers stands one matrix a run, and there are only three things to compute. Patches
are read from the image, and written to it, where they lie; as products of matrices they would be copied first.

    gather   numbers from patches: the convolution, and the gradient of a transposed one's input
    scatter  patches from numbers: the transposed convolution, and the gradient of a convolution's input
    outer    how the matrix gave both: the gradient of either one's weights

Images (S, N, C, H, W) may lie with their columns last, or their channels if these are a power of two. Products are in
TF32, as in `triton_conv`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from dwmr.ops import triton_conv
from dwmr.ops.dispatch import channels_last, define, like
from dwmr.ops.triton_conv import check_size, of_runs, padded_size

NUMBERS = 4096  # of patches in one step of a program


def fits(weight: Tensor) -> bool:
    """Whether weights (O, C, k, k) are square, k a power of two, and small enough for a program's registers.

    Where a number lies is then a matter of shifts. By divisions, k = 3 with five channels last in memory came out wrong
    on an H200 with Triton 3.6, though right in its interpreter.
    """
    height, width = weight.shape[-2:]
    numbers = padded_size(weight[0].numel())
    small = numbers <= 256 and numbers * padded_size(weight.shape[0]) <= 8192
    return height == width and _power_of_two(width) and small


def _conv_forward(inputs: Sequence[Tensor], form: Sequence[float]) -> list[Tensor]:
    """x (S, N, C, H, W), sides divisible by k, with weight (S, O, C, k, k) to (S, N, H / k, W / k, O)."""
    x, weight = _in_order(inputs[0]), of_runs(inputs[1])
    return [_as_image(_gather(x, weight), x, weight)]


def _conv_backward(
    gradient: Tensor, inputs: Sequence[Tensor], saved: Sequence[Tensor], form: Sequence[float], into_x: bool
) -> list[Tensor]:
    """The gradients of x, if asked for, and of the weight, from that of the outputs (S, N, H / k, W / k, O)."""
    x, weight, arrived = _in_order(inputs[0]), of_runs(inputs[1]), gradient.flatten(1, 3).contiguous()
    of_weight = _outer(x, arrived, weight)
    return [_scatter(arrived, weight, torch.empty_like(x)), of_weight] if into_x else [of_weight]


def _transpose_forward(inputs: Sequence[Tensor], form: Sequence[float]) -> list[Tensor]:
    """x (S, N, H, W, D) with weight (S, D, C, k, k) to (S, N, C, k · H, k · W), many channels last in memory."""
    return [_scatter(inputs[0].flatten(1, 3).contiguous(), of_runs(inputs[1]), *_transpose_fake(inputs, form))]


def _transpose_backward(
    gradient: Tensor, inputs: Sequence[Tensor], saved: Sequence[Tensor], form: Sequence[float], into_x: bool
) -> list[Tensor]:
    """The gradients of x, if asked for, and of the weight."""
    gradient, weight = _in_order(gradient), of_runs(inputs[1])
    of_weight = _outer(gradient, inputs[0].flatten(1, 3).contiguous(), weight)
    if not into_x:
        return [of_weight]
    return [_as_image(_gather(gradient, weight), gradient, weight), of_weight]


def _conv_fake(inputs: Sequence[Tensor], form: Sequence[float]) -> list[Tensor]:
    x, weight = inputs
    runs, count, _, height, width = x.shape
    side = weight.shape[-1]
    return [x.new_empty(runs, count, height // side, width // side, weight.shape[1])]


def _conv_fake_gradients(inputs: Sequence[Tensor]) -> list[Tensor]:
    return [torch.empty_like(_in_order(inputs[0])), *like(inputs[1:])]


def _transpose_fake(inputs: Sequence[Tensor], form: Sequence[float]) -> list[Tensor]:
    x, weight = inputs
    runs, count, height, width, _ = x.shape
    channels, side = weight.shape[2:4]
    shape = (runs, count, channels, side * height, side * width)
    return [channels_last(x, shape) if channels >= 16 and _power_of_two(channels) else x.new_empty(shape)]


patch_conv = define("patch_conv", _conv_forward, _conv_backward, _conv_fake, _conv_fake_gradients)
patch_transpose = define("patch_transpose", _transpose_forward, _transpose_backward, _transpose_fake)


def _power_of_two(number: int) -> bool:
    return number & (number - 1) == 0


def _in_order(x: Tensor) -> Tensor:
    """An image in one piece, with its columns last, or its channels where shifts find them: see `fits`."""
    channels_last = _power_of_two(x.shape[2]) and x.permute(0, 1, 3, 4, 2).is_contiguous()
    return x if channels_last or x.is_contiguous() else x.contiguous()


def _as_image(rows: Tensor, image: Tensor, weight: Tensor) -> Tensor:
    """Rows (S, N · R · Q, O) of an image's patches as (S, N, R, Q, O)."""
    _, count, _, height, width = image.shape
    side = weight.shape[-1]
    return rows.unflatten(1, (count, height // side, width // side))


def _gather(x: Tensor, weight: Tensor) -> Tensor:
    """The numbers (S, P, O) of an image's patches."""
    return _multiply(x, weight, None)


def _scatter(rows: Tensor, weight: Tensor, image: Tensor) -> Tensor:
    """The image whose patches the numbers (S, P, O) give."""
    _multiply(image, weight, rows)
    return image


def _multiply(image: Tensor, weight: Tensor, rows: Tensor | None) -> Tensor:
    """Fill an image from the numbers (S, P, O) of its patches or, without any, make these from the image."""
    sizes, patches = _sizes(image, weight)
    numbers = image.new_empty(len(image), patches, weight.shape[1]) if rows is None else rows
    check_size(image, numbers, len(image))
    grid = (triton.cdiv(patches, sizes["BLOCK"]), len(image))
    _multiply_kernel[grid](image, weight, numbers, patches, weight.stride(0), SCATTER=rows is not None, **sizes)
    return numbers


def _outer(x: Tensor, rows: Tensor, weight: Tensor) -> Tensor:
    """Σ over the patches of number times patch, in the weights' shape."""
    sizes, patches = _sizes(x, weight)
    wanted = triton.cdiv(patches, max(1, triton_conv.PROGRAMS // len(x)))
    size = triton.cdiv(wanted, sizes["BLOCK"]) * sizes["BLOCK"]
    groups = triton.cdiv(patches, size)
    partial = x.new_empty(len(x), groups, *weight.shape[1:])
    _outer_kernel[(groups, len(x))](x, rows, partial, patches, size, **sizes)
    return partial.sum(1)


def _sizes(x: Tensor, weight: Tensor) -> tuple[dict[str, Any], int]:
    """What the kernels are compiled for, and the number of patches a run."""
    _, count, channels, height, width = x.shape
    outputs, side = weight.shape[1], weight.shape[-1]
    wide = padded_size(channels * side * side)
    sizes: dict[str, Any] = {
        "C": channels,
        "HEIGHT": height,
        "WIDTH": width,
        "SIDE": side,
        "OUT": outputs,
        "KP": wide,
        "OP": padded_size(outputs),
        "LAST": not x.is_contiguous(),
        "BLOCK": min(64, max(16, NUMBERS // wide)),
        "PRECISION": triton_conv.PRECISION,
        "num_warps": 4,
    }
    return sizes, count * (height // side) * (width // side)


@triton.jit
def _tap(C: tl.constexpr, SIDE: tl.constexpr, KP: tl.constexpr, LAST: tl.constexpr):
    """Channel, row and column in its patch of each number, those that are neighbours in memory side by side."""
    k = tl.arange(0, KP)
    if LAST:
        c, i, j = k % C, k // (C * SIDE), k // C % SIDE
    else:
        c, i, j = k // (SIDE * SIDE), k // SIDE % SIDE, k % SIDE
    return c, i, j, k < C * SIDE * SIDE


@triton.jit
def _places(
    patch,
    C: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    SIDE: tl.constexpr,
    KP: tl.constexpr,
    LAST: tl.constexpr,
):
    """Where the numbers of patches lie in a run's images, (patches, KP)."""
    c, i, j, _ = _tap(C, SIDE, KP, LAST)
    down: tl.constexpr = HEIGHT // SIDE
    across: tl.constexpr = WIDTH // SIDE
    image, row, col = patch // (down * across), patch // across % down * SIDE, patch % across * SIDE
    if LAST:
        corner = ((image * HEIGHT + row) * WIDTH + col) * C
        inside = (i * WIDTH + j) * C + c
    else:
        corner = image * (C * HEIGHT * WIDTH) + row * WIDTH + col
        inside = (c * HEIGHT + i) * WIDTH + j
    return corner[:, None] + inside[None, :]


@triton.jit
def _matrix(
    weight,
    C: tl.constexpr,
    SIDE: tl.constexpr,
    OUT: tl.constexpr,
    KP: tl.constexpr,
    OP: tl.constexpr,
    LAST: tl.constexpr,
):
    """One run's weights (O, C, k, k) as (KP, OP)."""
    c, i, j, known = _tap(C, SIDE, KP, LAST)
    o = tl.arange(0, OP)
    at = ((c * SIDE + i) * SIDE + j)[:, None] + o[None, :] * (C * SIDE * SIDE)
    return tl.load(weight + at, known[:, None] & (o < OUT)[None, :], 0.0)


@triton.jit
def _multiply_kernel(
    image,
    weight,
    rows,
    patches,
    run_weight,
    SCATTER: tl.constexpr,
    C: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    SIDE: tl.constexpr,
    OUT: tl.constexpr,
    KP: tl.constexpr,
    OP: tl.constexpr,
    LAST: tl.constexpr,
    BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    run = tl.program_id(1).to(tl.int64)
    patch = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = patch < patches
    o = tl.arange(0, OP)
    _, _, _, known = _tap(C, SIDE, KP, LAST)
    inside = live[:, None] & known[None, :]
    made = live[:, None] & (o < OUT)[None, :]
    place = image + run * patches * (C * SIDE * SIDE) + _places(patch, C, HEIGHT, WIDTH, SIDE, KP, LAST)
    row = rows + run * patches * OUT + patch[:, None] * OUT + o[None, :]
    w = _matrix(weight + run * run_weight, C, SIDE, OUT, KP, OP, LAST)
    if SCATTER:
        y = tl.load(row, made, 0.0)
        tl.store(place, tl.dot(y, tl.trans(w), input_precision=PRECISION), inside)
    else:
        v = tl.load(place, inside, 0.0)
        tl.store(row, tl.dot(v, w, input_precision=PRECISION), made)


@triton.jit
def _outer_kernel(
    x,
    rows,
    partial,
    patches,
    size,
    C: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    SIDE: tl.constexpr,
    OUT: tl.constexpr,
    KP: tl.constexpr,
    OP: tl.constexpr,
    LAST: tl.constexpr,
    BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    group, run = tl.program_id(0), tl.program_id(1).to(tl.int64)
    o = tl.arange(0, OP)
    c, i, j, known = _tap(C, SIDE, KP, LAST)
    x += run * patches * (C * SIDE * SIDE)
    rows += run * patches * OUT
    total = tl.zeros((OP, KP), tl.float32)
    end = tl.minimum(group * size + size, patches)
    for start in range(group * size, end, BLOCK):
        patch = start + tl.arange(0, BLOCK)
        live = patch < end
        y = tl.load(rows + patch[:, None] * OUT + o[None, :], live[:, None] & (o < OUT)[None, :], 0.0)
        v = tl.load(x + _places(patch, C, HEIGHT, WIDTH, SIDE, KP, LAST), live[:, None] & known[None, :], 0.0)
        total = tl.dot(tl.trans(y), v, total, input_precision=PRECISION)
    at = ((c * SIDE + i) * SIDE + j)[None, :] + o[:, None] * (C * SIDE * SIDE)
    target = partial + (run * tl.num_programs(0) + group) * (OUT * C * SIDE * SIDE) + at
    tl.store(target, total, (o < OUT)[:, None] & known[None, :])
