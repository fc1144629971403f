from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dwmr.seeding import rng
from dwmr.worlds import sliding_tiles as tiles
from dwmr.worlds.actions import DIRECTIONS, DOWN, LEFT, MOVES, RIGHT, UP
from dwmr.worlds.digits import Digits
from dwmr.worlds.tasks import StateNumbers

MIDDLE = np.array([[1, 2, 3], [4, 0, 5], [6, 7, 8]])

seeds = st.integers(0, 2**32 - 1)
sizes = st.tuples(st.integers(2, 5), st.integers(2, 5))
actions = st.sampled_from(MOVES)


def flat_digits() -> Digits:
    """Digit d has d + 1 pictures; every pixel of picture i is 10·d + i, so drawings can be read back."""
    by_label = tuple(np.stack([np.full((28, 28), 10 * d + i, np.uint8) for i in range(d + 1)]) for d in range(10))
    return Digits(by_label, "test")


@pytest.mark.parametrize(
    ("action", "after"),
    [
        (UP, [[1, 0, 3], [4, 2, 5], [6, 7, 8]]),
        (RIGHT, [[1, 2, 3], [4, 5, 0], [6, 7, 8]]),
        (LEFT, [[1, 2, 3], [0, 4, 5], [6, 7, 8]]),
        (DOWN, [[1, 2, 3], [4, 7, 5], [6, 0, 8]]),
    ],
)
def test_an_action_moves_the_blank(action, after):
    before = MIDDLE.copy()
    assert tiles.step(MIDDLE, action).tolist() == after
    assert np.array_equal(before, MIDDLE)


def test_the_blank_stays_on_the_board():
    goal = tiles.goal_board(3, 3)
    assert goal.tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert np.array_equal(tiles.step(goal, UP), goal)
    assert np.array_equal(tiles.step(goal, LEFT), goal)


@pytest.mark.parametrize("action", [-1, 4])
def test_unknown_actions_are_refused(action):
    with pytest.raises(ValueError, match=f"between 0 and 3, got {action}"):
        tiles.step(MIDDLE, action)


@given(seeds, sizes, actions)
@settings(deadline=None)
def test_a_move_swaps_the_blank_with_its_neighbour_or_changes_nothing(seed, size, action):
    board = tiles.random_board(rng(seed), *size)
    after = tiles.step(board, action)
    blank, moved = (np.argwhere(b == 0)[0] for b in (board, after))
    beyond = blank + DIRECTIONS[action]
    if (beyond < 0).any() or (beyond >= size).any():
        assert np.array_equal(after, board)
        return
    assert np.array_equal(moved, beyond)
    assert after[tuple(blank)] == board[tuple(moved)]
    assert (after != board).sum() == 2


@given(seeds, sizes, actions)
@settings(deadline=None)
def test_solvability_survives_every_move(seed, size, action):
    goal = tiles.goal_board(*size)
    board = tiles.random_board(rng(seed), *size)
    broken = board.copy()
    broken[board == 1], broken[board == 2] = 2, 1
    assert tiles.solvable(tiles.step(board, action), goal)
    assert not tiles.solvable(tiles.step(broken, action), goal)


@pytest.mark.parametrize("size", [(2, 2), (2, 3), (3, 2)])
def test_solvable_boards_are_those_that_moves_reach(size):
    goal = tiles.goal_board(*size)
    reached = {goal.tobytes()}
    queue = [goal]
    for board in queue:
        for action in MOVES:
            after = tiles.step(board, action)
            if after.tobytes() not in reached:
                reached.add(after.tobytes())
                queue.append(after)
    boards = [np.array(p, np.uint8).reshape(size) for p in permutations(range(goal.size))]
    assert {b.tobytes() for b in boards if tiles.solvable(b, goal)} == reached
    assert len(reached) == len(boards) // 2


def test_the_famous_fourteen_fifteen_swap_cannot_be_solved():
    goal = np.append(np.arange(1, 16), 0).reshape(4, 4)
    swapped = goal.copy()
    swapped[3, 1:3] = 15, 14
    assert tiles.solvable(goal, goal)
    assert not tiles.solvable(swapped, goal)


@pytest.mark.parametrize("size", [(1, 3), (3, 1), (11, 10)])
def test_sizes_that_cannot_be_played_are_refused(size):
    with pytest.raises(ValueError, match=f"got {size[0]}×{size[1]}"):
        tiles.random_board(rng(0), *size)


def test_random_boards_are_uniform():
    generator = rng(0, "boards")
    counts = Counter(tiles.random_board(generator, 2, 2).tobytes() for _ in range(6000))
    assert len(counts) == 12
    assert all(400 < count < 600 for count in counts.values())  # 500 ± 4.7 standard deviations


@given(seeds, sizes, st.integers(0, 40))
@settings(deadline=None)
def test_a_walk_makes_valid_moves_only(seed, size, steps):
    start = tiles.random_board(rng(seed), *size)
    boards, moves = tiles.random_walk(rng(seed, "walk"), start, steps)
    assert boards.shape == (steps + 1, *size)
    assert boards.dtype == np.uint8
    assert moves.shape == (steps,)
    assert moves.dtype == np.int64
    assert np.array_equal(boards[0], start)
    for board, move, after in zip(boards, moves, boards[1:]):
        assert np.array_equal(tiles.step(board, move), after)
        assert not np.array_equal(board, after)


def test_a_walk_chooses_evenly():
    boards, moves = tiles.random_walk(rng(0), tiles.goal_board(3, 3), 60_000)
    blanks = boards[:-1].reshape(-1, 9).argmin(1)
    for cell, n_ways in enumerate((2, 3, 2, 3, 4, 3, 2, 3, 2)):
        shares = np.bincount(moves[blanks == cell], minlength=4) / (blanks == cell).sum()
        assert shares[shares > 0] == pytest.approx(np.full(n_ways, 1 / n_ways), abs=0.03)


def test_a_walk_is_the_same_everywhere():
    _, moves = tiles.random_walk(rng(7), tiles.goal_board(3, 3), 20)
    assert moves.tolist() == [3, 1, 1, 3, 2, 1, 0, 0, 3, 3, 2, 0, 3, 2, 0, 0, 3, 0, 3, 3]


def test_drawing_puts_a_picture_of_the_label_into_each_cell():
    images = tiles.draw(np.array([MIDDLE] * 50), flat_digits(), rng(0))
    assert images.shape == (50, 1, 88, 88)
    assert images.dtype == np.uint8
    for row, col in np.ndindex(3, 3):
        cell = images[:, 0, 29 * row + 1 : 29 * row + 29, 29 * col + 1 : 29 * col + 29]
        assert (cell == cell[:, :1, :1]).all()
        values = cell[:, 0, 0].astype(int)
        label = int(MIDDLE[row, col])
        assert set(values) == ({10 * label + i for i in range(label + 1)} if label else {0})
    gutters = images.copy()
    for row, col in np.ndindex(3, 3):
        gutters[:, 0, 29 * row + 1 : 29 * row + 29, 29 * col + 1 : 29 * col + 29] = 0
    assert not gutters.any()


def test_tiles_from_ten_on_show_two_digits_side_by_side():
    ramp = np.tile(np.arange(0, 56, 2, dtype=np.uint8), (28, 1))  # columns 0, 2, 4, …
    digits = Digits(tuple((ramp + 100 * (d % 2))[None] for d in range(10)), "test")
    board = np.roll(np.arange(16), -12).reshape(4, 4)  # first row 12 13 14 15
    image = tiles.draw(board[None], digits, rng(0))[0, 0]
    assert image.shape == (117, 117)
    halved = np.arange(1, 56, 4)  # means of 0 and 2, of 4 and 6, …
    assert np.array_equal(image[1:29, 1:15], np.tile(halved + 100, (28, 1)))
    assert np.array_equal(image[1:29, 15:29], np.tile(halved, (28, 1)))
    five = image[59:87, 30:58]  # third row, second column
    assert board[2, 1] == 5
    assert np.array_equal(five, ramp + 100)


def test_the_puzzle_starts_unsolved_and_takes_numbers_or_pairs():
    puzzle = tiles.SlidingTiles(size=2, digits="sklearn")
    assert not any(puzzle.solved(puzzle.reset(seed)) for seed in range(100))
    assert tiles.SlidingTiles(size=[2, 3], digits="sklearn").reset(0).shape == (2, 3)
    with pytest.raises(ValueError, match="got \\(2, 3, 4\\)"):
        tiles.SlidingTiles(size=(2, 3, 4), digits="sklearn")


def test_boards_still_differ_when_two_digits_look_the_same():
    """A move keeps the parity, so of two boards that differ by two tiles only one can be reached; with a second pair
    alike, boards are lost."""
    found, _ = StateNumbers(tiles.SlidingTiles(3)).explore(tiles.goal_board(3, 3))
    boards = np.array(found)
    assert len(boards) == 181_440
    one_pair = np.where(boards == 4, 8, boards)
    two_pairs = np.where(one_pair == 3, 5, one_pair)
    assert len(np.unique(one_pair, axis=0)) == 181_440
    assert len(np.unique(two_pairs, axis=0)) == 90_720
