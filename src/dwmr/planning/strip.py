"""A plan as pictures: real frames above imagined ones, as a PNG and as a GIF."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from dwmr.data.image_files import pillow
from dwmr.files import GIF_MARK, atomic_write_bytes
from dwmr.planning.painting import Painter
from dwmr.plotting.pictures import figure_png, image_axes, to_picture

COLUMNS = 12  # frames side by side
PAUSE = 500  # milliseconds a frame of the GIF


@dataclass(frozen=True)
class Strip:
    """What is shown: for each of T + 1 steps the real frame (None if none was seen) and the imagined code, int64
    (T + 1, W), and the names of the T actions between them."""

    real: Sequence[np.ndarray | None]
    codes: Tensor
    actions: Sequence[str]
    title: str


def strip_files(path: Path) -> tuple[Path, Path]:
    """The files that `save_strip` writes: a PNG, and a GIF beside it."""
    return path.with_suffix(".png"), path.with_suffix(".gif")


def save_strip(strip: Strip, painter: Painter, path: Path) -> None:
    """Write a strip, its imagined codes drawn by the painter, to the `strip_files` of a path."""
    imagined = painter(strip.codes)
    note = f"above: real frames; below: imagined codes, drawn by {painter.source}"
    picture, animation = strip_files(path)
    atomic_write_bytes(picture, _png(strip, imagined, note))
    atomic_write_bytes(animation, _gif(strip, imagined, note))


def _png(strip: Strip, imagined: np.ndarray, note: str) -> bytes:
    rows, columns = -(-len(imagined) // COLUMNS), min(COLUMNS, len(imagined))
    figure, axes = image_axes(2 * rows, columns, 1.05 * columns + 0.5, 2.45 * rows + 0.5)
    for step, (real, drawn) in enumerate(zip(strip.real, imagined)):
        row, column = 2 * (step // COLUMNS), step % COLUMNS
        above, below = axes[row, column], axes[row + 1, column]
        if real is not None:
            above.imshow(to_picture(real), interpolation="nearest")
        below.imshow(to_picture(drawn), interpolation="nearest")
        above.set_title("start" if step == 0 else f"{step}: {strip.actions[step - 1]}", fontsize=8)
    figure.suptitle(f"{strip.title}\n{note}", fontsize=8)
    return figure_png(figure, dpi=80)


def _gif(strip: Strip, imagined: np.ndarray, note: str) -> bytes:
    Image = pillow()
    frames = []
    for real, drawn in zip(strip.real, imagined):
        below = to_picture(drawn)
        above = np.zeros_like(below) if real is None else to_picture(real)
        gap = np.full((4, *below.shape[1:]), 255, np.uint8)
        both = Image.fromarray(np.concatenate([above, gap, below]))
        frames.append(both.resize((2 * both.width, 2 * both.height), Image.Resampling.NEAREST))
    buffer, comment = io.BytesIO(), (GIF_MARK + note).encode()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:], duration=PAUSE, loop=0, comment=comment)
    return buffer.getvalue()
