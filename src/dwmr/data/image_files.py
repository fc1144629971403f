"""Single images from files."""

from pathlib import Path

import numpy as np

from dwmr.errors import InputError


def read_image(path: Path, shape: tuple[int, int, int]) -> np.ndarray:
    """Read a PNG, or an .npy file with axes (C, H, W) or (H, W, C), as uint8 of the shape (C, H, W).

    Raises:
        InputError: there is no such file, it is not an image, or its shape is another one.
    """
    if not path.is_file():
        raise InputError(f"{path} does not exist")
    channels, height, width = shape
    try:
        if path.suffix == ".npy":
            with open(path, "rb") as file:
                image = np.lib.format.read_array(file, allow_pickle=False)
        else:
            from PIL import Image

            with Image.open(path) as opened:
                image = np.asarray(opened.convert({1: "L", 4: "RGBA"}.get(channels, "RGB")))
    except ImportError as error:
        raise InputError("reading images needs Pillow; pip install 'dwmr[report]'") from error
    except (ValueError, EOFError, OSError) as error:
        raise InputError(f"{path} cannot be read as an image: {error}") from error
    if image.ndim == 2:
        image = image[..., None]
    if image.shape == (height, width, channels) and image.shape != shape:
        image = image.transpose(2, 0, 1)
    if image.shape != shape or image.dtype != np.uint8:
        raise InputError(f"{path} holds {image.dtype} of shape {image.shape}, the run takes uint8 of shape {shape}")
    return np.ascontiguousarray(image)
