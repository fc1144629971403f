"""How precisely a GPU multiplies float32 numbers, for a while; without a GPU nothing changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def full_float32() -> Iterator[None]:
    """No TF32 in products and convolutions."""
    with _precision("cudnn", quick=False), _precision("cuda.matmul", quick=False):
        yield


@contextmanager
def quick_products() -> Iterator[None]:
    """Matrix products in TF32, as convolutions are by default."""
    with _precision("cuda.matmul", quick=True):
        yield


@contextmanager
def _precision(what: str, quick: bool) -> Iterator[None]:
    if not torch.cuda.is_available():
        yield
        return
    part: Any = torch.backends.cudnn if what == "cudnn" else torch.backends.cuda.matmul
    name: str = "allow_tf32"
    value: bool | str = quick
    if hasattr(torch.backends.cudnn, "conv"):  # from torch 2.9 on, where the older names must not be mixed in
        part = part.conv if what == "cudnn" else part
        name, value = "fp32_precision", "tf32" if quick else "ieee"
    before = getattr(part, name)
    setattr(part, name, value)
    try:
        yield
    finally:
        setattr(part, name, before)
