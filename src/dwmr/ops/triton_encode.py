"""The convolutional part of `ConvEncoder` on Triton kernels, for many runs at once.

Each block is a 3×3 convolution, a normalisation of every channel of every image, ReLU, and perhaps 2×2 average pooling;
each elementwise step by itself would be a pass over the largest tensors of the whole update:

    first_block, first_block_back  of grey images, pooled: nothing of the image's full size is stored
    convolve, weight_gradient      the convolutions of the others, and their gradients
    normalize                      one program an image: moments in one pass, then affine map, ReLU and pooling
    normalize_back                 the same image once more, back to the convolution's output

The plain twin is `plain_features`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from dwmr.errors import InputError
from dwmr.ops import triton_conv
from dwmr.ops.triton_conv import convolve, framed, of_runs, scaled, unscaled, weight_gradient
from dwmr.ops.triton_first import first_block, first_block_back, fits
from dwmr.ops.triton_norm import EPS, normalize, normalize_back


@dataclass(frozen=True)
class Block:
    """Weights (S, O, C, 3, 3), scale and shift (S, O) of all runs, and whether the block pools."""

    weight: Tensor
    scale: Tensor
    shift: Tensor
    pool: bool


def conv_features(images: Tensor, blocks: Sequence[Block]) -> Tensor:
    """images (S, N, C, H, W) through all blocks to (S, N, O, H', W'). The images themselves get no gradient."""
    weights = [tensor for block in blocks for tensor in (block.weight, block.scale, block.shift)]
    return _Features.apply(images, tuple(block.pool for block in blocks), *weights)


def plain_features(images: Tensor, blocks: Sequence[Block]) -> Tensor:
    """`conv_features` in plain torch, run by run."""
    outputs = []
    for run, x in enumerate(images):
        for block in blocks:
            y = F.conv2d(x, block.weight[run], padding=1)
            x = F.relu(F.group_norm(y, y.shape[1], block.scale[run], block.shift[run], EPS))
            x = F.avg_pool2d(x, 2) if block.pool else x
        outputs.append(x)
    return torch.stack(outputs)


class _Features(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, images: Tensor, pools: tuple[bool, ...], *weights: Tensor) -> Tensor:
        runs, count, _channels, height, width = images.shape
        x = images.flatten(0, 1).contiguous()
        ctx.quick = fits(x, weights[0], pools[0])
        x = x if ctx.quick else framed(x.permute(0, 2, 3, 1), triton_conv.STORAGE)
        saved: list[Tensor] = []
        for place, pool in enumerate(pools):
            weight, scale, shift = (of_runs(tensor) for tensor in weights[3 * place : 3 * place + 3])
            if pool and (height % 2 or width % 2):
                raise InputError(f"images of {height}×{width} cannot be pooled: both sides must be even")
            if place == 0 and ctx.quick:
                output, y, moments = first_block(x, weight, scale, shift)
            else:
                y = convolve(x, weight)
                output, moments = normalize(y, scale, shift, pool)
            saved += [x, y, moments, weight, scale, shift]
            height, width = output.shape[1] - 2, output.shape[2] - 2
            x = output
        ctx.save_for_backward(*saved)
        ctx.pools = pools
        result = images.new_empty(runs, count, x.shape[-1], height, width)
        return result.copy_(x[:, 1:-1, 1:-1].permute(0, 3, 1, 2).unflatten(0, (runs, count)))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        gradient = gradients[0].permute(0, 1, 3, 4, 2)
        arrived = torch.empty(gradient.shape, dtype=triton_conv.STORAGE, device=gradient.device)
        factor = scaled(gradient, arrived)
        arrived = arrived.flatten(0, 1)
        found: list[Tensor] = []
        for place in reversed(range(len(ctx.pools))):
            x, y, moments, weight, scale, shift = ctx.saved_tensors[6 * place : 6 * place + 6]
            if place == 0 and ctx.quick:
                found = [*first_block_back(arrived, x, y, moments, weight, scale, shift), *found]
                break
            back, d_scale, d_shift = normalize_back(arrived, y, moments, scale, shift, ctx.pools[place])
            found = [weight_gradient(x, back, weight.shape), d_scale, d_shift, *found]
            if place:
                arrived = convolve(back, weight, transposed=True)
        return None, None, *(unscaled(each, factor) for each in found)
