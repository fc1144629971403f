"""Which pixels a bit depends on, found by swapping pieces of images; any encoder will do."""

from __future__ import annotations

import numpy as np

from dwmr.models.callables import Encode, as_bits
from dwmr.seeding import below, rng
from dwmr.symbolic.cells import Layout

Box = tuple[int, int, int, int]
"""Rows from, up to, and columns from, up to; the ends are left out."""

PIECES = 8  # a side
FRAMES = 64
ENOUGH = 0.25  # of a bit's largest influence: pieces with less are left out of its box


def influence(encode: Encode, images: np.ndarray, pieces: int = PIECES, seed: int = 0) -> np.ndarray:
    """How often each bit flips when a piece of an image is replaced by a piece of another image, cut anywhere: for
    images uint8 (N, C, H, W), shares (K, pieces, pieces)."""
    generator = rng(seed, "saliency")
    before = as_bits(encode(images))
    count, _, height, width = images.shape
    rows, cols = edges(height, pieces), edges(width, pieces)
    shares = np.zeros((before.shape[1], pieces, pieces))
    for row in range(pieces):
        for col in range(pieces):
            top, left = rows[row], cols[col]
            tall, wide = rows[row + 1] - top, cols[col + 1] - left
            changed = np.array(images)
            givers = below(generator, count, count)
            tops = rows[below(generator, pieces, count)].clip(max=height - tall)
            lefts = cols[below(generator, pieces, count)].clip(max=width - wide)
            for index, (giver, y, x) in enumerate(zip(givers, tops, lefts)):
                changed[index, :, top : top + tall, left : left + wide] = images[giver, :, y : y + tall, x : x + wide]
            shares[:, row, col] = (as_bits(encode(changed)) != before).mean(0)
    return shares


def boxes(shares: np.ndarray, height: int, width: int) -> list[Box | None]:
    """The smallest box around the pieces that matter to each bit; None for a bit that nothing flipped."""
    pieces = shares.shape[1]
    rows, cols = edges(height, pieces), edges(width, pieces)
    found: list[Box | None] = []
    for share in shares:
        matters = share >= ENOUGH * share.max()
        if share.max() == 0:
            found.append(None)
            continue
        down, across = np.flatnonzero(matters.any(1)), np.flatnonzero(matters.any(0))
        found.append((int(rows[down[0]]), int(rows[down[-1] + 1]), int(cols[across[0]]), int(cols[across[-1] + 1])))
    return found


def cell_box(layout: Layout, bit: int, height: int, width: int) -> Box:
    """The pixels of the cell that a bit belongs to."""
    _, row, col = layout.place(bit)
    rows, cols = edges(height, layout.rows), edges(width, layout.cols)
    return int(rows[row]), int(rows[row + 1]), int(cols[col]), int(cols[col + 1])


def edges(length: int, pieces: int) -> np.ndarray:
    """Where the pieces of a side begin, and where the last one ends."""
    return np.arange(pieces + 1) * length // pieces
