"""Images as bytes to what the networks take: floats in [0, 1], perhaps less the training mean over its deviation."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dwmr.ops.dispatch import define, use_cpu_kernels, use_triton


def normalize(images: Tensor, mean: Tensor, std: Tensor, *, standardize: bool) -> Tensor:
    """uint8 images (…, C, H, W), with the mean and deviation (C,) of each channel on the [0, 1] scale."""
    on_cpu = use_cpu_kernels(mean, "normalize")
    if images.dtype == torch.uint8 and (on_cpu or use_triton(mean, "normalize")):
        scale = 1 / (255 * std) if standardize else torch.full_like(std, 1 / 255)
        shift = -mean / std if standardize else torch.zeros_like(mean)
        if on_cpu:
            return _normalize([images, scale, shift])[0]
        return images * scale[:, None, None] + shift[:, None, None]
    return reference(images, mean, std, standardize=standardize)


def reference(images: Tensor, mean: Tensor, std: Tensor, *, standardize: bool) -> Tensor:
    """`normalize` in plain PyTorch."""
    scaled = images.to(mean.dtype, copy=True).div_(255)
    return scaled.sub_(mean[:, None, None]).div_(std[:, None, None]) if standardize else scaled


def _forward(inputs: Sequence[Tensor], form: Sequence[float]) -> list[Tensor]:
    from dwmr.ops.native import kernels

    images, scale, shift = (each.contiguous() for each in inputs)
    out = scale.new_empty(images.shape)
    channels, height, width = images.shape[-3:]
    addresses = (scale.data_ptr(), shift.data_ptr(), out.data_ptr())
    sizes = (images.numel() // (height * width), channels, height * width)
    kernels().dwmr_normalize(images.data_ptr(), *sizes, *addresses, torch.get_num_threads())
    return [out]


def _fake(inputs: list[Tensor], form: list[float]) -> list[Tensor]:
    return [inputs[1].new_empty(inputs[0].shape)]


_normalize = define("normalize", lambda images: (_forward, None), _fake)
