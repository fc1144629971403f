from itertools import combinations

import numpy as np
import pytest

from dwmr.worlds import tiles
from dwmr.worlds.digit_jump import DigitJump
from dwmr.worlds.ice_slider import IceSlider

NAMES = ("rock", "ice", "goal", "agent")
MEAN_COLOURS = {
    "rock": (115, 130, 146),
    "ice": (130, 190, 222),
    "goal": (218, 133, 208),
    "agent": (161, 137, 146),
}
# Euclidean, in units of the benchmark's noise: half the range of a byte.
DISTANCES = {
    ("rock", "ice"): 7.1,
    ("ice", "goal"): 6.8,
    ("rock", "goal"): 8.4,
    ("rock", "agent"): 7.6,
    ("ice", "agent"): 9.7,
    ("goal", "agent"): 9.2,
}


@pytest.mark.parametrize("name", NAMES)
def test_mean_colours(name):
    tile = IceSlider.pictures[NAMES.index(name)]
    assert tile.mean((1, 2)) == pytest.approx(MEAN_COLOURS[name], abs=0.6)


@pytest.mark.parametrize("pair", DISTANCES)
def test_tiles_are_as_far_apart_as_the_noisy_benchmark_wants(pair):
    one, other = (IceSlider.pictures[NAMES.index(name)].astype(float) for name in pair)
    assert np.linalg.norm(one - other) / 127.5 == pytest.approx(DISTANCES[pair], abs=0.1)


def test_no_two_digit_tiles_are_alike():
    drawn = DigitJump.pictures
    assert drawn.shape == (12, 3, 8, 8)
    assert all((one != other).any(0).sum() >= 3 for one, other in combinations(drawn, 2))


@pytest.mark.parametrize("world", [IceSlider(), DigitJump()])
def test_every_cell_shows_the_tile_of_its_label(world, monkeypatch):
    monkeypatch.setattr(tiles, "_CHUNK", 3)
    labels = (np.arange(5 * 64).reshape(5, 8, 8) * 7 % world.n_classes).astype(np.uint8)
    images = world.draw(labels, None)
    assert images.shape == (5, 3, 64, 64)
    assert images.dtype == np.uint8
    for frame, row, col in np.ndindex(5, 8, 8):
        cell = images[frame, :, 8 * row : 8 * row + 8, 8 * col : 8 * col + 8]
        assert np.array_equal(cell, world.pictures[labels[frame, row, col]])


def test_pictures_of_any_shape_are_put_side_by_side():
    pictures = np.arange(2 * 1 * 1 * 3, dtype=np.uint8).reshape(2, 1, 1, 3)
    assert tiles.mosaic(np.array([[[0, 1], [1, 0]]]), pictures).tolist() == [[[[0, 1, 2, 3, 4, 5], [3, 4, 5, 0, 1, 2]]]]


def test_colours_are_given_in_hexadecimal():
    assert tiles.colours("ff0080 000001").tolist() == [[255, 0, 128], [0, 0, 1]]
