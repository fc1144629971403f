"""Single convolutions on CUDA kernels: 3×3 ones that keep the image's size, and those over disjoint patches.

Stock convolutions with a run axis become grouped convolutions, which are slow on images and channels as small as ours.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from dwmr.ops.dispatch import define

MAX_CHANNELS = 64  # for which the 3×3 kernels fit a multiprocessor's memory


def conv2d(x: Tensor, conv: nn.Conv2d) -> Tensor:
    """x (N, C, H, W) through a convolution that `fits`, without its bias."""
    weight = conv.weight.unsqueeze(0)
    if conv.kernel_size == conv.stride:
        return _patch_conv(x.unsqueeze(0), weight).squeeze(0).permute(0, 3, 1, 2)
    return _conv3x3(x.permute(0, 2, 3, 1).unsqueeze(0), weight)[0].squeeze(0).permute(0, 3, 1, 2)


def conv_transpose2d(x: Tensor, conv: nn.ConvTranspose2d) -> Tensor:
    """x (N, C, H, W) through a transposed convolution that `fits`, without its bias."""
    return _patch_transpose(x.unsqueeze(0), conv.weight.unsqueeze(0)).squeeze(0)


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


def _conv3x3_forward(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """x (S, N, H, W, C) with weight (S, O, C, 3, 3) to (S, N, H, W, O); and x with a border of zeros."""
    from dwmr.ops.triton_conv import convolve, framed

    wide = framed(x.flatten(0, 1))
    return convolve(wide, weight.contiguous()).unflatten(0, x.shape[:2]), wide.unflatten(0, x.shape[:2])


def _conv3x3_fake(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    runs, count, height, width, channels = x.shape
    out = x.new_empty(runs, count, height, width, weight.shape[1])
    return out, x.new_empty(runs, count, height + 2, width + 2, channels)


def _conv3x3_backward(gradient: Tensor, wide: Tensor, weight: Tensor, into_x: bool) -> list[Tensor]:
    """The gradients of the weight and, if asked for, of x."""
    from dwmr.ops.triton_conv import convolve, framed, weight_gradient

    back, weight = framed(gradient.flatten(0, 1)), weight.contiguous()
    of_weight = weight_gradient(wide.flatten(0, 1), back, weight.shape)
    if not into_x:
        return [of_weight]
    return [of_weight, convolve(back, weight, transposed=True).unflatten(0, gradient.shape[:2])]


def _conv3x3_backward_fake(gradient: Tensor, wide: Tensor, weight: Tensor, into_x: bool) -> list[Tensor]:
    of_x = gradient.new_empty(*gradient.shape[:-1], weight.shape[2])
    return [torch.empty_like(weight), of_x] if into_x else [torch.empty_like(weight)]


def _conv3x3_setup(ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(output[1], inputs[1])


def _conv3x3_differentiate(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, Tensor]:
    of_weight, *of_x = _conv3x3_grad(gradient, *ctx.saved_tensors, ctx.needs_input_grad[0])
    return of_x[0] if of_x else None, of_weight


def _patch_forward(x: Tensor, weight: Tensor) -> Tensor:
    from dwmr.ops.triton_patch import conv_forward

    return conv_forward(x, weight)


def _patch_fake(x: Tensor, weight: Tensor) -> Tensor:
    runs, count, _, height, width = x.shape
    side = weight.shape[-1]
    return x.new_empty(runs, count, height // side, width // side, weight.shape[1])


def _patch_backward(gradient: Tensor, x: Tensor, weight: Tensor, into_x: bool) -> list[Tensor]:
    from dwmr.ops.triton_patch import conv_backward

    return conv_backward(gradient, x, weight, into_x)


def _patch_backward_fake(gradient: Tensor, x: Tensor, weight: Tensor, into_x: bool) -> list[Tensor]:
    return [torch.empty_like(weight), torch.empty_like(x)] if into_x else [torch.empty_like(weight)]


def _save_inputs(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _patch_differentiate(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor]:
    of_weight, *of_x = _patch_grad(gradient, *ctx.saved_tensors, ctx.needs_input_grad[0])
    return of_x[0] if of_x else None, of_weight


def _transpose_forward(x: Tensor, weight: Tensor) -> Tensor:
    from dwmr.ops.triton_patch import transpose_forward

    return transpose_forward(x, weight)


def _transpose_fake(x: Tensor, weight: Tensor) -> Tensor:
    from dwmr.ops.triton_patch import transposed_image

    return transposed_image(x, weight)


def _transpose_backward(gradient: Tensor, x: Tensor, weight: Tensor) -> list[Tensor]:
    from dwmr.ops.triton_patch import transpose_backward

    return transpose_backward(gradient, x, weight)


def _transpose_backward_fake(gradient: Tensor, x: Tensor, weight: Tensor) -> list[Tensor]:
    return [torch.empty_like(x), torch.empty_like(weight)]


def _transpose_differentiate(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
    of_x, of_weight = _transpose_grad(gradient, *ctx.saved_tensors)
    return of_x, of_weight


_conv3x3_grad = define(
    "conv3x3_backward",
    _conv3x3_backward,
    _conv3x3_backward_fake,
    schema="(Tensor gradient, Tensor wide, Tensor weight, bool into_x) -> Tensor[]",
)
_conv3x3 = define(
    "conv3x3",
    _conv3x3_forward,
    _conv3x3_fake,
    schema="(Tensor x, Tensor weight) -> (Tensor, Tensor)",
    setup=_conv3x3_setup,
    backward=_conv3x3_differentiate,
)
_patch_grad = define(
    "patch_conv_backward",
    _patch_backward,
    _patch_backward_fake,
    schema="(Tensor gradient, Tensor x, Tensor weight, bool into_x) -> Tensor[]",
)
_patch_conv = define(
    "patch_conv",
    _patch_forward,
    _patch_fake,
    schema="(Tensor x, Tensor weight) -> Tensor",
    setup=_save_inputs,
    backward=_patch_differentiate,
)
_transpose_grad = define(
    "patch_transpose_backward",
    _transpose_backward,
    _transpose_backward_fake,
    schema="(Tensor gradient, Tensor x, Tensor weight) -> Tensor[]",
)
_patch_transpose = define(
    "patch_transpose",
    _transpose_forward,
    _transpose_fake,
    schema="(Tensor x, Tensor weight) -> Tensor",
    setup=_save_inputs,
    backward=_transpose_differentiate,
)
