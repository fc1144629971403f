"""Pictures beside the rules: what a cell of each symbol looks like, and which pixels a bit depends on."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dwmr.plotting.pictures import new_figure, to_picture
from dwmr.symbolic.cells import Symbols
from dwmr.symbolic.saliency import Box, edges

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXAMPLES = 6  # of each symbol
MAPS = 64  # bits whose maps are drawn
ACROSS = 8


def symbols_png(symbols: Symbols, images: np.ndarray, codes: np.ndarray) -> bytes:
    """A row a symbol: cells that show it, cut from images uint8 (N, C, H, W) with codes (N, K)."""
    layout = symbols.layout
    read = symbols.read(codes)
    rows, cols = edges(images.shape[2], layout.rows), edges(images.shape[3], layout.cols)
    figure = new_figure(0.6 * EXAMPLES + 1.1, 0.62 * symbols.count + 0.1)
    axes = figure.subplots(symbols.count, EXAMPLES, squeeze=False)
    for symbol in range(symbols.count):
        places = np.argwhere(read == symbol)
        chosen = places[np.linspace(0, len(places) - 1, min(EXAMPLES, len(places))).astype(int)]
        for axis in axes[symbol]:
            axis.set_axis_off()
        for axis, (frame, row, col) in zip(axes[symbol], chosen):
            cut = images[frame, :, rows[row] : rows[row + 1], cols[col] : cols[col + 1]]
            axis.imshow(to_picture(cut), interpolation="nearest")
        first = axes[symbol, 0]
        first.text(-0.25, 0.5, symbols.name(symbol), transform=first.transAxes, ha="right", va="center")
    return _png(figure)


def bits_png(shares: np.ndarray, found: Sequence[Box | None], height: int, width: int) -> bytes:
    """Small maps of the pixels that matter to each bit, with its box; the first bits if there are many."""
    count = min(MAPS, len(shares))
    down = -(-count // ACROSS)
    figure = new_figure(1.0 * ACROSS, 1.15 * down)
    axes = figure.subplots(down, ACROSS, squeeze=False)
    for axis in axes.ravel():
        axis.set_axis_off()
    for bit, axis in zip(range(count), axes.ravel()):
        axis.imshow(shares[bit], cmap="Blues", vmin=0, extent=(0, width, height, 0), interpolation="nearest")
        axis.set_title(f"bit {bit}", fontsize=7, pad=2)
        box = found[bit]
        if box is not None:
            top, bottom, left, right = box
            axis.plot([left, right, right, left, left], [top, top, bottom, bottom, top], color="#e08a2e", linewidth=1)
    return _png(figure)


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
    return buffer.getvalue()
