"""A step of GPU work recorded once and replayed."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

WARM_UPS = 3


def capture(
    step: Callable[[], None],
    changing: Callable[[], Sequence[Tensor]],
    rewind: Callable[[], object] = lambda: None,
    stream: torch.cuda.Stream | None = None,
    warm_ups: int = WARM_UPS,
    pool: Any = None,
) -> torch.cuda.CUDAGraph:
    """``step`` as a CUDA graph, not yet replayed. Graphs that are to run at the same time need a ``stream`` each, for
    their recording and for their replay: those of one stream share what cuBLAS writes to. Graphs that never run at the
    same time, and keep nothing, can share the memory of a ``pool``.

    Recording needs a few real steps first, ``warm_ups``; ``rewind`` is called after each. ``changing`` names the
    tensors that a step changes, see `undone`.
    """
    with undone(changing):
        side = stream or torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(warm_ups):
                step()
                rewind()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        try:
            # The outer block: a recording that fails does not go back to the stream that was current before it.
            with torch.cuda.stream(torch.cuda.current_stream()), torch.cuda.graph(graph, pool, side):
                step()
        except Exception:  # after which the generator of random numbers would wait for the recording to go on
            generator = torch.cuda.default_generators[torch.cuda.current_device()]
            generator.graphsafe_set_state(generator.clone_state())
            raise
    return graph


@contextmanager
def undone(changing: Callable[[], Sequence[Tensor]]) -> Iterator[None]:
    """Give the tensors back the values they had before the block, however it ends.

    Those that only came to be in the block, such as an optimizer's moments, become zero.
    """
    saved = {id(tensor): tensor.detach().clone() for tensor in changing()}
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor in changing():
                before = saved.get(id(tensor))
                tensor.zero_() if before is None else tensor.copy_(before)
