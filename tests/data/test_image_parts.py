import numpy as np
import pytest

from dwmr.data.image_parts import PartLayout, Parts, find_parts
from dwmr.errors import InputError

HEIGHT, WIDTH = 24, 36


def sectors(count: int = 5) -> np.ndarray:
    """Which of the sectors around the middle each pixel lies in, (H, W), as in a cake; -1 in the corners."""
    rows, cols = np.mgrid[:HEIGHT, :WIDTH]
    angle = np.arctan2(rows - HEIGHT / 2 + 0.5, cols - WIDTH / 2 + 0.5)
    inside = np.hypot(rows - HEIGHT / 2, cols - WIDTH / 2) < HEIGHT / 2
    return np.where(inside, np.floor((angle + np.pi) / (2 * np.pi) * count).astype(int) % count, -1)


def states(count: int = 1500, parts: int = 5, values: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, values, (count, parts))


COLOURS = np.array([[250, 30, 30], [30, 250, 30], [40, 40, 250]], np.uint8)


def cakes(state: np.ndarray) -> np.ndarray:
    """States (N, 5) as images whose sectors have the colours of the state, uint8 (N, 3, H, W)."""
    places = sectors()
    images = np.full((len(state), HEIGHT, WIDTH, 3), 90, np.uint8)
    images[:, places >= 0] = COLOURS[state][:, places[places >= 0]]
    return images.transpose(0, 3, 1, 2)


def blurred(images: np.ndarray) -> np.ndarray:
    """Each pixel with the mean of itself and its neighbours to the right and below."""
    wide = images.astype(float)
    wide[..., :-1] += images[..., 1:]
    wide[..., -1:] *= 2
    high = wide.copy()
    high[..., :-1, :] += wide[..., 1:, :]
    high[..., -1:, :] *= 2
    return np.rint(high / 4).astype(np.uint8)


def read(parts: Parts, images: np.ndarray) -> np.ndarray:
    """What each part shows, (N, T)."""
    patches = images.reshape(len(images), 3, -1)[:, :, parts.places]  # (N, C, T, P)
    patches = patches.transpose(0, 2, 1, 3)[:, :, None].astype(int)
    differ = ((patches - parts.looks) ** 2 * parts.read[:, None, None]).sum((3, 4))
    return np.where(parts.known, differ, 2**31).argmin(2)


def test_sectors_of_a_circle_are_parts() -> None:
    state = states()
    images = cakes(state)
    parts = find_parts(images, images[::-1])
    assert parts is not None
    assert (parts.grid.rows, parts.grid.cols, len(parts)) == (1, 5, 3)
    assert parts.read.sum() == (sectors() >= 0).sum()
    shown = read(parts, images)
    assert len(np.unique(np.concatenate([shown, state], axis=1), axis=0)) == len(np.unique(state, axis=0))


def test_equal_colours_have_equal_numbers() -> None:
    images = cakes(states())
    parts = find_parts(images, images)
    assert parts is not None
    for symbol in range(3):
        colours = {tuple(parts.looks[part, symbol, :, 0]) for part in range(5)}
        assert len(colours) == 1


def test_mixed_borders_are_drawn_but_not_read() -> None:
    state = states()
    images = blurred(cakes(state))
    parts = find_parts(images, images)
    assert parts is not None
    assert parts.grid.count == 5
    assert parts.read.sum() < parts.drawn.sum()
    shown = read(parts, images)
    assert len(np.unique(np.concatenate([shown, state], axis=1), axis=0)) == len(np.unique(state, axis=0))


def test_a_blurred_board_keeps_its_rows_and_columns() -> None:
    board = np.random.default_rng(0).integers(0, 3, (1500, 3, 4))
    tiles = np.random.default_rng(1).integers(0, 256, (3, 3, 6, 6), dtype=np.uint8)
    images = blurred(tiles[board].transpose(0, 3, 1, 4, 2, 5).reshape(-1, 3, 18, 24))
    parts = find_parts(images, images)
    assert parts is not None
    assert (parts.grid.rows, parts.grid.cols) == (3, 4)
    shown = read(parts, images)
    flat = board.reshape(len(board), -1)
    for part in range(12):
        assert len(np.unique(np.stack([shown[:, part], flat[:, part]]), axis=1).T) == 3


@pytest.mark.parametrize("kind", ["noise", "one picture", "a moving dot"])
def test_images_without_fixed_parts_have_none(kind: str) -> None:
    generator = np.random.default_rng(0)
    frames = generator.integers(0, 256, (400, 3, 24, 24), dtype=np.uint8)
    if kind == "one picture":
        frames = np.repeat(frames[:1], 400, axis=0)
    if kind == "a moving dot":
        frames = np.zeros((900, 1, 24, 24), np.uint8)
        for frame in frames:
            row, col = generator.integers(0, 21, 2)
            frame[0, row : row + 4, col : col + 4] = 10 * np.arange(1, 17).reshape(4, 4)
    assert find_parts(frames, frames) is None


def test_a_few_pixels_that_are_no_part_are_left_out() -> None:
    """A counter of two pixels, next to each other, that goes through two hundred values."""
    images = np.concatenate([cakes(states(800)), np.full((800, 3, 3, WIDTH), 90, np.uint8)], axis=2)
    count = np.arange(800) % 200
    images[:, 0, -1, 0], images[:, 0, -1, 1] = count, (7 * count + 3 * (count % 5)) % 256
    parts = find_parts(images, images)
    assert parts is not None
    assert parts.grid.count == 5


def test_values_that_keep_coming_are_none() -> None:
    """In the second half of the data every part shows a colour that it never had."""
    images = cakes(states(800))
    images[400:] = 255 - images[400:]
    images[400:, 2] += np.arange(400, dtype=np.uint8)[:, None, None] // 8
    assert find_parts(images, images) is None


def test_a_layout_is_read_as_it_is_written() -> None:
    layout = PartLayout(2, 31, 83)
    assert PartLayout.parse(str(layout)) == layout
    with pytest.raises(InputError, match="1x21:83"):
        PartLayout.parse("1 by 21")
