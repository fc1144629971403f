"""Any convolution of several runs, transposed or not: PyTorch's own, one run after the other.

As one grouped convolution, which is how `torch.vmap` maps it, it would be slower on images and channels as small as
ours. All else of the runs' networks stays one program.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from dwmr.ops.dispatch import channels_last, define

Pair = tuple[int, int]


def convolve(
    x: Tensor,
    weight: Tensor,
    *,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
    transposed: bool = False,
    output_padding: Pair = (0, 0),
) -> Tensor:
    """x (N, C, H, W) with the weight of `torch.conv2d` or, transposed, of `torch.conv_transpose2d`."""
    form = [*stride, *padding, *dilation, *output_padding, groups, transposed]
    return conv_runs([x, weight], form)[0]


def _forward(inputs: Sequence[Tensor], form: Sequence[float]) -> list[Tensor]:
    """x (S, N, C, H, W) with weight (S, O, C, k, k) to (S, N, O, H', W'), its channels last in memory."""
    options, whole = _options(form), None
    for run, (x, weight) in enumerate(zip(_channels_last(inputs[0]), inputs[1], strict=True)):
        y = torch.convolution(x, weight, None, **options)
        whole = channels_last(inputs[0], (len(inputs[0]), *y.shape)) if whole is None else whole
        whole[run].copy_(y)
    assert whole is not None
    return [whole]


def _backward(
    gradient: Tensor, inputs: Sequence[Tensor], saved: Sequence[Tensor], form: Sequence[float], into_x: bool
) -> list[Tensor]:
    """The gradients of x, if asked for, and of the weight."""
    options, wanted = _options(form), [into_x, True, False]
    of_x, of_weight = _fake_gradients(inputs)
    parts = zip(_channels_last(gradient), _channels_last(inputs[0]), inputs[1], strict=True)
    for run, (arrived, x, weight) in enumerate(parts):
        found = torch.ops.aten.convolution_backward(arrived, x, weight, None, **options, output_mask=wanted)
        of_weight[run].copy_(found[1])
        if into_x:
            of_x[run].copy_(found[0])
    return [of_x, of_weight] if into_x else [of_weight]


def _fake_gradients(inputs: Sequence[Tensor]) -> list[Tensor]:
    x, weight = inputs
    return [channels_last(x, x.shape), weight.new_empty(weight.shape)]


conv_runs = define("conv_runs", _forward, _backward, _forward, _fake_gradients)


def _options(form: Sequence[float]) -> dict[str, Any]:
    numbers = [int(number) for number in form]
    names = ("stride", "padding", "dilation", "output_padding")
    pairs = {name: numbers[2 * place : 2 * place + 2] for place, name in enumerate(names)}
    return {**pairs, "groups": numbers[8], "transposed": bool(numbers[9])}


def _channels_last(x: Tensor) -> Tensor:
    """The same images (S, N, C, H, W) with their channels last in memory, which cuDNN is fastest on."""
    return x.permute(0, 1, 3, 4, 2).contiguous().permute(0, 1, 4, 2, 3)
