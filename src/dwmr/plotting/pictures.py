"""Images and figures as PNG. Matplotlib is imported only when one is drawn."""

from __future__ import annotations

import io
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from dwmr.errors import InputError
from dwmr.files import PNG_MARK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, PURPLE = COLOURS = ("#3f7fd6", "#e08a2e", "#3f9d6b", "#9a6bc4")
MAX_SIDE = 192  # pixels; larger frames are reduced to about this size


def to_picture(image: np.ndarray) -> np.ndarray:
    """A frame uint8 (C, H, W) as uint8 (H, W, 3), or (H, W, 4) with four channels. With any other number of channels
    the first one is shown in grey."""
    channels, height, width = image.shape
    step = -(-max(height, width) // MAX_SIDE)
    shown = image if channels in (3, 4) else np.repeat(image[:1], 3, axis=0)
    return np.ascontiguousarray(shown[:, ::step, ::step].transpose(1, 2, 0))


def png_bytes(picture: np.ndarray) -> bytes:
    """uint8 (H, W, 3 or 4) as a PNG file."""
    buffer = io.BytesIO()
    require_matplotlib().image.imsave(buffer, picture, format="png", metadata={"Software": None})
    return buffer.getvalue()


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of this size in inches, outside of pyplot's global state."""
    return require_matplotlib().figure.Figure(figsize=(width, height), layout="constrained")


def image_axes(rows: int, columns: int, width: float, height: float) -> tuple[Figure, np.ndarray]:
    """A figure of this size in inches, and its axes (rows, columns) for images, without frames and ticks."""
    figure = new_figure(width, height)
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat:
        axis.set_axis_off()
    return figure, axes


def figure_png(figure: Figure, dpi: int = 110) -> bytes:
    """A figure as a PNG file; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, metadata=PNG_MARK)
    return buffer.getvalue()


def require_matplotlib() -> ModuleType:
    try:
        import matplotlib.colors
        import matplotlib.figure
        import matplotlib.image
    except ImportError as error:
        raise InputError("pictures and reports need matplotlib: pip install 'dwmr[report]'") from error
    return matplotlib
