"""`torch.nn.functional.batch_norm` on a GPU: in training by kernels of its own, as PyTorch uses one block of threads
per channel, which leaves most of a GPU idle where channels are few; in evaluation in one pass, in any order of memory.
"""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dwmr.ops.dispatch import replaces, use_triton


@replaces(F.batch_norm)
def batch_norm(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """x (N, C, …), normalised by its own moments in training, when running statistics move on, else by these."""
    if not use_triton(x, "batch_norm"):
        return NotImplemented
    if not training and running_mean is not None and running_var is not None:
        scale = torch.rsqrt(running_var + eps) * (1.0 if weight is None else weight)
        shift = -running_mean * scale if bias is None else bias - running_mean * scale
        sides = [1] * (x.ndim - 2)
        return torch.addcmul(shift.view(-1, *sides), x, scale.view(-1, *sides))
    if weight is None or bias is None:
        # With its channels last in memory, an image cannot be mapped over runs by PyTorch's.
        return F.batch_norm(x.contiguous(), running_mean, running_var, weight, bias, training, momentum, eps)
    from dwmr.ops import triton_batch_norm

    last = x.movedim(1, -1)
    rows = last.flatten(0, -2)
    y, mean, var = triton_batch_norm.batch_norm([rows, weight, bias], [eps])
    if running_mean is not None and running_var is not None:
        move_on(running_mean, running_var, mean, var, len(rows), momentum)
    return y.view(last.shape).movedim(-1, 1)


@torch.no_grad()
def move_on(running_mean: Tensor, running_var: Tensor, mean: Tensor, var: Tensor, count: int, momentum: float) -> None:
    """Running statistics after a batch with these moments (C,) over ``count`` numbers of each channel."""
    for kept, fresh in ((running_mean, mean), (running_var, var * (count / (count - 1)))):
        kept.mul_(1 - momentum).add_(fresh, alpha=momentum)


def track(norm: nn.BatchNorm2d, mean: Tensor, var: Tensor, count: int) -> None:
    """Move a layer's running statistics on, as its own ``forward`` does."""
    statistics = cast(Tensor, norm.running_mean), cast(Tensor, norm.running_var)
    move_on(*statistics, mean, var, count, cast(float, norm.momentum))
    cast(Tensor, norm.num_batches_tracked).add_(1)
