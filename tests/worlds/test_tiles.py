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
    tile = tiles.ice_slider()[NAMES.index(name)]
    assert tile.mean((0, 1)) == pytest.approx(MEAN_COLOURS[name], abs=0.6)


@pytest.mark.parametrize("pair", DISTANCES)
def test_tiles_are_as_far_apart_as_the_noisy_benchmark_wants(pair):
    one, other = (tiles.ice_slider()[NAMES.index(name)].astype(float) for name in pair)
    assert np.linalg.norm(one - other) / 127.5 == pytest.approx(DISTANCES[pair], abs=0.1)


def test_no_two_digit_tiles_are_alike():
    drawn = tiles.digit_jump()
    assert drawn.shape == (12, 8, 8, 3)
    assert all((one != other).any(-1).sum() >= 3 for one, other in combinations(drawn, 2))


@pytest.mark.parametrize(
    ("draw", "drawn"),
    [(IceSlider().draw, tiles.ice_slider()), (DigitJump().draw, tiles.digit_jump())],
)
def test_every_cell_shows_the_tile_of_its_label(draw, drawn, monkeypatch):
    monkeypatch.setattr(tiles, "_CHUNK", 3)
    labels = (np.arange(5 * 64).reshape(5, 8, 8) * 7 % len(drawn)).astype(np.uint8)
    images = draw(labels)
    assert images.shape == (5, 3, 64, 64)
    assert images.dtype == np.uint8
    for frame, row, col in np.ndindex(5, 8, 8):
        cell = images[frame, :, 8 * row : 8 * row + 8, 8 * col : 8 * col + 8]
        assert np.array_equal(cell.transpose(1, 2, 0), drawn[labels[frame, row, col]])
