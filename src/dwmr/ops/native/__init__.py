"""Hand-written CPU kernels, and the functions that call them on tensors of one run.

A lane of the processor's vectors holds one image, so a layer reads like the formula for a single image (`lanes.h`).
"""

import ctypes
import weakref
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dwmr.ops.native.build import library

__all__ = ["Step", "call", "lanes", "library", "reused_memory", "stacked"]


class Convolution(ctypes.Structure):
    """A convolution of images (inputs, height, width), as declared in `convolution.h`."""

    _fields_ = [
        (name, ctypes.c_int)
        for name in ("inputs", "outputs", "height", "width", "kernel", "stride", "dilation", "padding")
    ]


class Step(ctypes.Structure):
    """A convolution with what follows it, as declared in `chain.cpp`."""

    _fields_ = [
        ("conv", Convolution),
        *((name, ctypes.c_int) for name in ("norm", "residual", "pooled")),
        ("epsilon", ctypes.c_float),
        *((name, ctypes.c_void_p) for name in ("weight", "bias", "scale", "shift", "mean", "variance")),
        *((name, ctypes.c_void_p) for name in ("dweight", "dbias", "dscale", "dshift")),
    ]


def call(name: str, *arguments: Any) -> Any:
    """A kernel's result, where `library()` was found; tensors are passed by address."""
    addresses = [ctypes.c_void_p(each.data_ptr()) if isinstance(each, Tensor) else each for each in arguments]
    return getattr(library(), f"dwmr_{name}")(*addresses)


def lanes() -> int:
    """Images side by side in one vector of the kernels; 0 where there are no kernels."""
    return call("lanes") if library() is not None else 0


# As `torch.compiler.assume_constant_result` does, which would import the compiler at once.
lanes._dynamo_marked_constant = True  # type: ignore[attr-defined]


_free: dict[int, list[np.ndarray]] = defaultdict(list)


def reused_memory(floats: int) -> Tensor:
    """A float32 tensor of undefined content. Its memory is kept and used again once the tensor is gone, because taking
    this much from the system costs more than the pass that needs it."""
    whole = _free[floats].pop() if _free[floats] else np.empty(floats + 16, np.float32)
    offset = (-whole.ctypes.data // 4) % 16  # 64-byte aligned
    part = whole[offset : offset + floats]
    weakref.finalize(part, _free[floats].append, whole)
    return torch.from_numpy(part)


def stacked(found: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """The tensors of each run as tensors with a leading run axis; of a single run without a copy."""
    return [torch.stack(parts) if len(parts) > 1 else parts[0].unsqueeze(0) for parts in zip(*found, strict=True)]
