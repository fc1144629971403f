"""A step of GPU work recorded once and replayed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

WARM_UPS = 3


def capture(
    step: Callable[[], None],
    changing: Callable[[], Sequence[Tensor]],
    rewind: Callable[[], object] = lambda: None,
) -> torch.cuda.CUDAGraph:
    """``step`` as a CUDA graph, not yet replayed.

    Recording needs a few real steps before it, and ``rewind`` comes after each of them. ``changing`` names the tensors
    that a step changes; all of them get their values back, and those that only came to be by a step, such as an
    optimizer's moments, become zero.
    """
    saved = {id(tensor): tensor.clone() for tensor in changing()}
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UPS):
            step()
            rewind()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    with torch.no_grad():
        for tensor in changing():
            before = saved.get(id(tensor))
            tensor.zero_() if before is None else tensor.copy_(before)
    return graph
