"""Blocks of 3×3 convolution, normalisation of every channel of every image, ReLU and perhaps 2×2 average pooling."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from dwmr.ops.dispatch import Kernels, define, on_gpu

EPS = 1e-5  # torch.nn.GroupNorm's


def conv_features(images: Tensor, parameters: Sequence[Tensor], pools: Sequence[bool]) -> Tensor:
    """Images (N, C, H, W) through all blocks, in fused kernels.

    Args:
        images: they get no gradient.
        parameters: weight (O, C, 3, 3), scale (O,) and shift (O,) of each block in turn.
        pools: whether each block pools.
    """
    return _features([images, *parameters], pools)[0]


def reference(images: Tensor, parameters: Sequence[Tensor], pools: Sequence[bool]) -> Tensor:
    """`conv_features` in plain PyTorch."""
    for place, pool in enumerate(pools):
        weight, scale, shift = parameters[3 * place : 3 * place + 3]
        images = F.conv2d(images, weight, padding=1)
        images = F.relu(F.group_norm(images, images.shape[1], scale, shift, EPS))
        images = F.avg_pool2d(images, 2) if pool else images
    return images


def _kernels(images: Tensor) -> Kernels:
    if on_gpu(images):
        from dwmr.ops import triton_encode

        return triton_encode.features_forward, triton_encode.features_backward
    return _forward, _backward


def _fake(inputs: list[Tensor], pools: list[float]) -> list[Tensor]:
    if on_gpu(inputs[0]):
        from dwmr.ops.triton_encode import features_shapes

        return features_shapes(inputs, pools)
    images, *parameters = inputs
    blocks, shape = _described(images, parameters, pools)
    return [images.new_empty(*images.shape[:2], *shape), images.new_empty(len(images), _size_of_saved(images, blocks))]


def _described(images: Tensor, parameters: Sequence[Tensor], pools: Sequence[float]) -> tuple[Any, tuple[int, ...]]:
    """The blocks as the C++ kernels take them, but for addresses, and the shape of an image's features."""
    from dwmr.ops.native import Block

    height, width = (int(side) for side in images.shape[-2:])
    blocks = (Block * len(pools))()
    outputs = images.shape[-3]
    for place, pool in enumerate(pools):
        inputs, outputs = outputs, parameters[3 * place].shape[-4]
        blocks[place] = Block(inputs, outputs, height, width, bool(pool), EPS)
        height, width = (height // 2, width // 2) if pool else (height, width)
    return blocks, (outputs, height, width)


def _set_addresses(blocks: Any, tensors: Sequence[Tensor], prefix: str = "") -> None:
    for place, tensor in enumerate(tensors):
        setattr(blocks[place // 3], prefix + ("weight", "scale", "shift")[place % 3], tensor.data_ptr())


def _size_of_saved(images: Tensor, blocks: Any) -> int:
    from dwmr.ops.native import kernels, lanes

    return kernels().dwmr_features_saved(blocks, len(blocks), -(-images.shape[-4] // lanes()))


def _forward(inputs: Sequence[Tensor], pools: Sequence[float]) -> list[Tensor]:
    """Features (S, N, O, H', W'), and what the backward pass needs."""
    from dwmr.ops.native import kernels, reused_memory, stacked

    found = []
    for images, *parameters in zip(*(each.contiguous() for each in inputs), strict=True):
        blocks, shape = _described(images, parameters, pools)
        _set_addresses(blocks, parameters)
        saved = reused_memory(_size_of_saved(images, blocks))
        features = images.new_empty(len(images), *shape)
        pointers = (images.data_ptr(), len(images), saved.data_ptr(), features.data_ptr())
        kernels().dwmr_features(blocks, len(blocks), *pointers, torch.get_num_threads())
        found.append((features, saved))
    return stacked(found)


def _backward(
    gradient: Tensor, inputs: Sequence[Tensor], saved: Sequence[Tensor], pools: Sequence[float], into_images: bool
) -> list[Tensor]:
    """The gradients of the parameters; images get none."""
    from dwmr.ops.native import kernels, stacked

    found = []
    runs = zip(gradient.contiguous(), saved[0], *(each.contiguous() for each in inputs), strict=True)
    for arrived, kept, images, *parameters in runs:
        blocks, _ = _described(images, parameters, pools)
        _set_addresses(blocks, parameters)
        found.append([torch.zeros_like(each) for each in parameters])
        _set_addresses(blocks, found[-1], "d")
        pointers = (len(images), kept.data_ptr(), arrived.data_ptr())
        kernels().dwmr_features_back(blocks, len(blocks), *pointers, torch.get_num_threads())
    return stacked(found)


_features = define("conv_features", _kernels, _fake)
