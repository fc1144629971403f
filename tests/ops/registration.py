"""Whether the operations are what `torch.library` and `torch.compile` expect of them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from dwmr import ops


def assert_registered(name: str, inputs: Sequence[Tensor], form: Sequence[float] = ()) -> None:
    """Schema, autograd, and fake kernels with the shapes, strides and types of the real ones, both ways."""
    operation, back = (getattr(torch.ops.dwmr, each).default for each in (name, f"{name}_backward"))
    inputs, form = [each.detach() for each in inputs], list(form)
    result, *saved = operation(inputs, form)
    arrived = torch.rand(result.shape, device=result.device)
    for into_first in (True, False)[: len(inputs)]:
        given = (arrived, inputs, saved, form, into_first)
        torch.library.opcheck(back, given, test_utils=("test_schema", "test_faketensor"))
    wanted = [each.clone().requires_grad_() for each in inputs]
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(operation, (wanted, form), test_utils=tests)


def assert_compiles(function: Callable[..., Tensor], *inputs: Tensor) -> set[str]:
    """Compiled in one graph, a function or network gives the same values, gradients and buffers.

    Returns the package's operations in that graph.
    """
    used: set[str] = set()

    def backend(graph, given):
        used.update(str(node.target).split(".")[1] for node in graph.graph.nodes if "dwmr" in str(node.target))
        return torch._dynamo.lookup_backend("aot_eager")(graph, given)

    torch.compiler.reset()
    results = []
    for compiled in (False, True):
        own = copy.deepcopy(function)
        run = torch.compile(own, backend=backend, fullgraph=True) if compiled else own
        network = isinstance(own, nn.Module)
        parts = list(own.parameters()) if network else []
        given = [each.clone().requires_grad_() for each in inputs]
        with ops.accelerated():
            out = run(*given)
        torch.manual_seed(5)
        gradients = torch.autograd.grad(out, [*given, *parts], torch.randn(out.shape).to(out))
        results.append([out.detach(), *gradients, *(own.buffers() if network else [])])
    for found, expected in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(found, expected)
    return used
