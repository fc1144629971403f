"""The blocks of `dwmr.ops.conv_decoder` on the kernels of `triton_conv`, for several runs at once.

Doubling an image's sides by copying its pixels and then convolving it 3×3 is a convolution of the small image: the four
copies of a pixel see 2×2 small pixels each, through taps that are sums of the nine (`doubled_taps`). So nothing is
enlarged but the results, and the four copies fill the matrix units where there are few channels.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from dwmr.ops import triton_conv
from dwmr.ops.triton_conv import convolve, framed, of_runs, scaled, unscaled, weight_gradient
from dwmr.ops.triton_norm import normalize, normalize_back


def decoder_forward(inputs: Sequence[Tensor], doubles: Sequence[float]) -> list[Tensor]:
    """x (S, N, H, W, C) to images (S, N, H', W', O), and of each block its input, and its convolution and moments.

    ``inputs`` are x, the bias and the parameters: taps, scale and shift of each block, taps of the last convolution.
    """
    x, bias, *parameters = inputs
    lead = x.shape[:2]
    x = y = framed(x.flatten(0, 1), triton_conv.STORAGE)
    saved: list[Tensor] = []
    for place, double in enumerate(doubles):
        weight, *norm = (of_runs(tensor) for tensor in parameters[3 * place : 3 * place + 3])
        y = convolve(x, weight, copies=bool(double))
        saved.append(x)
        if norm:
            scale, shift = norm
            x, moments = normalize(y, scale, shift, pool=False)
            saved += [y, moments]
    return [y.unflatten(0, lead) + bias[:, None, None, None], *(each.unflatten(0, lead) for each in saved)]


def decoder_backward(
    gradient: Tensor, inputs: Sequence[Tensor], saved: Sequence[Tensor], doubles: Sequence[float], into_x: bool
) -> list[Tensor]:
    """The gradients of x, if asked for, the bias and the parameters, from that of the images."""
    parameters = inputs[2:]
    back, inside, parts = _framed_parts(gradient, doubles[-1])
    factor = scaled(parts, inside)
    arrived = back
    rest = [each.flatten(0, 1) for each in saved]
    found: list[Tensor] = []
    for place, double in reversed(list(enumerate(doubles))):
        weight, *norm = (of_runs(tensor) for tensor in parameters[3 * place : 3 * place + 3])
        of_norm: list[Tensor] = []
        if norm:
            moments, y = rest.pop(), rest.pop()
            scale, shift = norm
            back, *of_norm = normalize_back(arrived, y, moments, scale, shift, pool=False, copies=bool(double))
        found = [weight_gradient(rest.pop(), back, weight.shape), *of_norm, *found]
        arrived = convolve(back, weight, transposed=True)
    of_x = unscaled(arrived.unflatten(0, gradient.shape[:2]), factor)
    found = [gradient.sum((1, 2, 3)), *(unscaled(each, factor) for each in found)]
    return [of_x, *found] if into_x else found


def decoder_shapes(inputs: Sequence[Tensor], doubles: Sequence[float]) -> list[Tensor]:
    """Empty tensors of the shapes that `decoder_forward` returns."""
    x, _, *parameters = inputs
    runs, count, height, width, channels = x.shape
    storage = triton_conv.STORAGE
    saved: list[Tensor] = []
    for place, double in enumerate(doubles):
        saved.append(x.new_empty(runs, count, height + 2, width + 2, channels, dtype=storage))
        height, width = (2 * height, 2 * width) if double else (height, width)
        channels = parameters[3 * place].shape[1] // (4 if double else 1)
        if place + 1 < len(doubles):
            saved.append(x.new_empty(runs, count, height, width, channels, dtype=storage))
            saved.append(x.new_empty(runs, count, 2, channels))
    return [x.new_empty(runs, count, height, width, channels), *saved]


def _framed_parts(gradient: Tensor, copies: float) -> tuple[Tensor, Tensor, Tensor]:
    """Zeros to hold a gradient (S, N, H, W, O) with a border, (S·N, H + 2, W + 2, O), or where 2×2 pixels are copies
    of one (S·N, H / 2 + 2, W / 2 + 2, 4 · O); and two views of one shape, of what is inside and of the gradient."""
    apart = 2 if copies else 1
    parts = gradient.unflatten(3, (-1, apart)).unflatten(2, (-1, apart))
    runs, count, height, _, width, _, outputs = parts.shape
    frame = gradient.new_zeros(runs * count, height + 2, width + 2, apart**2 * outputs, dtype=triton_conv.STORAGE)
    inside = frame[:, 1:-1, 1:-1].unflatten(-1, (apart, apart, outputs)).unflatten(0, (runs, count))
    return frame, inside.permute(0, 1, 2, 4, 3, 5, 6), parts
