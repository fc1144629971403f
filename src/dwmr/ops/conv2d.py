"""Single convolutions on CUDA kernels: 3×3 ones that keep the image's size, and those over disjoint patches.

Stock convolutions with a run axis become grouped convolutions, which are slow on images and channels as small as ours.
"""

from torch import Tensor, nn

from dwmr.ops.dispatch import Kernels, define

MAX_CHANNELS = 64  # for which the 3×3 kernels fit a multiprocessor's memory


def conv2d(x: Tensor, conv: nn.Conv2d | nn.ConvTranspose2d) -> Tensor:
    """x (N, C, H, W) through a convolution that `fits`, without its bias."""
    if isinstance(conv, nn.ConvTranspose2d):
        return _patch_transpose([x, conv.weight])[0]
    if conv.kernel_size == conv.stride:
        return _patch_conv([x, conv.weight])[0].permute(0, 3, 1, 2)
    return _conv3x3([x.permute(0, 2, 3, 1), conv.weight])[0].permute(0, 3, 1, 2)


def fits(layer: nn.Module, x: Tensor) -> bool:
    """Whether the kernels know this convolution, for images x (N, C, H, W)."""
    if not isinstance(layer, nn.Conv2d | nn.ConvTranspose2d) or layer.groups != 1 or layer.dilation != (1, 1):
        return False
    if isinstance(layer, nn.ConvTranspose2d):
        plain = layer.padding == (0, 0) == layer.output_padding
        return plain and layer.kernel_size == layer.stride and _patches_fit(layer.weight)
    if layer.padding_mode != "zeros":
        return False
    if layer.kernel_size == layer.stride and layer.padding == (0, 0):
        side = layer.kernel_size[0]
        return not (x.shape[-2] % side or x.shape[-1] % side) and _patches_fit(layer.weight)
    same_size = layer.kernel_size == (3, 3) and layer.stride == (1, 1) == layer.padding
    return same_size and max(layer.in_channels, layer.out_channels) <= MAX_CHANNELS


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
