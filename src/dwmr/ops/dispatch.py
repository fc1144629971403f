"""Whether accelerated kernels are in use, and how several runs pass through one.

Inside ``with accelerated()`` the operations of this package use their CUDA or CPU kernels where they fit; outside, and
wherever they do not fit, each operation is its reference in plain PyTorch. On a GPU, functions of PyTorch that an
operation `replaces` use its kernels too, whoever calls them. The trainer decides; networks and losses know nothing.
Compiled networks use the same kernels, as `torch.compile` traces through the mode that replaces the functions, except
for a graph break at a method of tensors that is written in Python, such as ``unflatten``.
"""

import functools
import importlib.util
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from dwmr.ops import native

INTERPRETED = False  # True: Triton kernels take CPU tensors too, for tests in Triton's interpreter

_REPLACEMENTS: dict[Any, Callable[..., Tensor]] = {}
_LIBRARY = torch.library.Library("dwmr", "DEF")
_HAS_TRITON = importlib.util.find_spec("triton") is not None


class _State(threading.local):  # which torch.compile guards, unlike a ContextVar
    in_use = False
    left_out = ""


_state = _State()


@contextmanager
def accelerated() -> Iterator[None]:
    """Use accelerated kernels in this block."""
    before, _state.in_use = _state.in_use, True
    try:
        with _Replacements() if torch.cuda.is_available() or INTERPRETED else nullcontext():
            yield
    finally:
        _state.in_use = before


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
    before, _state.left_out = _state.left_out, operation
    try:
        yield
    finally:
        _state.left_out = before


def accelerating(x: Tensor) -> bool:
    """Whether what is done to this tensor on a GPU may differ from the reference by rounding, to be faster."""
    return _state.in_use and (x.is_cuda or INTERPRETED)


def use_triton(x: Tensor, operation: str) -> bool:
    """Whether an operation's Triton kernel may take this tensor."""
    return accelerating(x) and _wanted(x, operation) and _HAS_TRITON


def use_cpu_kernels(x: Tensor, operation: str) -> bool:
    """Whether an operation's C++ kernel may take this tensor; the kernels are compiled on first use."""
    return _wanted(x, operation) and x.device.type == "cpu" and native.lanes() > 0


def _wanted(x: Tensor, operation: str) -> bool:
    return _state.in_use and operation != _state.left_out and x.dtype == torch.float32


def is_mapped(x: Tensor) -> bool:
    """Whether `torch.vmap` maps over this tensor."""
    return torch._C._functorch.is_batchedtensor(x)


Kernel = Callable[..., Sequence[Tensor]]


def like(inputs: Sequence[Tensor], form: Sequence[float] = ()) -> list[Tensor]:
    """Empty tensors of these shapes: the ``fake`` of an operation that returns such."""
    return [each.new_empty(each.shape) for each in inputs]


def channels_last(x: Tensor, shape: Sequence[int]) -> Tensor:
    """An empty tensor (S, N, C, H, W) with its channels last in memory."""
    runs, count, channels, height, width = shape
    return x.new_empty(runs, count, height, width, channels).permute(0, 1, 4, 2, 3)


def all_channels_last(inputs: Sequence[Tensor]) -> list[Tensor]:
    """The ``fake_gradients`` where images and weights have their channels last in memory."""
    return [channels_last(each, each.shape) if each.ndim == 5 else each.new_empty(each.shape) for each in inputs]


def define(
    name: str, forward: Kernel, backward: Kernel, fake: Kernel, fake_gradients: Kernel = like
) -> Callable[..., list[Tensor]]:
    """Register ``dwmr::name`` with `torch.library`: implementation, fake kernel, gradient and `torch.vmap` rule.

    Every tensor that the kernels take and return has a leading run axis, so `torch.vmap` only has to merge the axis
    that it maps over with that one. ``form`` holds whatever the kernels must know besides the tensors.

    Args:
        forward: maps (inputs, form) to a list: the result, then whatever the way back needs.
        backward: maps (gradient, inputs, saved, form, into_first) to the gradients of the inputs, of the first one
            only if asked for.
        fake: maps (inputs, form) to empty tensors of the shapes and strides that ``forward`` returns.
        fake_gradients: maps the inputs to empty tensors of their gradients' shapes and strides.

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

    def fake_backward(gradient: Tensor, inputs: list[Tensor], saved: Any, form: Any, into_first: bool) -> list[Tensor]:
        return list(fake_gradients(inputs)[0 if into_first else 1 :])

    op = _register(name, "(Tensor[] inputs, float[] form) -> Tensor[]", forward, fake)
    schema = "(Tensor gradient, Tensor[] inputs, Tensor[] saved, float[] form, bool into_first) -> Tensor[]"
    back = _register(f"{name}_backward", schema, backward, fake_backward)
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


def value_and_gradient(inputs: Sequence[Tensor], form: Sequence[float]) -> list[Tensor]:
    """The ``fake`` of such an operation, with one value a run."""
    return [inputs[0].new_empty(inputs[0].shape[:1]), *like(inputs)]


def _register(name: str, schema: str, kernel: Kernel, fake: Kernel) -> Callable[..., Any]:
    _LIBRARY.define(f"{name}{schema}")
    _LIBRARY.impl(name, kernel, "CompositeExplicitAutograd")
    torch.library.register_fake(f"dwmr::{name}", fake, lib=_LIBRARY)
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
