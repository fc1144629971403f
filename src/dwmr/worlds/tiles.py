"""Images of label grids, made of one picture per label, and pictures drawn in characters."""

import re

import numpy as np

SIDE = 8  # pixels of a picture that is drawn in characters

_CHUNK = 1024  # frames drawn at once: their pictures (12 MB) stay near the cache


def mosaic(labels: np.ndarray, pictures: np.ndarray) -> np.ndarray:
    """Put the picture of its label into every cell.

    Labels (N, rows, cols) and pictures uint8 (classes, C, h, w) give images uint8 (N, C, h·rows, w·cols).
    """
    count, rows, cols = labels.shape
    channels, height, width = pictures.shape[1:]
    strips = np.ascontiguousarray(pictures).view(f"V{width}")[..., 0]  # a row of pixels is moved as one item
    images = np.empty((count, channels, rows, height, cols), strips.dtype)
    for first in range(0, count, _CHUNK):
        part = slice(first, first + _CHUNK)
        images[part] = strips[labels[part]].transpose(0, 3, 1, 4, 2)
    return images.view(np.uint8).reshape(count, channels, rows * height, cols * width)


def from_art(art: str, palette: str) -> np.ndarray:
    """Pictures side by side in characters as uint8 (pictures, 3, 8, 8).

    The palette lists each character, its colour and what it shows, such as ``. 7bbedd ice``.
    """
    known = {pixel: tuple(bytes.fromhex(colour)) for pixel, colour in re.findall(r"(\S) ([0-9a-f]{6})\b", palette)}
    pixels = np.array([[known[pixel] for pixel in row] for row in art.split()], np.uint8)
    return pixels.reshape(SIDE, -1, SIDE, 3).transpose(1, 3, 0, 2)


def colours(codes: str) -> np.ndarray:
    """Hexadecimal colours, such as ``f5f5f5 fa7d14``, as uint8 (colours, 3)."""
    return np.frombuffer(bytes.fromhex(codes), np.uint8).reshape(-1, 3)
