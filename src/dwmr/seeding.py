"""All random numbers of the project: one seed, named streams.

``rng(seed, "order", epoch)`` and ``rng(seed, "noise", epoch)`` are independent generators. So the randomness of an
epoch can be drawn in advance, in any order, and again after a restart.

NumPy guarantees that the raw 64-bit words of a bit generator are the same in every version and on every machine, but
not the numbers derived from them. Stored data must be byte-identical everywhere, so everything in a data folder is
drawn with `below` and `words`, which use only the raw words.
"""

import zlib

import numpy as np

from dwmr.errors import InputError

_LOW_HALF = np.uint64(32)


def rng(seed: int, *stream: str | int) -> np.random.Generator:
    """The generator of a stream, which is named by words and non-negative integers."""
    if seed < 0:
        raise InputError(f"the seed must be 0 or more, got {seed}")
    names = [zlib.crc32(s.encode()) if isinstance(s, str) else s for s in stream]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, *names])))


def words(generator: np.random.Generator, count: int) -> np.ndarray:
    """``count`` raw words, uint64 (count,)."""
    return generator.bit_generator.random_raw(count)


def below(generator: np.random.Generator, limit: int | np.ndarray, size: int | tuple[int, ...]) -> np.ndarray:
    """Random integers in [0, limit), int64 of this size. ``limit`` (< 2³²) may be an array of the same size.

    Computed as (32 random bits · limit) >> 32, so the bias is below limit / 2³².
    """
    raw = words(generator, int(np.prod(size))).reshape(size) >> _LOW_HALF
    return ((raw * np.asarray(limit, dtype=np.uint64)) >> _LOW_HALF).astype(np.int64)


def shuffled(generator: np.random.Generator, count: int) -> np.ndarray:
    """A random permutation of range(count)."""
    return np.argsort(words(generator, count), kind="stable")
