"""How a GPU rounds the factors of float32 products and convolutions: not at all, or to TF32, which is faster."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch


@contextmanager
def products(*, tf32: bool) -> Iterator[None]:
    """Round to TF32 in this block, or round nothing; without a GPU nothing changes."""
    with ExitStack() as stack:
        if torch.cuda.is_available():
            matmul: Any = torch.backends.cuda.matmul
            if hasattr(torch.backends.cudnn, "conv"):  # since torch 2.9, where the older names must not be mixed in
                for part in (torch.backends.cudnn.conv, matmul):
                    stack.enter_context(_set(part, "fp32_precision", "tf32" if tf32 else "ieee"))
            else:
                for part in (torch.backends.cudnn, matmul):
                    stack.enter_context(_set(part, "allow_tf32", tf32))
        yield


@contextmanager
def _set(part: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(part, name)
    setattr(part, name, value)
    try:
        yield
    finally:
        setattr(part, name, before)
