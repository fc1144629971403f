"""`torch.conv2d` and `torch.conv_transpose2d` on CUDA kernels: 3×3 convolutions that keep the image's size, and those
over disjoint patches. Several runs also use the 3×3 kernels for most other convolutions, with a stride for instance.

Stock convolutions with a run axis become grouped convolutions, which are slow on images and channels as small as ours.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dwmr.ops.dispatch import Kernels, define, is_mapped, replaces, use_triton

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
    if not use_triton(x, "conv2d"):
        return NotImplemented
    if groups != 1 or _both(dilation) != (1, 1) or x.ndim != 4 or isinstance(padding, str):
        return _left_to_torch(x)
    kernel, stride, padding = tuple(weight.shape[-2:]), _both(stride), _both(padding)
    if kernel == stride and padding == (0, 0) and _divided(x, kernel) and _patches_fit(weight):
        y = _patch_conv([x, weight])[0]
    elif (kernel, stride, padding) == ((3, 3), (1, 1), (1, 1)) and max(weight.shape) <= MAX_CHANNELS:
        y = _conv3x3([x.permute(0, 2, 3, 1), weight])[0]
    elif is_mapped(x) and (places := _places(x, kernel, stride, padding)) and weight.shape[0] <= MAX_CHANNELS:
        y = _by_conv3x3(x, weight, places)
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
    apart = tuple(weight.shape[-2:]) == _both(stride) and _both(padding) == (0, 0) == _both(output_padding)
    if not (apart and groups == 1 and _both(dilation) == (1, 1) and x.ndim == 4 and _patches_fit(weight)):
        return _left_to_torch(x)
    y = _patch_transpose([x, weight])[0]
    return y if bias is None else y + bias[:, None, None]


@dataclass(frozen=True)
class _Places:
    """One axis of a convolution, seen as one of width 3 and stride 1 over blocks of as many pixels as its stride.

    blocks  how many there are
    pixels  of each block
    first   where the kernel begins among the 3 · ``pixels`` pixels that an output sees
    start, count  which of the outputs, one per block, are wanted
    """

    blocks: int
    pixels: int
    first: int
    start: int
    count: int


def _places(
    x: Tensor, kernel: tuple[int, ...], stride: tuple[int, int], padding: tuple[int, int]
) -> list[_Places] | None:
    """Both axes of such a convolution, or None if an output sees more than three blocks."""
    found = []
    for size, wide, step, border in zip(x.shape[-2:], kernel, stride, padding, strict=True):
        blocks, count = -(-size // step), (size + 2 * border - wide) // step + 1
        low, high = -border // step, (wide - 1 - border) // step  # the blocks that the first output sees
        start = min(max(0, high - 1), low + 1)
        if high - low > 2 or start < 0 or start + count > blocks or count < 1:
            return None
        found.append(_Places(blocks, step, (1 - start) * step - border, start, count))
    return found


def _by_conv3x3(x: Tensor, weight: Tensor, places: list[_Places]) -> Tensor:
    """The convolution with the pixels of each block as channels; (N, rows, columns, O)."""
    rows, cols = places
    missing = [each.blocks * each.pixels - size for each, size in zip(places, x.shape[-2:], strict=True)]
    blocks = nn.functional.pad(x, (0, missing[1], 0, missing[0])).unflatten(-1, (cols.blocks, cols.pixels))
    blocks = blocks.unflatten(-3, (rows.blocks, rows.pixels)).permute(0, 2, 4, 1, 3, 5).flatten(3)
    borders = [(each.first, 3 * each.pixels - side - each.first) for each, side in zip(places, weight.shape[-2:])]
    taps = nn.functional.pad(weight, (*borders[1], *borders[0])).unflatten(-1, (3, cols.pixels))
    taps = taps.unflatten(-3, (3, rows.pixels)).permute(0, 1, 3, 5, 2, 4).flatten(1, 3)
    parts = zip(blocks.split(MAX_CHANNELS, dim=-1), taps.split(MAX_CHANNELS, dim=1), strict=True)
    y = torch.stack([_conv3x3([part, some])[0] for part, some in parts]).sum(0)
    return y[:, rows.start : rows.start + rows.count, cols.start : cols.start + cols.count]


def _left_to_torch(x: Tensor) -> Any:
    if is_mapped(x):
        raise RuntimeError("there is no fast kernel for one of the convolutions of several runs")
    return NotImplemented


def _both(sides: Any) -> Any:
    return (sides, sides) if isinstance(sides, int) else sides


def _divided(x: Tensor, kernel: tuple[int, ...]) -> bool:
    return x.shape[-2] % kernel[0] == 0 == x.shape[-1] % kernel[1]


def _patches_fit(weight: Tensor) -> bool:
    from dwmr.ops.triton_patch import fits

    return fits(weight)


def _conv3x3_kernels(x: Tensor) -> Kernels:
    from dwmr.ops import triton_conv

    return triton_conv.conv3x3_forward, triton_conv.conv3x3_backward


def _conv3x3_fake(inputs: list[Tensor], form: list[float]) -> list[Tensor]:
    x, weight = inputs
    runs, count, height, width, channels = x.shape
    out = x.new_empty(runs, count, height, width, weight.shape[1])
    return [out, x.new_empty(runs, count, height + 2, width + 2, channels)]


def _patch_kernels(x: Tensor) -> Kernels:
    from dwmr.ops import triton_patch

    return triton_patch.conv_forward, triton_patch.conv_backward


def _patch_fake(inputs: list[Tensor], form: list[float]) -> list[Tensor]:
    x, weight = inputs
    runs, count, _, height, width = x.shape
    side = weight.shape[-1]
    return [x.new_empty(runs, count, height // side, width // side, weight.shape[1])]


def _transpose_kernels(x: Tensor) -> Kernels:
    from dwmr.ops import triton_patch

    return triton_patch.transpose_forward, triton_patch.transpose_backward


def _transpose_fake(inputs: list[Tensor], form: list[float]) -> list[Tensor]:
    from dwmr.ops import triton_patch

    return [triton_patch.transposed_image(*inputs)]


_conv3x3 = define("conv3x3", _conv3x3_kernels, _conv3x3_fake)
_patch_conv = define("patch_conv", _patch_kernels, _patch_fake)
_patch_transpose = define("patch_transpose", _transpose_kernels, _transpose_fake)
