"""Frames as pictures."""

import sys

import numpy as np
import pytest

from dwmr.errors import InputError
from dwmr.plotting.pictures import figure_png, new_figure, to_picture

pytest.importorskip("matplotlib")

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize(("channels", "depth"), [(1, 3), (2, 3), (3, 3), (4, 4), (5, 3)])
def test_images_of_any_channels_become_pictures(channels, depth):
    image = np.arange(channels * 6, dtype=np.uint8).reshape(channels, 2, 3)
    picture = to_picture(image)
    assert picture.shape == (2, 3, depth)
    assert (picture[..., 0] == image[0]).all()


def test_large_images_are_thinned_out():
    assert to_picture(np.zeros((3, 480, 640), np.uint8)).shape == (120, 160, 3)


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"pip install 'dwmr\[report\]'"):
        new_figure(2, 1)


def test_a_figure_gives_the_same_file_every_time():
    def drawn() -> bytes:
        figure = new_figure(2, 1)
        figure.add_subplot().plot([0, 1], [0, 1])
        return figure_png(figure)

    assert drawn() == drawn()
    assert drawn().startswith(PNG)
