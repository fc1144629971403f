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


def agreement(predicted: Any, actual: Any) -> dict[str, float]:
    """Percent of equal codes (``exact_next``) and of equal bits (``bits_next``) between two arrays or two tensors, bool
    (N, K)."""
    same = predicted == actual
    count, bits = same.shape
    return {"exact_next": 100 * (int(same.all(1).sum()) / count), "bits_next": 100 * (int(same.sum()) / (count * bits))}


def next_code_agreement(encode: Encode, predict: Predict, obs: Any, actions: Any, next_obs: Any) -> dict[str, float]:
    """`agreement` between the codes that a model predicts one step ahead and the codes of the next frames."""
    predicted, actual = predict(encode(obs), actions), encode(next_obs)
    if all(isinstance(codes, Tensor) and codes.dtype == torch.bool for codes in (predicted, actual)):
        return agreement(predicted, actual)  # where they are
    return agreement(as_bits(predicted), as_bits(actual))


def take(codes: Any, index: np.ndarray) -> Any:
    """Some rows of an array or a tensor."""
    return codes[torch.from_numpy(index).to(codes.device)] if isinstance(codes, Tensor) else np.asarray(codes)[index]


def keys(bits: np.ndarray) -> list[bytes]:
    """A dictionary key for each code of (N, K)."""
    return [row.tobytes() for row in np.packbits(bits, axis=1)]
