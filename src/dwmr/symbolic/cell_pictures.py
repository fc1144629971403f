"""Pictures beside the rules: what cells of each symbol look like, and which pixels a bit depends on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dwmr.plotting.pictures import figure_png, image_axes, to_picture
from dwmr.symbolic.cells import Box, Symbols, edges

EXAMPLES = 6  # of each symbol
MAX_MAPS = 64  # bits whose maps are drawn
MAPS_ACROSS = 8


def symbols_png(symbols: Symbols, images: np.ndarray, codes: np.ndarray) -> bytes:
    """One row for each symbol: cells that show it, cut from images uint8 (N, C, H, W) with codes (N, K)."""
    layout = symbols.layout
    read = symbols.read(codes)
    rows, cols = edges(images.shape[2], layout.rows), edges(images.shape[3], layout.cols)
    figure, axes = image_axes(symbols.count, EXAMPLES, 0.6 * EXAMPLES + 1.1, 0.62 * symbols.count + 0.1)
    for symbol in range(symbols.count):
        places = np.argwhere(read == symbol)
        chosen = places[np.linspace(0, len(places) - 1, min(EXAMPLES, len(places))).astype(int)]
        for axis, (frame, row, col) in zip(axes[symbol], chosen):
            cut = images[frame, :, rows[row] : rows[row + 1], cols[col] : cols[col + 1]]
            axis.imshow(to_picture(cut), interpolation="nearest")
        first = axes[symbol, 0]
        first.text(-0.25, 0.5, symbols.name(symbol), transform=first.transAxes, ha="right", va="center")
    return figure_png(figure)


def bits_png(shares: np.ndarray, found: Sequence[Box | None], height: int, width: int) -> bytes:
    """A small map for each of the first bits: how much each pixel matters, and the box around those that do."""
    count = min(MAX_MAPS, len(shares))
    down = -(-count // MAPS_ACROSS)
    figure, axes = image_axes(down, MAPS_ACROSS, 1.0 * MAPS_ACROSS, 1.15 * down)
    for bit, axis in zip(range(count), axes.flat):
        axis.imshow(shares[bit], cmap="Blues", vmin=0, extent=(0, width, height, 0), interpolation="nearest")
        axis.set_title(f"bit {bit}", fontsize=7, pad=2)
        if (box := found[bit]) is not None:
            top, bottom, left, right = box
            axis.plot([left, right, right, left, left], [top, top, bottom, bottom, top], color="#e08a2e", linewidth=1)
    return figure_png(figure)
