"""A plan as pictures: real frames over imagined ones, as a PNG and as a GIF, and images read from files."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
from torch import Tensor

from dwmr.errors import InputError
from dwmr.files import GIF_MARK, PNG_MARK, atomic_write_bytes
from dwmr.plotting.pictures import new_figure, to_picture
from dwmr.worlds.actions import NAMES

COLUMNS = 12  # frames side by side
PAUSE = 500  # milliseconds a frame of the GIF


@dataclass(frozen=True)
class Strip:
    """What is shown, for each of T + 1 steps: the real frame (None where none was seen) and the imagined code, int64
    (T + 1, W); and the T actions between them."""

    real: Sequence[np.ndarray | None]
    codes: Tensor
    actions: Sequence[int]
    title: str


def strip_files(path: Path) -> tuple[Path, Path]:
    """What `save_strip` writes: a PNG and beside it a GIF."""
    return path.with_suffix(".png"), path.with_suffix(".gif")


def save_strip(strip: Strip, imagined: np.ndarray, painted_by: str, path: Path) -> list[Path]:
    """Write PATH as a PNG and beside it a GIF, with the codes drawn as uint8 (T + 1, C, H, W); both names."""
    picture, animation = strip_files(path)
    note = f"above: real frames; below: imagined codes, drawn by {painted_by}"
    atomic_write_bytes(picture, _png(strip, imagined, note))
    atomic_write_bytes(animation, _gif(strip, imagined, note))
    return [picture, animation]


def read_image(path: Path, shape: tuple[int, int, int]) -> np.ndarray:
    """A PNG, or an .npy with the axes (C, H, W) or (H, W, C), as uint8 of the shape (C, H, W)."""
    if not path.is_file():
        raise InputError(f"{path} does not exist")
    channels, height, width = shape
    if path.suffix == ".npy":
        try:
            image = np.load(path, allow_pickle=False)
        except (ValueError, EOFError, OSError) as error:
            raise InputError(f"{path} is no array of an image: {error}") from error
    else:
        try:
            with _pillow().open(path) as opened:
                image = np.asarray(opened.convert({1: "L", 3: "RGB", 4: "RGBA"}.get(channels, "RGB")))
        except OSError as error:
            raise InputError(f"{path} cannot be read as an image: {error}") from error
        image = image[..., None] if image.ndim == 2 else image
    if image.shape == (height, width, channels) and image.shape != shape:
        image = image.transpose(2, 0, 1)
    if image.shape != shape or image.dtype != np.uint8:
        raise InputError(f"{path} holds {image.dtype} of shape {image.shape}, the run takes uint8 of shape {shape}")
    return np.ascontiguousarray(image)


def action_names(actions: Sequence[int], n_actions: int) -> list[str]:
    """The names of the four moves on a grid; other actions are numbers."""
    return [NAMES[action] if n_actions == len(NAMES) else str(action) for action in actions]


def _png(strip: Strip, imagined: np.ndarray, note: str) -> bytes:
    count = len(imagined)
    rows, columns = -(-count // COLUMNS), min(COLUMNS, count)
    figure = new_figure(1.05 * columns + 0.5, 2.45 * rows + 0.5)
    axes = figure.subplots(2 * rows, columns, squeeze=False)
    for axis in axes.flat:
        axis.set_axis_off()
    names = action_names(strip.actions, 4)
    for step in range(count):
        row, column = 2 * (step // COLUMNS), step % COLUMNS
        above, below = axes[row, column], axes[row + 1, column]
        real = strip.real[step]
        if real is not None:
            above.imshow(to_picture(real), interpolation="nearest")
        below.imshow(to_picture(imagined[step]), interpolation="nearest")
        above.set_title("start" if step == 0 else f"{step}: {names[step - 1]}", fontsize=8)
    figure.suptitle(f"{strip.title}\n{note}", fontsize=8)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=80, metadata=PNG_MARK)
    return buffer.getvalue()


def _gif(strip: Strip, imagined: np.ndarray, note: str) -> bytes:
    pillow = _pillow()
    frames = []
    for real, drawn in zip(strip.real, imagined):
        below = to_picture(drawn)
        above = np.zeros_like(below) if real is None else to_picture(real)
        gap = np.full((4, *below.shape[1:]), 255, np.uint8)
        both = pillow.fromarray(np.concatenate([above, gap, below]))
        frames.append(both.resize((2 * both.width, 2 * both.height), pillow.Resampling.NEAREST))
    buffer = io.BytesIO()
    frames[0].save(
        buffer,
        "GIF",
        save_all=True,
        append_images=frames[1:],
        duration=PAUSE,
        loop=0,
        comment=(GIF_MARK + note).encode(),
    )
    return buffer.getvalue()


def _pillow() -> ModuleType:
    try:
        from PIL import Image
    except ImportError as error:
        raise InputError("images and strips need Pillow; pip install 'dwmr[report]'") from error
    return Image
