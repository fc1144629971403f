"""Every random number in the project comes from here: one seed, named streams.

``rng(seed, "order", epoch)`` and ``rng(seed, "noise", epoch)`` are independent generators, so an epoch's
randomness can be drawn before it, in any order, and again after a restart.

NumPy promises that the raw 64-bit words of a bit generator never change between versions or machines, but not
the numbers derived from them. Stored data must be byte-identical everywhere, so whatever ends up in a data
folder is drawn with `below` and `words`, which use the raw words alone.
"""

from __future__ import annotations

import zlib

import numpy as np

from dwmr.errors import InputError

_LOW_HALF = np.uint64(32)


def rng(seed: int, *stream: str | int) -> np.random.Generator:
    """Generator of the stream named by words and non-negative numbers."""
    if seed < 0:
        raise InputError(f"a seed must not be negative, got {seed}")
    names = [zlib.crc32(s.encode()) if isinstance(s, str) else s for s in stream]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, *names])))


def words(generator: np.random.Generator, count: int) -> np.ndarray:
    """``count`` raw uint64 words."""
    return generator.bit_generator.random_raw(count)


def below(generator: np.random.Generator, limit: int | np.ndarray, size: int | tuple[int, ...]) -> np.ndarray:
    """Integers in [0, limit), int64 of the given size; ``limit`` (< 2³²) may be an array of that size.

    Multiply-and-shift of 32 random bits: the bias is below limit / 2³².
    """
    raw = words(generator, int(np.prod(size))).reshape(size) >> _LOW_HALF
    return ((raw * np.asarray(limit, dtype=np.uint64)) >> _LOW_HALF).astype(np.int64)


def shuffled(generator: np.random.Generator, count: int) -> np.ndarray:
    """A random order of range(count)."""
    return np.argsort(words(generator, count), kind="stable")
