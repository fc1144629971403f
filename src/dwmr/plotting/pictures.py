"""Images and figures as PNG, and a preview of transitions. Matplotlib is imported only when one is drawn."""

from __future__ import annotations

import io
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from dwmr.data.transitions import Transitions
from dwmr.errors import InputError
from dwmr.files import PNG_MARK, atomic_write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, PURPLE = COLOURS = ("#3f7fd6", "#e08a2e", "#3f9d6b", "#9a6bc4")
MAX_SIDE = 192  # pixels; larger frames are reduced to about this size
PREVIEWED = 6


def save_preview(transitions: Transitions, path: str | Path) -> None:
    """Write a PNG of six transitions spread over the data: each frame above its next frame, with the action between.

    Raises:
        InputError: matplotlib is not installed.
    """
    count = min(PREVIEWED, len(transitions))
    figure, axes = image_axes(2, count, 1.5 * count, 3.5)
    for column, index in enumerate(np.linspace(0, len(transitions) - 1, count).astype(int)):
        above, below = axes[:, column]
        above.imshow(to_picture(transitions.obs[index]), interpolation="nearest")
        below.imshow(to_picture(transitions.next_obs[index]), interpolation="nearest")
        below.set_title(f"↓ action {transitions.actions[index]}", fontsize=9)
    atomic_write_bytes(path, figure_png(figure))


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
