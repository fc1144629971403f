import numpy as np
import pytest

from dwmr.errors import InputError
from dwmr.seeding import rng
from dwmr.worlds import sliding_tiles
from dwmr.worlds.fifteen_puzzle import FifteenPuzzle, picture

UP, RIGHT, LEFT, DOWN = range(4)
SOLVED = sliding_tiles.goal_board(4, 4)


def step(state, *actions):
    for action in actions:
        state = FifteenPuzzle().step(state, action)
    return state


def test_moves_by_hand():
    assert np.array_equal(step(SOLVED, UP), SOLVED)
    assert np.array_equal(step(SOLVED, LEFT), SOLVED)
    assert FifteenPuzzle().labels(step(SOLVED, RIGHT, DOWN)).tolist() == [
        [1, 5, 2, 3],
        [4, 0, 6, 7],
        [8, 9, 10, 11],
        [12, 13, 14, 15],
    ]
    assert FifteenPuzzle().solved(step(SOLVED, RIGHT, DOWN, UP, LEFT))
    assert not FifteenPuzzle().solved(step(SOLVED, RIGHT))


def test_moves_are_those_of_the_sliding_tiles():
    world, generator = FifteenPuzzle(), rng(0, "test")
    for _ in range(20):
        state = world.random_state(generator)
        for action in range(4):
            expected = sliding_tiles.step(world.labels(state), action)
            assert np.array_equal(world.labels(world.step(state, action)), expected)


def test_random_boards_can_be_solved():
    world, generator = FifteenPuzzle(), rng(0, "test")
    boards = [world.labels(world.random_state(generator)) for _ in range(100)]
    assert all(sliding_tiles.solvable(board, sliding_tiles.goal_board(4, 4)) for board in boards)
    assert len({board.tobytes() for board in boards}) == 100


def test_the_solved_board_shows_the_picture():
    image = FifteenPuzzle().render(SOLVED, rng(0, "test")).transpose(1, 2, 0)
    assert image.shape == (64, 64, 3)
    assert not image[:16, :16].any()
    assert np.array_equal(image[16:], picture()[16:])
    assert np.array_equal(image[:16, 16:], picture()[:16, 16:])


def test_tiles_carry_their_piece_of_the_picture():
    image = FifteenPuzzle().render(step(SOLVED, RIGHT, DOWN), rng(0, "test")).transpose(1, 2, 0)
    assert np.array_equal(image[:16, :16], picture()[:16, 16:32])  # tile 1
    assert np.array_equal(image[:16, 16:32], picture()[16:32, 16:32])  # tile 5


def test_no_two_tiles_look_alike():
    tiles = picture().reshape(4, 16, 4, 16, 3).swapaxes(1, 2).reshape(16, -1).astype(float)
    distances = np.linalg.norm(tiles[:, None] - tiles, axis=-1) / 127.5
    assert distances[~np.eye(16, dtype=bool)].min() > 7  # in units of the noise of 15puzzle-noisy


def test_numerals_are_drawn_as_on_the_sliding_tiles():
    pytest.importorskip("sklearn")
    board = step(SOLVED, RIGHT, DOWN)
    world, tiles = FifteenPuzzle(style="digits", digits="sklearn"), sliding_tiles.SlidingTiles(4, digits="sklearn")
    assert world.image_shape == (1, 117, 117)
    one, other = (each.draw(world.labels(board)[None], rng(0, "test"), "test") for each in (world, tiles))
    assert np.array_equal(one, other)


def test_an_unknown_style_is_refused():
    with pytest.raises(InputError, match="unknown style 'pictures'; did you mean 'picture'"):
        FifteenPuzzle(style="pictures")
