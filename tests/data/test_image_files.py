"""Reading single images."""

import numpy as np
import pytest
from PIL import Image

from dwmr import InputError
from dwmr.data.image_files import read_image
from dwmr.seeding import below, rng

RGB = below(rng(0, "image"), 256, (3, 4, 6)).astype(np.uint8)


def test_png_and_npy_in_both_orders_of_axes_give_the_same_array(tmp_path):
    Image.fromarray(RGB.transpose(1, 2, 0)).save(tmp_path / "image.png")
    np.save(tmp_path / "first.npy", RGB)
    np.save(tmp_path / "last.npy", RGB.transpose(1, 2, 0))
    for name in ("image.png", "first.npy", "last.npy"):
        assert np.array_equal(read_image(tmp_path / name, (3, 4, 6)), RGB)


def test_grey_images_have_one_channel(tmp_path):
    Image.fromarray(RGB[0]).save(tmp_path / "grey.png")
    assert np.array_equal(read_image(tmp_path / "grey.png", (1, 4, 6)), RGB[:1])


def test_what_is_wrong_is_said(tmp_path):
    np.save(tmp_path / "wide.npy", RGB)
    np.save(tmp_path / "float.npy", RGB / 255)
    np.save(tmp_path / "pickle.npy", np.array([{}], object))
    (tmp_path / "text.png").write_text("no image")
    (tmp_path / "text.npy").write_text("no array")
    for name, fault in (
        ("nowhere.png", "does not exist"),
        ("text.png", "cannot be read as an image"),
        ("text.npy", "cannot be read as an image: the magic string is not correct"),
        ("pickle.npy", "cannot be read as an image"),
        ("float.npy", r"holds float64 of shape \(3, 4, 6\)"),
    ):
        with pytest.raises(InputError, match=fault):
            read_image(tmp_path / name, (3, 4, 6))
    with pytest.raises(InputError, match=r"shape \(3, 4, 6\), the run takes uint8 of shape \(3, 4, 4\)"):
        read_image(tmp_path / "wide.npy", (3, 4, 4))
