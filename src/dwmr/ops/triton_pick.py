"""A minibatch from images kept as bytes: picked, made floating point, scaled and shifted in one pass.

The plain twin is `plain_pick`.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 4096


def pick(images: Tensor, index: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """images uint8 (M, C, H, W) at index (…) to float32 (…, C, H, W), times scale and plus shift, both (C,)."""
    size, plane = images[0].numel(), images[0, 0].numel()
    out = torch.empty(*index.shape, *images.shape[1:], dtype=torch.float32, device=images.device)
    grid = (index.numel(), triton.cdiv(size, BLOCK))
    _pick[grid](images, index.contiguous(), scale, shift, out, SIZE=size, PLANE=plane, BLOCK=BLOCK)
    return out


def plain_pick(images: Tensor, index: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """`pick` in plain torch."""
    return images[index] * scale[:, None, None] + shift[:, None, None]


@triton.jit
def _pick(images, index, scale, shift, out, SIZE: tl.constexpr, PLANE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    live = place < SIZE
    source = tl.load(index + row)
    channel = place // PLANE
    value = tl.load(images + source * SIZE + place, live, 0).to(tl.float32)
    value = value * tl.load(scale + channel, live, 0.0) + tl.load(shift + channel, live, 0.0)
    tl.store(out + row * SIZE + place, value, live)
