"""Which pixels a bit depends on, found by swapping pieces of images; any encoder will do."""

from __future__ import annotations

import numpy as np

from dwmr.models.callables import Encode, as_bits
from dwmr.seeding import below, rng
from dwmr.symbolic.cells import Box, edges

PIECES = 8  # along each side
FRAMES = 64
MIN_INFLUENCE = 0.25  # of a bit's largest influence; pieces with less are left out of its box


def influence(encode: Encode, images: np.ndarray, pieces: int = PIECES, seed: int = 0) -> np.ndarray:
    """How often each bit flips when a piece of an image is replaced by any piece of another image.

    Images uint8 (N, C, H, W) give shares (K, pieces, pieces).
    """
    generator = rng(seed, "saliency")
    before = as_bits(encode(images))
    count, _, height, width = images.shape
    rows, cols = edges(height, pieces), edges(width, pieces)
    shares = np.zeros((before.shape[1], pieces, pieces))
    for row, col in np.ndindex(pieces, pieces):
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
    rows, cols = edges(height, shares.shape[1]), edges(width, shares.shape[1])
    found: list[Box | None] = []
    for share in shares:
        if not share.any():
            found.append(None)
            continue
        matters = share >= MIN_INFLUENCE * share.max()
        down, across = np.flatnonzero(matters.any(1)), np.flatnonzero(matters.any(0))
        found.append((int(rows[down[0]]), int(rows[down[-1] + 1]), int(cols[across[0]]), int(cols[across[-1] + 1])))
    return found
