"""A world model as two plain callables, whoever made it, and what can be reached in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dwmr.errors import InputError

Encode = Callable[[np.ndarray], Any]
"""Images uint8 (N, C, H, W) to bits (N, K)."""
Predict = Callable[[Any, np.ndarray], Any]
"""What encode or predict returned, and integers (N,), to the next bits (N, K)."""


@dataclass(frozen=True)
class Reachable:
    """What can be reached from a code, itself first: codes bool (S, K), and for each code and action the number of the
    next code, int (S, A), −1 past the limit."""

    codes: np.ndarray
    table: np.ndarray

    @property
    def complete(self) -> bool:
        return bool((self.table >= 0).all())


def as_bits(codes: Any) -> np.ndarray:
    """Codes of any kind as bool (N, K); what is no code is refused."""
    array = codes.detach().cpu().numpy() if isinstance(codes, Tensor) else np.asarray(codes)
    if array.ndim != 2:
        raise InputError(f"codes must have the shape (N, K), got {array.shape}")
    if array.dtype != np.bool_:
        if not np.isin(array, (0, 1)).all():
            raise InputError("codes must be Boolean, or numbers 0 and 1")
        array = array.astype(bool)
    return array


def take(codes: Any, index: np.ndarray) -> Any:
    """Rows of an array or tensor, of the same kind."""
    return codes[torch.from_numpy(index).to(codes.device)] if isinstance(codes, Tensor) else np.asarray(codes)[index]


def keys(bits: np.ndarray) -> list[bytes]:
    """Something to look each code up by."""
    return [row.tobytes() for row in np.packbits(bits, axis=1)]


def explore(predict: Predict, starts: Any, n_actions: int, limits: np.ndarray) -> list[Reachable]:
    """Everything that can be reached in the model from each of N codes (N, K), breadth first, at most ``limits`` (N,)
    codes from each. All searches go on at once, so the model is asked for many codes at a time."""
    bits = as_bits(starts)
    number = [{key: 0} for key in keys(bits)]
    codes = [[row] for row in bits]
    tables: list[list[list[int]]] = [[] for _ in bits]
    frontier, owners = starts, list(range(len(bits)))
    while owners:
        repeated = take(frontier, np.repeat(np.arange(len(owners)), n_actions))
        found = predict(repeated, np.tile(np.arange(n_actions), len(owners)))
        found_bits = as_bits(found)
        found_keys = keys(found_bits)
        fresh, fresh_owners = [], []
        for place, owner in enumerate(owners):
            row = []
            for index in range(place * n_actions, (place + 1) * n_actions):
                known, key = number[owner], found_keys[index]
                if key not in known and len(known) < limits[owner]:
                    known[key] = len(known)
                    codes[owner].append(found_bits[index])
                    fresh.append(index)
                    fresh_owners.append(owner)
                row.append(known.get(key, -1))
            tables[owner].append(row)
        frontier, owners = take(found, np.array(fresh, dtype=np.int64)), fresh_owners
    return [Reachable(np.stack(each), np.array(table)) for each, table in zip(codes, tables)]
