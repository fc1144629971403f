"""`torch.conv2d` and `torch.conv_transpose2d` on a GPU.

3×3 convolutions that keep the image's size and those over disjoint patches have kernels of ours, which take several
runs at once. Others are left to cuDNN, which would need grouped convolutions for several runs. Those are slow on images
and channels as small as ours, so such runs are refused here and go side by side.
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
    from dwmr.ops import triton_conv, triton_patch

    kernel, usual = tuple(weight.shape[-2:]), groups == 1 and _both(dilation) == (1, 1)
    stride, padding = _both(stride), _both(padding)
    if usual and kernel == stride and padding == (0, 0) and _divided(x, kernel) and triton_patch.fits(weight):
        y = triton_patch.patch_conv([x, weight])[0]
    elif usual and kernel == (3, 3) and stride == (1, 1) == padding and max(weight.shape) <= MAX_CHANNELS:
        y = triton_conv.conv3x3([x, weight])[0]
    else:
        return _left_to_torch(x)
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
    if not use_triton(x, "conv2d"):
        return NotImplemented
    from dwmr.ops import triton_patch

    apart = tuple(weight.shape[-2:]) == _both(stride) and _both(padding) == (0, 0) == _both(output_padding)
    if not (apart and groups == 1 and _both(dilation) == (1, 1) and x.ndim == 4 and triton_patch.fits(weight)):
        return _left_to_torch(x)
    y = triton_patch.patch_transpose([x.permute(0, 2, 3, 1), weight])[0]
    return y if bias is None else y + bias[:, None, None]


def _left_to_torch(x: Tensor) -> Any:
    if is_mapped(x):
        raise RuntimeError("there is no fast kernel for one of the convolutions of several runs")
    return NotImplemented


@replaces(Tensor.view)
def view(x: Tensor, *shape: Any) -> Tensor:
    """Networks may rely on images with their columns last in memory, as PyTorch's convolutions return them."""
    return NotImplemented if isinstance(shape[0], torch.dtype) else x.reshape(*shape)


def _both(sides: Any) -> Any:
    return (sides, sides) if isinstance(sides, int) else sides


def _divided(x: Tensor, kernel: tuple[int, ...]) -> bool:
    return x.shape[-2] % kernel[0] == 0 == x.shape[-1] % kernel[1]
