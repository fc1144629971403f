import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dwmr.data.cell_grid import CellGrid, find_grid, find_symbols, symbols_of
from dwmr.errors import InputError

ROWS, COLS = 4, 5


def boards(count: int = 64, symbols: int = 4, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, symbols, (count, ROWS, COLS))


def drawn(boards: np.ndarray, height: int, width: int, seed: int = 0) -> np.ndarray:
    """Boards (N, rows, cols) drawn with random tiles, uint8 (N, 3, H, W)."""
    tiles = np.random.default_rng(seed).integers(0, 256, (boards.max() + 1, 3, height, width), dtype=np.uint8)
    images = tiles[boards]  # (N, rows, cols, 3, height, width)
    count, rows, cols = boards.shape
    return images.transpose(0, 3, 1, 4, 2, 5).reshape(count, 3, rows * height, cols * width)


@pytest.mark.parametrize(("height", "width"), [(8, 8), (6, 9), (12, 5)])
def test_the_cells_of_tiles_are_found(height: int, width: int) -> None:
    assert find_grid(drawn(boards(), height, width)) == CellGrid(ROWS, COLS, height, width)


def test_a_margin_moves_the_grid() -> None:
    images = np.pad(drawn(boards(), 8, 8), ((0, 0), (0, 0), (3, 0), (5, 0)))
    grid = find_grid(images)
    assert grid is not None
    assert (grid.height, grid.width, grid.top % 8, grid.left % 8) == (8, 8, 3, 5)


def test_colours_flips_and_actions_do_not_matter() -> None:
    images = drawn(boards(), 8, 6)
    grid = CellGrid(ROWS, COLS, 8, 6)
    assert find_grid(images[:, ::-1]) == find_grid(images[..., ::-1]) == find_grid(255 - images) == grid


@pytest.mark.parametrize("name", ["noise", "one picture"])
def test_images_without_cells_have_no_symbols(name: str) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (300, 3, 32, 32), dtype=np.uint8)
    frames = noise if name == "noise" else np.repeat(noise[:1], 300, axis=0)
    assert find_symbols(frames, frames) is None


def test_symbols_are_counted_and_the_most_frequent_comes_first() -> None:
    board = np.array([[[0, 0, 0], [0, 1, 0]], [[0, 0, 0], [0, 0, 2]]])
    images = drawn(board, 8, 8)
    symbols = symbols_of(CellGrid(2, 3, 8, 8), images, images[::-1])
    assert symbols is not None
    assert symbols.shares == pytest.approx([10 / 12, 1 / 12, 1 / 12])
    assert (symbols.patches[0] == images[0, :, :8, :8]).all()


def test_symbols_that_keep_coming_are_none() -> None:
    """In the second half of the data every frame shows a tile that was never seen before."""
    tiles = np.arange(40)[:, None, None] * np.ones((1, 2, 2), int)
    images = drawn(tiles, 8, 8)
    assert symbols_of(CellGrid(2, 2, 8, 8), images, images) is None


def test_a_symbol_that_comes_late_is_one_of_the_symbols() -> None:
    """A tile that the last fifth of the frames show, and that none showed before."""
    board = boards(500, symbols=2)
    board[400:, 0, 0] = 2
    images = drawn(board, 8, 8)
    symbols = symbols_of(CellGrid(ROWS, COLS, 8, 8), images, images)
    assert symbols is not None
    assert len(symbols) == 3


def test_cells_that_look_alike_are_one_symbol_beyond_the_border_too() -> None:
    images = np.zeros((80, 1, 20, 20), np.uint8)
    for place, image in enumerate(images):
        image[0, 5 + 6 * (place % 2) : 7 + 6 * (place % 2), 5:7] = 200
    symbols = symbols_of(CellGrid(4, 4, 6, 6, -3, -3), images, images)
    assert symbols is not None
    assert len(symbols) == 2


@given(st.integers(1, 9), st.integers(1, 9), st.floats(3, 30), st.floats(3, 30), st.integers(-9, 9), st.integers(-9, 9))
def test_a_grid_is_read_as_it_is_written(
    rows: int, cols: int, height: float, width: float, top: int, left: int
) -> None:
    grid = CellGrid(rows, cols, height, width, top, left)
    assert CellGrid.parse(str(grid)) == grid


def test_a_grid_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(InputError, match="8x8:8x8"):
        CellGrid.parse("8 by 8")


def test_cut_gives_the_pixels_of_each_cell_and_zeros_beyond_the_border() -> None:
    image = np.arange(1, 17, dtype=np.uint8).reshape(1, 1, 4, 4)
    patches = CellGrid(2, 2, 3, 3, top=-1, left=0).cut(image)
    assert patches[0, 0, 0, 0].tolist() == [[0, 0, 0], [1, 2, 3], [5, 6, 7]]
    assert patches[0, 1, 1, 0].tolist() == [[12, 0, 0], [16, 0, 0], [0, 0, 0]]
