"""Codes and boards as small grids of cells: inline SVG, coloured by the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from dwmr.report.markup import Markup, element, joined

GAP = 0.05  # margin of a cell on each side, as a share of its side
MAX_NUMBERED = 400  # cells; larger boards show colours without numbers
PALETTE = (  # light enough for dark digits; repeated from the thirteenth label on
    *("#d9dee5", "#bfdcf5", "#c5e6bd", "#fbcf8f", "#dcc8f2", "#b5e3dc"),
    *("#f4c3d9", "#efe79c", "#d9c3ab", "#b7c4ea", "#dcebb4", "#c3c8cf"),
)


def layout(count: int, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """Where to draw ``count`` items: an array (rows, columns) of their indices, -1 for empty places.

    With ``shape`` (rows, cols) the items are drawn as panels of this shape, side by side with gaps between them.
    Otherwise they fill a rectangle close to a square.
    """
    if shape is None or len(shape) != 2:
        return _rectangle(np.arange(count))
    rows, cols = shape
    panels = np.arange(count).reshape(-1, rows, cols)
    framed = np.pad(panels, ((0, 1), (0, 1), (0, 1)), constant_values=-1)
    return np.block([[framed[index] for index in row] for row in _rectangle(np.arange(len(panels)))])[:-1, :-1]


def code(where: np.ndarray, bits: np.ndarray, before: np.ndarray | None = None, kind: str = "flip") -> Markup:
    """Bits bool (K,): dark if on, light if off. Bits that differ from ``before`` get the colour of ``kind``, "flip" or
    "wrong"."""
    marked = np.zeros_like(bits) if before is None else bits != before
    paint = {
        "off": ~bits & ~marked,
        "on": bits & ~marked,
        f"{kind} off": ~bits & marked,
        f"{kind} on": bits & marked,
    }
    return _svg(where, (element("path", d=_squares(where, mask), class_=name) for name, mask in paint.items()))


def board(where: np.ndarray, labels: np.ndarray, true: np.ndarray | None = None) -> Markup:
    """Labels (cells,) as coloured, numbered cells. Cells that differ from ``true`` have a red frame."""
    parts = [
        element("path", d=_squares(where, labels == label), fill=PALETTE[label % len(PALETTE)])
        for label in np.unique(labels).tolist()
    ]
    if len(labels) <= MAX_NUMBERED:
        parts += [
            element("text", labels[where[row, col]], x=col + 0.5, y=row + 0.69) for row, col in np.argwhere(where >= 0)
        ]
    if true is not None:
        parts.append(element("path", d=_squares(where, labels != true), class_="misread"))
    return _svg(where, parts)


def _rectangle(items: np.ndarray) -> np.ndarray:
    """Items row by row in a rectangle at most four times as wide as high, padded with -1 if none is full."""
    count = len(items)
    side = math.sqrt(count)
    full = (cols for cols in range(math.ceil(side), math.ceil(2 * side) + 1) if count % cols == 0)
    cols = next(full, math.ceil(side))
    return np.pad(items, (0, -count % cols), constant_values=-1).reshape(-1, cols)


def _squares(where: np.ndarray, mask: np.ndarray) -> str:
    side = f"{1 - 2 * GAP:g}"
    places = np.argwhere((where >= 0) & mask[where])
    return "".join(f"M{col + GAP:g} {row + GAP:g}h{side}v{side}h-{side}z" for row, col in places)


def _svg(where: np.ndarray, parts: Iterable[Markup]) -> Markup:
    rows, cols = where.shape
    return element("svg", joined(parts, ""), class_="grid", viewBox=f"0 0 {cols} {rows}", role="img")
