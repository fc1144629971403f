"""Blocks of 3×3 convolution, normalisation of every channel of every image, ReLU and perhaps 2×2 average pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from dwmr.ops.dispatch import define, on_gpu

EPS = 1e-5  # torch.nn.GroupNorm's


def conv_features(images: Tensor, parameters: Sequence[Tensor], pools: Sequence[bool]) -> Tensor:
    """Images (N, C, H, W) through all blocks, in fused kernels.

    Args:
        images: they get no gradient.
        parameters: weight (O, C, 3, 3), scale (O,) and shift (O,) of each block in turn.
        pools: whether each block pools.
    """
    return _features(images.unsqueeze(0), [each.unsqueeze(0) for each in parameters], list(pools))[0].squeeze(0)


def reference(images: Tensor, parameters: Sequence[Tensor], pools: Sequence[bool]) -> Tensor:
    """`conv_features` in plain PyTorch."""
    for place, pool in enumerate(pools):
        weight, scale, shift = parameters[3 * place : 3 * place + 3]
        images = F.conv2d(images, weight, padding=1)
        images = F.relu(F.group_norm(images, images.shape[1], scale, shift, EPS))
        images = F.avg_pool2d(images, 2) if pool else images
    return images


def _forward(images: Tensor, parameters: list[Tensor], pools: list[bool]) -> list[Tensor]:
    """Features (S, N, O, H', W'), then whatever the backward pass needs, each with the run axis first."""
    if on_gpu(images):
        from dwmr.ops.triton_encode import features_forward

        return features_forward(images, parameters, pools)
    found = [_forward_on_cpu(*run, pools) for run in zip(images, zip(*parameters, strict=True), strict=True)]
    return [torch.stack(parts) if len(parts) > 1 else parts[0].unsqueeze(0) for parts in zip(*found, strict=True)]


def _backward(
    gradient: Tensor, images: Tensor, parameters: list[Tensor], saved: list[Tensor], pools: list[bool]
) -> list[Tensor]:
    """The gradients of the parameters."""
    if on_gpu(images):
        from dwmr.ops.triton_encode import features_backward

        return features_backward(gradient, images, parameters, saved, pools)
    runs = zip(gradient, images, zip(*parameters, strict=True), saved[0], strict=True)
    found = [_backward_on_cpu(*run, pools) for run in runs]
    return [torch.stack(parts) for parts in zip(*found, strict=True)]


def _described(images: Tensor, parameters: Sequence[Tensor], pools: Sequence[bool]) -> tuple[Any, tuple[int, int, int]]:
    """The blocks as the C++ kernels take them, and the shape of an image's features."""
    from dwmr.ops.native import Block

    height, width = images.shape[-2:]
    blocks = (Block * len(pools))()
    for place, pool in enumerate(pools):
        weight, scale, shift = parameters[3 * place : 3 * place + 3]
        outputs, inputs = weight.shape[:2]
        addresses = [each.data_ptr() for each in (weight, scale, shift)]
        blocks[place] = Block(inputs, outputs, height, width, pool, EPS, *addresses)
        height, width = (height // 2, width // 2) if pool else (height, width)
    return blocks, (parameters[-1].shape[0], height, width)


def _forward_on_cpu(images: Tensor, parameters: Sequence[Tensor], pools: Sequence[bool]) -> list[Tensor]:
    from dwmr.ops.native import kernels, lanes, reused_memory

    images, parameters = images.contiguous(), [each.contiguous() for each in parameters]
    blocks, shape = _described(images, parameters, pools)
    saved = reused_memory(kernels().dwmr_features_saved(blocks, len(blocks), -(-len(images) // lanes())))
    features = images.new_empty(len(images), *shape)
    kernels().dwmr_features(
        *(blocks, len(blocks), images.data_ptr(), len(images), True, saved.data_ptr(), features.data_ptr()),
        torch.get_num_threads(),
    )
    return [features, saved]


def _backward_on_cpu(
    gradient: Tensor, images: Tensor, parameters: Sequence[Tensor], saved: Tensor, pools: Sequence[bool]
) -> list[Tensor]:
    from dwmr.ops.native import kernels

    gradient, parameters = gradient.contiguous(), [each.contiguous() for each in parameters]
    blocks, _ = _described(images, parameters, pools)
    found = [torch.zeros_like(each) for each in parameters]
    for place, block in enumerate(blocks):
        block.dweight, block.dscale, block.dshift = (each.data_ptr() for each in found[3 * place : 3 * place + 3])
    kernels().dwmr_features_back(
        *(blocks, len(blocks), len(images), saved.data_ptr(), gradient.data_ptr()), torch.get_num_threads()
    )
    return found


def _fake_forward(images: Tensor, parameters: list[Tensor], pools: list[bool]) -> list[Tensor]:
    runs, count = images.shape[:2]
    if on_gpu(images):
        from dwmr.ops.triton_encode import features_shapes

        return features_shapes(images, parameters, pools)
    from dwmr.ops.native import kernels, lanes

    blocks, shape = _described_shapes(images, parameters, pools)
    size = kernels().dwmr_features_saved(blocks, len(blocks), -(-count // lanes()))
    return [images.new_empty(runs, count, *shape), images.new_empty(runs, size)]


def _described_shapes(images: Tensor, parameters: list[Tensor], pools: list[bool]) -> tuple[Any, tuple[int, int, int]]:
    """`_described` for tensors without memory: sizes only."""
    from dwmr.ops.native import Block

    height, width = (int(side) for side in images.shape[-2:])
    blocks = (Block * len(pools))()
    for place, pool in enumerate(pools):
        _, outputs, inputs = parameters[3 * place].shape[:3]
        blocks[place] = Block(inputs, outputs, height, width, pool, EPS)
        height, width = (height // 2, width // 2) if pool else (height, width)
    return blocks, (parameters[-1].shape[1], height, width)


def _fake_backward(
    gradient: Tensor, images: Tensor, parameters: list[Tensor], saved: list[Tensor], pools: list[bool]
) -> list[Tensor]:
    return [torch.empty_like(each) for each in parameters]


def _setup(ctx: Any, inputs: tuple[Tensor, list[Tensor], list[bool]], output: list[Tensor]) -> None:
    images, parameters, pools = inputs
    ctx.save_for_backward(images, *parameters, *output[1:])
    ctx.pools = pools


def _differentiate(ctx: Any, upstream: list[Tensor]) -> tuple[None, list[Tensor], None]:
    images, *rest = ctx.saved_tensors
    count = 3 * len(ctx.pools)
    return None, _features_backward(upstream[0], images, rest[:count], rest[count:], ctx.pools), None


_features_backward = define(
    "conv_features_backward",
    _backward,
    _fake_backward,
    schema="(Tensor gradient, Tensor images, Tensor[] parameters, Tensor[] saved, bool[] pools) -> Tensor[]",
)
_features = define(
    "conv_features",
    _forward,
    _fake_forward,
    schema="(Tensor images, Tensor[] parameters, bool[] pools) -> Tensor[]",
    setup=_setup,
    backward=_differentiate,
)
