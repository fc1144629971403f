"""Any world model as two plain functions."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dwmr.errors import InputError

Encode = Callable[[np.ndarray], Any]
"""Images uint8 (N, C, H, W) to bits (N, K)."""
Predict = Callable[[Any, np.ndarray], Any]
"""What encode or predict returned, and integers (N,), to the next bits (N, K)."""


def as_bits(codes: Any) -> np.ndarray:
    """Codes as bool (N, K), from Booleans or numbers 0 and 1, NumPy or torch."""
    array = codes.detach().cpu().numpy() if isinstance(codes, Tensor) else np.asarray(codes)
    if array.ndim != 2:
        raise InputError(f"codes must have the shape (N, K), got {array.shape}")
    if array.dtype != np.bool_:
        if not np.isin(array, (0, 1)).all():
            raise InputError("codes must be Boolean, or numbers 0 and 1")
        array = array.astype(bool)
    return array


def agreement(predicted: np.ndarray, actual: np.ndarray) -> dict[str, float]:
    """Percent of equal codes (``exact_next``) and of equal bits (``bits_next``) between two arrays, bool (N, K)."""
    same = predicted == actual
    return {"exact_next": 100 * float(same.all(1).mean()), "bits_next": 100 * float(same.mean())}


def take(codes: Any, index: np.ndarray) -> Any:
    """Some rows of an array or a tensor."""
    return codes[torch.from_numpy(index).to(codes.device)] if isinstance(codes, Tensor) else np.asarray(codes)[index]


def keys(bits: np.ndarray) -> list[bytes]:
    """A dictionary key for each code of (N, K)."""
    return [row.tobytes() for row in np.packbits(bits, axis=1)]
