import random

import numpy as np
import pytest

from dwmr.worlds import digit_jump
from dwmr.worlds.digit_jump import Level, destinations, labels, make_level, solve

FIRST_ROW_ONES = (1,) * 8 + (6,) * 56


def test_known_level():
    level = make_level(0)
    assert level.digits[:8] == (4, 4, 1, 3, 5, 4, 4, 3)
    assert solve(level) == (3, 3, 1, 1, 1)


def test_levels_are_the_first_draw_that_can_be_solved():
    for seed in range(40):
        dice = random.Random(seed)
        grid = [[dice.randint(1, 6) for _ in range(8)] for _ in range(8)]
        while not plainly_solvable(grid):
            grid = [[dice.randint(1, 6) for _ in range(8)] for _ in range(8)]
        assert make_level(seed).digit_grid.tolist() == grid


def plainly_solvable(grid):
    seen, waiting = set(), {(0, 0)}
    while waiting:
        row, col = waiting.pop()
        seen.add((row, col))
        n = grid[row][col]
        around = {(row - n, col), (row, col + n), (row, col - n), (row + n, col)}
        waiting |= {(r, c) for r, c in around if 0 <= r < 8 and 0 <= c < 8} - seen
    return (7, 7) in seen


def test_jumps_by_hand():
    table = destinations(Level(FIRST_ROW_ONES))
    assert table[0].tolist() == [0, 1, 0, 8, 0]  # digit 1 in the corner: up and left stay
    assert table[9].tolist() == [9, 15, 9, 57, 9]  # digit 6 at (1, 1)


def test_a_level_without_solution_says_so():
    with pytest.raises(ValueError, match="no solution"):
        solve(Level((6,) * 64))


def test_labels_show_digit_and_agent():
    grid = labels(Level(FIRST_ROW_ONES).digit_grid, np.array([2, 8]))
    assert grid.dtype == np.uint8
    assert grid[0, 0].tolist() == [0, 0, 6, 0, 0, 0, 0, 0]
    assert grid[1, 0].tolist() == [0] * 8
    assert grid[1, 1].tolist() == [11, 5, 5, 5, 5, 5, 5, 5]


def test_the_solution_leads_the_puzzle_to_its_goal():
    puzzle = digit_jump.DigitJump()
    state = puzzle.reset(5)
    for action in solve(state.level):
        assert not puzzle.solved(state)
        state = puzzle.step(state, action)
    assert puzzle.solved(state)
    assert puzzle.labels(state)[7, 7] >= 6
