"""Tiles of 8×8 pixels, drawn in characters, and images of label grids made of them.

The mean colours of the IceSlider tiles and the distances between them decide how hard the noisy world is. The palette
was fitted by least squares to those of the tiles the paper used.
"""

import functools

import numpy as np

SIDE = 8

_CHUNK = 1024  # frames painted at once: their gathered tiles (12 MB) stay near the cache

_PALETTE = {
    ".": (123, 190, 221),  # ice
    "+": (163, 194, 232),  # glint
    "-": (126, 173, 206),  # scratch
    "o": (88, 107, 123),  # boulder: rim, lit side, middle, shade
    "h": (169, 182, 194),
    "m": (134, 129, 139),
    "s": (107, 97, 112),
    "p": (224, 130, 214),  # goal and its rings
    "r": (205, 140, 194),
    "R": (202, 78, 78),  # hat and coat
    "f": (254, 243, 205),  # face and hands
    "k": (16, 36, 58),  # eyes and boots
}

_ICE_SLIDER = """
    ..oooo..  ......++  pppppppp  ..RRRR..
    .ohhmmo.  .....++.  pprrrrpp  .RRRRRR.
    ohhmmmmo  ....++..  prpppprp  ..ffff..
    ohmmmmso  ........  prprrprp  ..fkfk..
    ommmmsso  .++.....  prprrprp  .RRRRRR.
    omsmmsso  ++......  prpppprp  fRRRRRRf
    .ossssoo  +.......  pprrrrpp  ..RRRR..
    ..ooooo.  ......--  pppppppp  ..kk.kk.
"""

_DIGITS = """
    ........  ........  ........  ........  ........  ........
    ...##...  ..####..  .#####..  ....##..  .######.  ..####..
    ..###...  .##..##.  .....##.  ...###..  .##.....  .##.....
    ...##...  ....##..  ..####..  ..#.##..  .#####..  .#####..
    ...##...  ...##...  .....##.  .######.  .....##.  .##..##.
    ...##...  ..##....  .....##.  ....##..  .....##.  .##..##.
    ..####..  .######.  .#####..  ....##..  .#####..  ..####..
    ........  ........  ........  ........  ........  ........
"""
_CELL = {".": (44, 62, 92), "#": (236, 240, 232)}
_CELL_OF_AGENT = {".": (232, 136, 40), "#": (64, 24, 16)}


@functools.cache
def ice_slider() -> np.ndarray:
    """uint8 (4, 8, 8, 3): rock, ice, goal, agent."""
    return from_art(_ICE_SLIDER, _PALETTE)


@functools.cache
def digit_jump() -> np.ndarray:
    """uint8 (12, 8, 8, 3): digits 1 to 6, then the same on the agent's colour."""
    return np.concatenate([from_art(_DIGITS, colours) for colours in (_CELL, _CELL_OF_AGENT)])


def paint(labels: np.ndarray, tiles: np.ndarray) -> np.ndarray:
    """Put a tile into every cell.

    Labels (N, rows, cols) and tiles uint8 (classes, 8, 8, 3) give images uint8 (N, 3, 8·rows, 8·cols).
    """
    n, rows, cols = labels.shape
    images = np.empty((n, 3, rows, SIDE, cols, SIDE), np.uint8)
    # A row of eight bytes is moved as one word.
    strips = np.ascontiguousarray(tiles.transpose(0, 3, 1, 2)).view(np.uint64)[..., 0]
    canvas = images.view(np.uint64)[..., 0]
    for first in range(0, n, _CHUNK):
        part = slice(first, first + _CHUNK)
        canvas[part] = strips[labels[part]].transpose(0, 3, 1, 4, 2)
    return images.reshape(n, 3, rows * SIDE, cols * SIDE)


def mosaic(cells: np.ndarray, pictures: np.ndarray) -> np.ndarray:
    """Put a picture of any size into every cell.

    Indices of pictures (N, rows, cols) and pictures uint8 (P, C, h, w) give images uint8 (N, C, h·rows, w·cols).
    """
    n, rows, cols = cells.shape
    channels, height, width = pictures.shape[1:]
    return pictures[cells].transpose(0, 3, 1, 4, 2, 5).reshape(n, channels, rows * height, cols * width)


def from_art(art: str, palette: dict[str, tuple[int, int, int]]) -> np.ndarray:
    """Tiles side by side in characters as uint8 (tiles, 8, 8, 3)."""
    pixels = np.array([[palette[pixel] for pixel in row] for row in art.split()], np.uint8)
    return pixels.reshape(SIDE, -1, SIDE, 3).swapaxes(0, 1)
