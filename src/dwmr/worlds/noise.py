"""Gaussian pixel noise that is the same bytes on every machine: raw random words index a table of quantiles."""

import functools
import statistics

import numpy as np

from dwmr.seeding import words

MAX_STD = 10.0

_LEVELS = 1 << 16
_CHUNK = 1 << 18  # pixels per step, to stay in the cache; a multiple of the 4 that share a word


def add_noise(images: np.ndarray, generator: np.random.Generator, std: float = 0.5) -> np.ndarray:
    """Images (uint8, any shape) plus clipped noise of standard deviation ``std`` on the [0, 1] scale.

    Pixel i takes the 16 bits i mod 4 of word i // 4, counted from the lowest.
    """
    if images.dtype != np.uint8:
        raise ValueError(f"images must be uint8, got {images.dtype}")
    table = quantiles(std)
    pixels = images.reshape(-1)
    noisy = np.empty(pixels.shape, np.uint8)
    for first in range(0, len(pixels), _CHUNK):
        part = pixels[first : first + _CHUNK]
        indices = words(generator, -(-len(part) // 4)).astype("<u8", copy=False).view("<u2")[: len(part)]
        sums = table[indices]
        sums += part
        np.clip(sums, 0, 255, out=sums)
        noisy[first : first + _CHUNK] = sums
    return noisy.reshape(images.shape)


@functools.cache
def quantiles(std: float) -> np.ndarray:
    """int16 (65,536,), read-only: equally likely values of the normal distribution, in steps of 1/255."""
    if not 0 <= std <= MAX_STD:
        raise ValueError(f"std must lie between 0 and {MAX_STD:g} on the [0, 1] scale, got {std}")
    inverse = statistics.NormalDist().inv_cdf
    upper = np.array([inverse((step + 0.5) / _LEVELS) for step in range(_LEVELS // 2, _LEVELS)])
    positive = np.rint(upper * (std * 255)).astype(np.int16)
    table = np.concatenate([-positive[::-1], positive])
    table.flags.writeable = False
    return table
