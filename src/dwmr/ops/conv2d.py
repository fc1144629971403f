"""`torch.conv2d` and `torch.conv_transpose2d` on a GPU.

3×3 convolutions that keep the image's size and those over disjoint patches have kernels of their own (`triton_conv`,
`triton_patch`). Others are left to cuDNN for one run, and go through `triton_correlate` for several, which cuDNN would
need grouped convolutions for: slow on images and channels as small as ours.
"""

from typing import Any

import torch
from torch import Tensor

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
    kernel = tuple(weight.shape[-2:])
    if padding == "same" and kernel[0] % 2 == 1 == kernel[1] % 2:
        padding = (kernel[0] // 2, kernel[1] // 2)
    padding = 0 if padding == "valid" else padding
    if groups != 1 or _both(dilation) != (1, 1) or isinstance(padding, str):
        return _left_to_torch(x)
    from dwmr.ops import triton_conv, triton_correlate, triton_patch

    stride, padding = _both(stride), _both(padding)
    if kernel == stride and padding == (0, 0) and _divided(x, kernel) and triton_patch.fits(weight):
        y = triton_patch.patch_conv([x, weight])[0]
    elif kernel == (3, 3) and stride == (1, 1) == padding and max(weight.shape) <= MAX_CHANNELS:
        y = triton_conv.conv3x3([x, weight])[0]
    elif is_mapped(x):
        given = [x.permute(0, 2, 3, 1), weight, weight.new_zeros(len(weight)) if bias is None else bias]
        return triton_correlate.any_conv(given, [*stride, *padding])[0].permute(0, 3, 1, 2)
    else:
        return NotImplemented
    y = y.permute(0, 3, 1, 2)
    return y if bias is None else y + bias[:, None, None]


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
    if groups != 1 or _both(dilation) != (1, 1):
        return _left_to_torch(x)
    from dwmr.ops import triton_correlate, triton_patch

    stride, padding, more = _both(stride), _both(padding), _both(output_padding)
    if tuple(weight.shape[-2:]) == stride and padding == (0, 0) == more and triton_patch.fits(weight):
        y = triton_patch.patch_transpose([x.permute(0, 2, 3, 1), weight])[0]
        return y if bias is None else y + bias[:, None, None]
    if not is_mapped(x):
        return NotImplemented
    given = [x.permute(0, 2, 3, 1), weight, weight.new_zeros(weight.shape[1]) if bias is None else bias]
    return triton_correlate.any_transpose(given, [*stride, *padding, *more])[0].permute(0, 3, 1, 2)


def _left_to_torch(x: Tensor) -> Any:
    if is_mapped(x):
        raise RuntimeError("there is no fast kernel for one of the convolutions of several runs")
    return NotImplemented


@replaces(Tensor.view)
def view(x: Tensor, *shape: Any) -> Tensor:
    """Networks may rely on images with their columns last in memory, as PyTorch's convolutions return them."""
    return NotImplemented if isinstance(shape[0], torch.dtype) else x.reshape(*shape)


def _both(sides: Any) -> Any:
    return (sides, sides) if isinstance(sides, int) else tuple(sides)


def _divided(x: Tensor, kernel: tuple[int, ...]) -> bool:
    return x.shape[-2] % kernel[0] == 0 == x.shape[-1] % kernel[1]
