"""3×3 convolutions of many runs at once in Triton kernels.

Stock convolutions are slow on images and channels as small as ours. Here activations lie with channels last and a
border of zeros, so that the taps of a row are neighbouring numbers; where there are few channels, two neighbouring
pixels are made at once from the four columns they see, which fills the matrix units:

    convolve         a matrix product for each tap or row of taps; with turned weights, the input's gradient
    weight_gradient  output gradients times inputs, summed over groups of pixels, then over groups

`triton_blocks` makes whole networks of them. Products use the matrix units in TF32, as stock
convolutions do by default. Half precision has as many digits, at half the bytes: between the layers the networks'
activations and gradients lie in it (`STORAGE`), while sums are in single precision. Since gradients are small, each
run's are multiplied by a power of two on the way (`scaled`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from dwmr.errors import InputError
from dwmr.ops.dispatch import all_channels_last, define
from dwmr.ops.triton_norm import storable

STORAGE = torch.float16  # of activations and gradients between layers
PRECISION = "tf32"  # of products where they are stored in single precision
PROGRAMS = 1056  # a few for each multiprocessor of the largest GPUs


# How kernels are run: places in one step, warps, and how many steps are read ahead. This was quickest on an H200 over
# the 8-puzzle's shapes, ten runs, in half precision.
CONVOLVE = {"BLOCK": 128, "num_warps": 4, "num_stages": 3}
CONVOLVE_TWO = {"BLOCK": 128, "num_warps": 4, "num_stages": 1}
GRADIENT = {"BLOCK": 32, "num_warps": 2, "num_stages": 3}
GRADIENT_APART = {"BLOCK": 32, "num_warps": 4, "num_stages": 3}


def _sizes(x: Tensor, outputs: int, side: int, launch: dict[str, int]) -> dict[str, Any]:
    """What the kernels are told of images x (S·N, H + 2, W + 2, C)."""
    return {
        "HEIGHT": x.shape[1] - 2,
        "WIDTH": x.shape[2] - 2,
        "C": x.shape[3],
        "OUT": outputs,
        "SIDE": side,
        "OP": padded_size(outputs),
        "PRECISION": PRECISION,
        **launch,
    }


def of_runs(weight: Tensor) -> Tensor:
    """Weights (S, …) with each run's in one piece, wherever the runs lie: as in a flat tensor of all weights."""
    return weight if weight[0].is_contiguous() else weight.contiguous()


def framed(x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Images (N, H, W, C) with a border of zeros."""
    count, height, width, channels = x.shape
    result = x.new_zeros(count, height + 2, width + 2, channels, dtype=dtype)
    result[:, 1:-1, 1:-1] = x
    return result


def scaled(gradient: Tensor, result: Tensor) -> Tensor | None:
    """Write a gradient (S, …) as it is stored, and return what each run's was multiplied by, (S,): its largest number
    is between one and two then, far from both ends of half precision, unless it is below 1e-30."""
    if gradient.dtype == STORAGE:
        result.copy_(gradient)
        return None
    largest = torch.linalg.vector_norm(gradient, float("inf"), tuple(range(1, gradient.dim()))).clamp_min(1e-30)
    factor = torch.exp2(-torch.floor(torch.log2(largest)))
    torch.mul(gradient, factor.view(-1, *[1] * (gradient.dim() - 1)), out=result)
    return factor


def unscaled(gradient: Tensor, factor: Tensor | None) -> Tensor:
    """A gradient (S, …) as it would be without the factors."""
    return gradient if factor is None else gradient / factor.view(-1, *[1] * (gradient.dim() - 1))


def convolve(x: Tensor, weight: Tensor, transposed: bool = False, copies: bool = False) -> Tensor:
    """x (S·N, H + 2, W + 2, C) with weight (S, O, C, 3, 3) to (S·N, H, W, O); ``transposed`` maps O channels to C.
    Where the outputs are those of four ``copies`` of a pixel, 2×2, they are put there: (S·N, 2 · H, 2 · W, O / 4)."""
    images, height, width, channels = x.shape[0], x.shape[1] - 2, x.shape[2] - 2, x.shape[3]
    runs, outputs = len(weight), weight.shape[2] if transposed else weight.shape[1]
    shape = (2 * height, 2 * width, outputs // 4) if copies else (height, width, outputs)
    result = x.new_empty(images, *shape)
    side = _pixels_at_once(width, channels, outputs)
    taps = _laid_out(weight, transposed, side, x.dtype)
    places = images // runs * height * (width // side)
    steps = 1 if channels == 1 else 9 if side == 1 and channels >= 16 else 3
    launch = CONVOLVE_TWO if side == 2 and channels > 1 else CONVOLVE
    check_size(x, result, runs)
    k = taps.shape[1] // steps
    more = {"K": k, "KP": padded_size(k), "COPIES": copies, "STEPS": steps}
    grid = (triton.cdiv(places, launch["BLOCK"]), runs)
    _convolve[grid](x, taps, result, places, **_sizes(x, side * outputs, side, launch), **more)
    return result


def _conv3x3_forward(inputs: Sequence[Tensor], form: Sequence[float]) -> list[Tensor]:
    """x (S, N, C, H, W) with weight (S, O, C, 3, 3) to (S, N, H, W, O); and x with a border of zeros."""
    x, weight = inputs
    wide = framed(x.flatten(0, 1).permute(0, 2, 3, 1))
    return [convolve(wide, weight.contiguous()).unflatten(0, x.shape[:2]), wide.unflatten(0, x.shape[:2])]


def _conv3x3_backward(
    gradient: Tensor, inputs: Sequence[Tensor], saved: Sequence[Tensor], form: Sequence[float], into_x: bool
) -> list[Tensor]:
    """The gradients of x, if asked for, and of the weight."""
    back, weight, wide = framed(gradient.flatten(0, 1)), inputs[1].contiguous(), saved[0].flatten(0, 1)
    of_weight = weight_gradient(wide, back, weight.shape)
    if not into_x:
        return [of_weight]
    of_x = convolve(back, weight, transposed=True).unflatten(0, gradient.shape[:2])
    return [of_x.permute(0, 1, 4, 2, 3), of_weight]


def _conv3x3_fake(inputs: Sequence[Tensor], form: Sequence[float]) -> list[Tensor]:
    x, weight = inputs
    runs, count, channels, height, width = x.shape
    wide = x.new_empty(runs, count, height + 2, width + 2, channels)
    return [x.new_empty(runs, count, height, width, weight.shape[1]), wide]


conv3x3 = define("conv3x3", _conv3x3_forward, _conv3x3_backward, _conv3x3_fake, all_channels_last)


def check_size(x: Tensor, other: Tensor, runs: int) -> None:
    """The kernels count the numbers of one run in 32 bits."""
    if max(x.numel(), other.numel()) // runs >= 2**31:
        raise InputError("the images of one minibatch are too many or too large: take fewer, or smaller ones")


def _pixels_at_once(width: int, channels: int, outputs: int) -> int:
    """Two neighbouring pixels where one would leave half of a product empty."""
    return 2 if width % 2 == 0 and min(channels, outputs) < 16 else 1


def padded_size(size: int) -> int:
    """The sides of a product are powers of two, 16 at least."""
    return max(16, triton.next_power_of_2(size))


def _laid_out(weight: Tensor, transposed: bool, side: int, dtype: torch.dtype) -> Tensor:
    """Weights (S, O, C, 3, 3) as the products take them, (S, 3 · (2 + side) · C, side · O): for each of the columns
    that ``side`` neighbouring pixels see, what it gives to each of them. ``transposed`` exchanges O and C and turns
    the taps."""
    runs, outputs, channels = weight.shape[:3]
    weight = of_runs(weight)
    if transposed:
        outputs, channels = channels, outputs
    result = weight.new_empty(runs, 3 * (2 + side) * channels, side * outputs, dtype=dtype)
    _lay_out[(triton.cdiv(result.numel(), 1024),)](
        weight, result, result.numel(), weight.stride(0), C=channels, OUT=outputs, SIDE=side, TRANSPOSED=transposed
    )
    return result


@triton.jit
def _lay_out(
    weight, result, size, run_weight, C: tl.constexpr, OUT: tl.constexpr, SIDE: tl.constexpr, TRANSPOSED: tl.constexpr
):
    at = tl.program_id(0) * 1024 + tl.arange(0, 1024)
    pixel, o = at // OUT % SIDE, at % OUT
    tap = at // (OUT * SIDE)
    c, column, dy, run = tap % C, tap // C % (2 + SIDE), tap // (C * (2 + SIDE)) % 3, tap // (C * (2 + SIDE) * 3)
    run = run.to(tl.int64)
    dx = column - pixel
    if TRANSPOSED:
        place = run * run_weight + (c * OUT + o) * 9 + (2 - dy) * 3 + 2 - dx
    else:
        place = run * run_weight + (o * C + c) * 9 + dy * 3 + dx
    seen = (dx >= 0) & (dx < 3)
    tl.store(result + at, tl.load(weight + place, (at < size) & seen, 0.0), at < size)


@triton.jit
def _convolve(
    x,
    taps,
    result,
    places,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    C: tl.constexpr,
    OUT: tl.constexpr,
    SIDE: tl.constexpr,
    COPIES: tl.constexpr,
    STEPS: tl.constexpr,
    K: tl.constexpr,
    KP: tl.constexpr,
    OP: tl.constexpr,
    BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    run = tl.program_id(1).to(tl.int64)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = place < places
    across: tl.constexpr = WIDTH // SIDE
    wide: tl.constexpr = WIDTH + 2
    image, inside = place // (HEIGHT * across), place % (HEIGHT * across)
    x += run * (places // (HEIGHT * across)) * ((HEIGHT + 2) * wide * C)
    corner = x + (image * ((HEIGHT + 2) * wide) + inside // across * wide + inside % across * SIDE)[:, None] * C
    k = tl.arange(0, KP)
    o = tl.arange(0, OP)
    known = (k < K)[:, None] & (o < OUT)[None, :]
    taps += run * (STEPS * K * OUT) + k[:, None] * OUT + o[None, :]
    total = tl.zeros((BLOCK, OP), tl.float32)
    if STEPS == 1:
        near = k // (2 + SIDE) * wide + k % (2 + SIDE)
        v = tl.load(corner + near[None, :], live[:, None] & (k < K)[None, :], 0.0)
        total = tl.dot(v, tl.load(taps, known, 0.0), total, input_precision=PRECISION)
    else:
        for step in range(STEPS):
            near = step // 3 * wide + step % 3 if STEPS == 9 else step * wide
            v = tl.load(corner + (near * C + k)[None, :], live[:, None] & (k < K)[None, :], 0.0)
            w = tl.load(taps + step * (K * OUT), known, 0.0)
            total = tl.dot(v, w, total, input_precision=PRECISION)
    result += run * places * OUT
    if COPIES:
        # o counts pixels, the two rows of copies of each, in a row the two copies, and of each the outputs
        row = (2 * (place // across))[:, None] + (o // (OUT // SIDE // 2) % 2)[None, :]
        col = 2 * SIDE * (place % across)[:, None] + (o // (OUT // SIDE) * 2)[None, :]
        target = result + (row * (2 * WIDTH) + col) * (OUT // SIDE // 4) + (o % (OUT // SIDE // 2))[None, :]
    else:
        target = result + place[:, None] * OUT + o[None, :]
    tl.store(target, storable(total, result), live[:, None] & (o < OUT)[None, :])


def weight_gradient(x: Tensor, arrived: Tensor, shape: torch.Size) -> Tensor:
    """Gradient (S, O, C, 3, 3) from inputs (S·N, H + 2, W + 2, C) and output gradients (S·N, H + 2, W + 2, O)."""
    images, height, width, channels = x.shape[0], x.shape[1] - 2, x.shape[2] - 2, x.shape[3]
    runs, outputs = shape[:2]
    side = _pixels_at_once(width, channels, outputs)
    places = images // runs * height * (width // side)
    row = (2 + side) * channels  # numbers in a row of taps
    taps, rows = padded_size(3 * row if channels == 1 else row), padded_size(side * outputs)
    apart = channels > 1 and taps * rows > 4096  # three sums of that size do not fit one program's registers
    wanted = triton.cdiv(places, max(1, PROGRAMS // (3 * runs if apart else runs)))
    launch = GRADIENT_APART if apart else GRADIENT
    size = triton.cdiv(wanted, launch["BLOCK"]) * launch["BLOCK"]
    groups = triton.cdiv(places, size)
    check_size(x, arrived, runs)
    partial = x.new_empty(runs, groups, side, outputs, 3, 2 + side, channels, dtype=torch.float32)
    sizes = _sizes(x, outputs, side, launch) | {"KP": taps, "OP": rows, "APART": apart}
    _weight_gradient[(groups, 3 if apart else 1, runs)](x, arrived, partial, places, size, **sizes)
    return _of_one_pixel(partial.sum(1))


def _of_one_pixel(gradient: Tensor) -> Tensor:
    """From the gradients (S, side, O, 3, 2 + side, C) of taps as neighbouring pixels see them to (S, O, C, 3, 3)."""
    first, last = gradient[:, 0, :, :, :3], gradient[:, -1, :, :, -3:]
    return (first + last if gradient.shape[1] == 2 else first).permute(0, 1, 4, 2, 3)


@triton.jit
def _weight_gradient(
    x,
    arrived,
    partial,
    places,
    size,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    C: tl.constexpr,
    OUT: tl.constexpr,
    SIDE: tl.constexpr,
    KP: tl.constexpr,
    OP: tl.constexpr,
    BLOCK: tl.constexpr,
    APART: tl.constexpr,
    PRECISION: tl.constexpr,
):
    group = tl.program_id(0)
    first = tl.program_id(1)  # the row of taps that a program sums, where they are summed apart
    run = tl.program_id(2).to(tl.int64)
    k = tl.arange(0, KP)
    o = tl.arange(0, OP)
    top = tl.zeros((OP, KP), tl.float32)
    middle = tl.zeros((OP, KP), tl.float32)
    bottom = tl.zeros((OP, KP), tl.float32)
    across: tl.constexpr = WIDTH // SIDE
    wide: tl.constexpr = WIDTH + 2
    taps: tl.constexpr = 3 * (2 + SIDE) if C == 1 else (2 + SIDE) * C
    images = places // (HEIGHT * across)
    x += run * images * ((HEIGHT + 2) * wide * C)
    arrived += run * images * ((HEIGHT + 2) * wide * OUT)
    end = tl.minimum(group * size + size, places)
    for start in range(group * size, end, BLOCK):
        place = start + tl.arange(0, BLOCK)
        live = place < end
        image, inside = place // (HEIGHT * across), place % (HEIGHT * across)
        r, c = inside // across, inside % across * SIDE
        at = image * ((HEIGHT + 2) * wide) + r * wide + c
        own = arrived + (at + wide + 1)[:, None] * OUT
        g = tl.trans(tl.load(own + o[None, :], live[:, None] & (o < SIDE * OUT)[None, :], 0.0))
        corner = x + at[:, None] * C
        known = live[:, None] & (k < taps)[None, :]
        if C == 1:
            near = k // (2 + SIDE) * wide + k % (2 + SIDE)
            top = tl.dot(g, tl.load(corner + near[None, :], known, 0.0), top, input_precision=PRECISION)
        elif APART:
            v = tl.load(corner + (first * wide * C + k)[None, :], known, 0.0)
            top = tl.dot(g, v, top, input_precision=PRECISION)
        else:
            near = corner + k[None, :]
            top = tl.dot(g, tl.load(near, known, 0.0), top, input_precision=PRECISION)
            middle = tl.dot(g, tl.load(near + wide * C, known, 0.0), middle, input_precision=PRECISION)
            bottom = tl.dot(g, tl.load(near + 2 * wide * C, known, 0.0), bottom, input_precision=PRECISION)
    length: tl.constexpr = 3 * (2 + SIDE) * C
    target = partial + ((run * tl.num_programs(0) + group) * (SIDE * OUT) + o)[:, None] * length + k[None, :]
    known = (k < taps)[None, :] & (o < SIDE * OUT)[:, None]
    if C == 1:
        tl.store(target, top, known)
    elif APART:
        tl.store(target + first * taps, top, known)
    else:
        tl.store(target, top, known)
        tl.store(target + taps, middle, known)
        tl.store(target + 2 * taps, bottom, known)
