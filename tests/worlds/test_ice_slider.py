import hashlib
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dwmr.worlds import ice_slider
from dwmr.worlds.actions import DIRECTIONS, MOVES
from dwmr.worlds.grid_world import GridState
from dwmr.worlds.ice_slider import ROCK, IceSlider, build_level, make_level

NO_ROCKS = (False,) * 64
LEVELS_SHA256 = "471f8ef2f02875d321dfe72508f8a56183b688f8dc1cbc8d5c82f91815ceebbb"


def rocks_of(level):
    return [label == ROCK for label in level.board]


def test_known_levels():
    level = make_level(0, min_solution=1)
    assert (level.start, level.goal) == (4, 58)  # (0, 4) and (7, 2)
    assert level.solution() == (3, 2, 3)

    level = make_level(0, min_solution=8)
    assert (level.start, level.goal) == (6, 57)  # (0, 6) and (7, 1)
    assert level.solution() == (3, 2, 3, 2, 0, 2, 3, 1, 3, 2, 3)


def test_the_levels_of_the_benchmark_never_change():
    digest = hashlib.sha256()
    levels = [make_level(seed) for seed in range(1500)]
    for level in levels:
        digest.update(bytes(rocks_of(level)) + bytes(divmod(level.start, 8)) + bytes(divmod(level.goal, 8)))
    assert digest.hexdigest() == LEVELS_SHA256
    lengths = [len(level.solution()) for level in levels]
    assert np.mean(lengths) == pytest.approx(4.2, abs=0.1)
    assert min(lengths) == 2
    assert np.mean([sum(rocks_of(level)) for level in levels]) == pytest.approx(13, abs=0.5)


@pytest.mark.parametrize(("min_solution", "seeds"), [(1, 60), (6, 5)])
def test_levels_agree_with_a_plain_reading_of_the_rules(min_solution, seeds):
    for seed in range(seeds):
        level = make_level(seed, min_solution)
        grid, start, goal, solution = plain_level(seed, min_solution)
        assert np.array(rocks_of(level), int).reshape(8, 8).tolist() == grid
        assert (divmod(level.start, 8), divmod(level.goal, 8)) == (start, goal)
        assert level.solution() == tuple(solution)


def plain_level(seed, min_solution):
    """The level of a seed in the most literal way: grid of 0 (free) and 1 (rock), start, goal, solution."""
    dice = random.Random(seed)
    while True:
        start = (0, dice.randint(0, 7))
        goal = (7, dice.randint(0, 7))
        grid = []
        for _ in range(8):
            grid.append([1 if dice.randint(0, 4) == 0 else 0 for _ in range(8)])
        grid[0][start[1]] = 0
        grid[7][goal[1]] = 0
        ways = plain_search(grid, start)
        trapped = any(goal not in plain_search(grid, stop) for stop in ways)
        if goal in ways and len(ways[goal]) > min_solution and trapped:
            return grid, start, goal, ways[goal]


def plain_search(grid, start):
    """First shortest way to every cell where the agent can stop."""
    ways = {start: []}
    waiting = [start]
    while waiting:
        here = waiting.pop(0)
        for action in (0, 1, 2, 3):
            there = plain_slide(grid, here, action)
            if there != here and there not in ways:
                ways[there] = [*ways[here], action]
                waiting.append(there)
    return ways


def plain_slide(grid, place, action):
    row, col = place
    down, right = {0: (-1, 0), 1: (0, 1), 2: (0, -1), 3: (1, 0)}[action]
    while 0 <= row + down <= 7 and 0 <= col + right <= 7 and grid[row + down][col + right] == 0:
        row, col = row + down, col + right
    return row, col


def test_a_slide_by_hand():
    rocks = list(NO_ROCKS)
    rocks[8 * 3 + 6] = True
    level = build_level(rocks, start=0, goal=63)
    ends = [divmod(end, 8) for end in level.moves[8 * 3 + 2]]
    assert ends == [(0, 2), (3, 5), (3, 0), (7, 2)]


def test_the_goal_does_not_stop_the_agent():
    assert build_level(NO_ROCKS, start=3, goal=59).solution() == (3,)
    assert build_level(NO_ROCKS, start=3, goal=35).solution() is None


def test_impossible_demands_are_refused(monkeypatch):
    monkeypatch.setattr(ice_slider, "MAX_TRIES", 20)
    with pytest.raises(ValueError, match="longer than 60 moves"):
        make_level(0, min_solution=60)


@given(st.integers(0, 10_000), st.integers(0, 63), st.sampled_from(MOVES))
@settings(deadline=None, max_examples=60)
def test_a_slide_is_straight_and_ends_at_a_rock_or_the_edge(seed, cell, action):
    level = make_level(seed)
    rocks = np.array(rocks_of(level)).reshape(8, 8)
    here, there = divmod(cell, 8), divmod(level.moves[cell][action], 8)
    direction = np.array(DIRECTIONS[action])
    distance = np.abs(np.subtract(there, here)).sum()
    assert np.array_equal(here + direction * distance, there)
    assert not any(rocks[tuple(here + direction * step)] for step in range(1, distance + 1))
    beyond = there + direction
    assert (beyond < 0).any() or (beyond > 7).any() or rocks[tuple(beyond)]


def test_labels_by_hand():
    level = build_level((True, *NO_ROCKS[1:]), start=1, goal=2)
    world = IceSlider()
    grid = world.labels(GridState(level, 1))
    assert grid.dtype == np.uint8
    assert grid[0].tolist() == [0, 3, 2, 1, 1, 1, 1, 1]
    assert (grid[1:] == 1).all()
    on_goal = world.labels(GridState(level, 2))
    assert on_goal[0].tolist() == [0, 1, 3, 1, 1, 1, 1, 1]  # the agent hides the goal
    assert world.labels(GridState(level, 1)).tolist() == grid.tolist()


def test_the_solution_leads_the_puzzle_to_its_goal():
    puzzle = IceSlider(min_solution=4)
    state = first = puzzle.reset(3)
    for action in first.level.solution():
        assert not puzzle.solved(state)
        state = puzzle.step(state, action)
    assert puzzle.solved(state)
    assert first == puzzle.reset(3)
