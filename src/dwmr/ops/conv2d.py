"""`torch.conv2d` and `torch.conv_transpose2d` on a GPU.

3×3 convolutions that keep the image's size and those over disjoint patches have kernels of ours, which take several
runs at once. Others are left to cuDNN, run by run (`conv_runs`).
"""

from typing import Any

import torch
from torch import Tensor

from dwmr.ops.conv_runs import convolve
from dwmr.ops.dispatch import is_mapped, replaces, use_triton

MAX_CHANNELS = 64  # for which the 3×3 kernels fit a multiprocessor's memory


@replaces(torch.conv2d)
def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """x (N, C, H, W) with weight (O, C, k, k)."""
    if not use_triton(x, "conv2d") or x.ndim != 4:
        return NotImplemented
    from dwmr.ops import triton_conv, triton_patch

    kernel, usual = tuple(weight.shape[-2:]), groups == 1 and _both(dilation) == (1, 1)
    stride, padding = _both(stride), _both(padding)
    if usual and kernel == stride and padding == (0, 0) and _divided(x, kernel) and triton_patch.fits(weight):
        y = triton_patch.patch_conv([x, weight])[0]
    elif usual and kernel == (3, 3) and stride == (1, 1) == padding and max(weight.shape) <= MAX_CHANNELS:
        y = triton_conv.conv3x3([x, weight])[0]
    else:
        return _run_by_run(x, weight, bias, stride, padding, dilation, groups)
    return _with_bias(y.permute(0, 3, 1, 2), bias)


@replaces(torch.conv_transpose2d)
def conv_transpose2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """x (N, D, H, W) with weight (D, C, k, k)."""
    if not use_triton(x, "conv2d") or x.ndim != 4:
        return NotImplemented
    from dwmr.ops import triton_patch

    apart = tuple(weight.shape[-2:]) == _both(stride) and _both(padding) == (0, 0) == _both(output_padding)
    if not (apart and groups == 1 and _both(dilation) == (1, 1) and triton_patch.fits(weight)):
        return _run_by_run(
            x, weight, bias, stride, padding, dilation, groups, transposed=True, output_padding=_both(output_padding)
        )
    return _with_bias(triton_patch.patch_transpose([x.permute(0, 2, 3, 1), weight])[0], bias)


def _run_by_run(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, groups: int, **others: Any
) -> Any:
    if not (is_mapped(x) or is_mapped(weight)) or isinstance(padding, str):
        return NotImplemented
    pairs = {"stride": _both(stride), "padding": _both(padding), "dilation": _both(dilation)}
    return _with_bias(convolve(x, weight, **pairs, groups=groups, **others), bias)


def _with_bias(y: Tensor, bias: Tensor | None) -> Tensor:
    return y if bias is None else y + bias[:, None, None]


@replaces(Tensor.view)
def view(x: Tensor, *shape: Any) -> Tensor:
    """Networks may rely on images with their columns last in memory, as PyTorch's convolutions return them."""
    return NotImplemented if isinstance(shape[0], torch.dtype) else x.reshape(*shape)


def _both(sides: Any) -> Any:
    return (sides, sides) if isinstance(sides, int) else tuple(sides)


def _divided(x: Tensor, kernel: tuple[int, ...]) -> bool:
    return x.shape[-2] % kernel[0] == 0 == x.shape[-1] % kernel[1]
