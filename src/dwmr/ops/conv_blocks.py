"""Blocks of 3×3 convolution, normalisation of every channel of every image and ReLU, fused on the GPU."""

from collections.abc import Sequence

from torch import Tensor, nn

from dwmr.ops.conv2d import MAX_CHANNELS
from dwmr.ops.conv_chain import Link


def conv_blocks(x: Tensor, links: Sequence[Link]) -> Tensor:
    """x (N, C, H, W) through all links, to (N, O, H', W')."""
    from dwmr.ops import triton_blocks

    kinds = [triton_blocks.DOUBLED if link.doubled else int(link.pooled) for link in links]
    return triton_blocks.conv_blocks(x, [each for link in links for each in link.tensors], kinds)


def fits(x: Tensor, links: Sequence[Link]) -> bool:
    """Whether the kernels take these: blocks that keep the image's size but for doubling it before and halving it
    after; the last may be a convolution alone."""
    from dwmr.ops.triton_norm import EPS

    sides = tuple(x.shape[-2:])
    for link in links:
        conv, norm, doubled = link.conv, link.norm, link.doubled
        shape = (conv.kernel_size, conv.stride, conv.dilation, conv.padding)
        same_size = shape == ((3, 3), (1, 1), (1, 1), (1, 1)) and conv.groups == 1 and conv.padding_mode == "zeros"
        narrow = max(conv.in_channels, (4 if doubled else 1) * conv.out_channels) <= MAX_CHANNELS
        if isinstance(norm, nn.GroupNorm):
            by_channel = norm.num_groups == norm.num_channels and norm.affine and norm.eps == EPS
            usual = by_channel and conv.bias is None and not link.residual
        else:
            usual = norm is None and conv.bias is not None and link is links[-1]
        if not (same_size and narrow and usual) or (doubled and link.pooled):
            return False
        if doubled:
            sides = tuple(2 * side for side in sides)
            if doubled.size != sides or doubled.mode != "nearest":
                return False
        if link.pooled:
            if any(side % 2 for side in sides):
                return False
            sides = tuple(side // 2 for side in sides)
    return True
