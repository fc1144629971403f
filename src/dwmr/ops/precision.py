"""Full float32 on a GPU, where products and convolutions may otherwise be rounded to TF32."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch


@contextmanager
def full_float32() -> Iterator[None]:
    """No TF32 in this block; without a GPU nothing changes."""
    with ExitStack() as stack:
        if torch.cuda.is_available():
            matmul: Any = torch.backends.cuda.matmul
            if hasattr(torch.backends.cudnn, "conv"):  # since torch 2.9, where the older names must not be mixed in
                for part in (torch.backends.cudnn.conv, matmul):
                    stack.enter_context(_set(part, "fp32_precision", "ieee"))
            else:
                for part in (torch.backends.cudnn, matmul):
                    stack.enter_context(_set(part, "allow_tf32", False))
        yield


@contextmanager
def _set(part: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(part, name)
    setattr(part, name, value)
    try:
        yield
    finally:
        setattr(part, name, before)
