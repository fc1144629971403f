import random

import numpy as np

from dwmr.worlds.digit_jump import DigitJump, build_level, make_level
from dwmr.worlds.grid_world import GridState

FIRST_ROW_ONES = (1,) * 8 + (6,) * 56


def test_known_level():
    level = make_level(0)
    assert list(level.board[:8]) == [3, 3, 0, 2, 4, 3, 3, 2]  # the digits less one
    assert level.solution() == (3, 3, 1, 1, 1)


def test_levels_are_the_first_draw_that_can_be_solved():
    for seed in range(40):
        dice = random.Random(seed)
        grid = [[dice.randint(1, 6) for _ in range(8)] for _ in range(8)]
        while not plainly_solvable(grid):
            grid = [[dice.randint(1, 6) for _ in range(8)] for _ in range(8)]
        assert np.frombuffer(make_level(seed).board, np.uint8).reshape(8, 8).tolist() == (np.array(grid) - 1).tolist()


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
    moves = build_level(FIRST_ROW_ONES).moves
    assert moves[0] == (0, 1, 0, 8)  # digit 1 in the corner: up and left stay
    assert moves[9] == (9, 15, 9, 57)  # digit 6 at (1, 1)


def test_a_level_without_solution():
    assert build_level((6,) * 64).solution() is None


def test_labels_show_digit_and_agent():
    one, other = (DigitJump().labels(GridState(build_level(FIRST_ROW_ONES), agent)) for agent in (2, 8))
    assert one.dtype == np.uint8
    assert one[0].tolist() == [0, 0, 6, 0, 0, 0, 0, 0]
    assert other[0].tolist() == [0] * 8
    assert other[1].tolist() == [11, 5, 5, 5, 5, 5, 5, 5]


def test_the_solution_leads_the_puzzle_to_its_goal():
    puzzle = DigitJump()
    state = puzzle.reset(5)
    for action in state.level.solution():
        assert not puzzle.solved(state)
        state = puzzle.step(state, action)
    assert puzzle.solved(state)
    assert puzzle.labels(state)[7, 7] >= 6
