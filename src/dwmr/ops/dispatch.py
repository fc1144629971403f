"""Whether accelerated kernels are in use, and how several runs pass through one.

Inside ``with accelerated()`` the operations of this package use their CUDA or CPU kernels where they fit; outside, and
wherever they do not fit, each operation is its reference in plain PyTorch. On a GPU, functions of PyTorch that an
operation `replaces` use its kernels too, whoever calls them. The trainer decides; networks and losses know nothing.
"""

import functools
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from dwmr.ops import native

INTERPRETED = False  # True: Triton kernels take CPU tensors too, for tests in Triton's interpreter

_REPLACEMENTS: dict[Any, Callable[..., Tensor]] = {}
_LIBRARY = torch.library.Library("dwmr", "DEF")
_in_use: ContextVar[bool] = ContextVar("dwmr_accelerated", default=False)
_left_out: ContextVar[str] = ContextVar("dwmr_left_out", default="")


@contextmanager
def accelerated() -> Iterator[None]:
    """Use accelerated kernels in this block."""
    token = _in_use.set(True)
    try:
        with _Replacements() if torch.cuda.is_available() or INTERPRETED else nullcontext():
            yield
    finally:
        _in_use.reset(token)


def replaces(function: Callable[..., Tensor]) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    """Let an operation with the same arguments stand for a function of PyTorch inside ``with accelerated()`` on a GPU.

    Where its kernels do not fit, the operation returns NotImplemented.
    """

    def register(operation: Callable[..., Tensor]) -> Callable[..., Tensor]:
        _REPLACEMENTS[function] = operation
        return operation

    return register


class _Replacements(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if (operation := _REPLACEMENTS.get(func)) is not None:
            result = operation(*args, **(kwargs or {}))
            if result is not NotImplemented:
                return result
        return func(*args, **(kwargs or {}))


@contextmanager
def without(operation: str) -> Iterator[None]:
    """Leave an operation, named as its file is, to PyTorch in this block, to see what it is worth."""
    token = _left_out.set(operation)
    try:
        yield
    finally:
        _left_out.reset(token)


@functools.cache
def has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def use_triton(x: Tensor, operation: str) -> bool:
    """Whether an operation's Triton kernel may take this tensor."""
    return _wanted(x, operation) and (x.is_cuda or INTERPRETED) and has_triton()


def use_cpu_kernels(x: Tensor, operation: str) -> bool:
    """Whether an operation's C++ kernel may take this tensor; the kernels are compiled on first use."""
    return _wanted(x, operation) and x.device.type == "cpu" and native.library() is not None


def _wanted(x: Tensor, operation: str) -> bool:
    if torch.compiler.is_compiling():  # the compiler fuses operations by itself
        return False
    return _in_use.get() and operation != _left_out.get() and x.dtype == torch.float32


def is_mapped(x: Tensor) -> bool:
    """Whether `torch.vmap` maps over this tensor."""
    return torch._C._functorch.is_batchedtensor(x)


def define(
    name: str, forward: Callable[..., Sequence[Tensor]], backward: Callable[..., Sequence[Tensor]]
) -> Callable[..., list[Tensor]]:
    """Register ``dwmr::name`` with `torch.library`: implementation, gradient and `torch.vmap` rule.

    Every tensor that the kernels take and return has a leading run axis, so `torch.vmap` only has to merge the axis
    that it maps over with that one. ``form`` holds whatever the kernels must know besides the tensors.

    Args:
        forward: maps (inputs, form) to a list: the result, then whatever the way back needs.
        backward: maps (gradient, inputs, saved, form, into_first) to the gradients of the inputs, of the first one
            only if asked for.

    Returns:
        The operation for tensors of one run: (inputs, form) to what ``forward`` returns.
    """

    def setup(ctx: Any, inputs: tuple[list[Tensor], list[float]], output: list[Tensor]) -> None:
        # Outputs that only serve the backward pass get no gradient: zeros of their size would cost more than the pass.
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[0], *output[1:])
        ctx.count, ctx.form = len(inputs[0]), inputs[1]

    def differentiate(ctx: Any, upstream: list[Tensor]) -> tuple[list[Tensor | None], Any]:
        inputs, saved = list(ctx.saved_tensors[: ctx.count]), list(ctx.saved_tensors[ctx.count :])
        into_first = ctx.needs_input_grad[0][0]
        found = back(upstream[0], inputs, saved, ctx.form, into_first)
        nothing: Any = None if ctx.form else []  # an empty list counts as one of tensors
        return (found if into_first else [None, *found]), nothing

    op = _register(name, "(Tensor[] inputs, float[] form) -> Tensor[]", forward)
    schema = "(Tensor gradient, Tensor[] inputs, Tensor[] saved, float[] form, bool into_first) -> Tensor[]"
    back = _register(f"{name}_backward", schema, backward)
    torch.library.register_autograd(f"dwmr::{name}", differentiate, setup_context=setup, lib=_LIBRARY)

    def of_one_run(inputs: Sequence[Tensor], form: Sequence[float] = ()) -> list[Tensor]:
        found = op([each.unsqueeze(0) for each in inputs], [float(number) for number in form])
        return [each.squeeze(0) for each in found]

    return of_one_run


def scale_gradient(
    gradient: Tensor, inputs: Sequence[Tensor], saved: Sequence[Tensor], form: Sequence[float], into_first: bool
) -> list[Tensor]:
    """The ``backward`` of an operation of one input that forms its gradient together with its value."""
    return [saved[0] * gradient[:, None, None]]


def _register(name: str, schema: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    _LIBRARY.define(f"{name}{schema}")
    _LIBRARY.impl(name, kernel, "CompositeExplicitAutograd")
    op = getattr(torch.ops.dwmr, name).default
    torch.library.register_vmap(f"dwmr::{name}", functools.partial(_merge_runs, op), lib=_LIBRARY)
    return op


def _merge_runs(op: Callable[..., Any], info: Any, in_dims: Sequence[Any], *args: Any) -> tuple[Any, Any]:
    """The vmap rule: tensors (B, S, …) pass through as (B · S, …)."""
    size = info.batch_size
    values, spec = pytree.tree_flatten(args)
    dims = pytree.tree_flatten(in_dims, is_leaf=lambda dim: dim is None)[0]
    runs = next(value.movedim(dim, 0).shape[1] for value, dim in zip(values, dims, strict=True) if isinstance(dim, int))
    merged = [
        value if not isinstance(value, Tensor) else _merged(value, dim, size)
        for value, dim in zip(values, dims, strict=True)
    ]
    found = op(*pytree.tree_unflatten(merged, spec))
    apart = pytree.tree_map(lambda tensor: tensor.unflatten(0, (size, runs)), found)
    return apart, pytree.tree_map(lambda _: 0, apart)


def _merged(value: Tensor, dim: int | None, size: int) -> Tensor:
    value = value.unsqueeze(0).expand(size, *value.shape) if dim is None else value.movedim(dim, 0)
    return value.flatten(0, 1)
