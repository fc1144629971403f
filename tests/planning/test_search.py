"""Planners against plain breadth-first search over the same graph."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dwmr import InputError
from dwmr.planning import EXHAUSTED, OUT_OF_BUDGET, PLANNERS, SOLVED, Budget, CodeGoal, find_planner
from dwmr.planning.search import best_first
from dwmr.seeding import rng
from dwmr.worlds import ice_slider, sliding_tiles
from dwmr.worlds.grid_world import reachable
from dwmr.worlds.sliding_tiles import SlidingTiles
from dwmr.worlds.tasks import distance
from tests.planning.graphs import Graph, distances, tile_codes, tile_dynamics

OPTIMAL = ("breadth_first", "astar")

tables = st.integers(1, 25).flatmap(
    lambda n: st.lists(st.lists(st.integers(-1, n - 1), min_size=3, max_size=3), min_size=n, max_size=n)
)


def follow(graph, start, actions):
    state = start
    for action in actions:
        state = int(graph.table[state, action])
        assert state >= 0, "an impossible action was planned"
    return state


@pytest.mark.parametrize("name", PLANNERS)
@given(table=tables, goal=st.integers(0, 24), width=st.integers(1, 3))
def test_plans_are_right_and_unsolvable_is_exhausted(name, table, goal, width):
    table, goal = np.array(table), goal % len(table)
    graph, shortest = Graph(table, width), distances(table, 0)
    plan = PLANNERS[name](graph, graph.words([0]), CodeGoal(graph.words([goal])))
    if goal not in shortest:
        assert plan.outcome == EXHAUSTED
        assert plan.kept == len(shortest)
        return
    assert plan.outcome == SOLVED
    assert follow(graph, 0, plan.actions) == goal
    assert plan.codes[:, -1].tolist() == [follow(graph, 0, plan.actions[:n]) for n in range(len(plan.actions) + 1)]
    if name in OPTIMAL:
        assert plan.optimal
    if plan.optimal:
        assert len(plan.actions) == shortest[goal]


@given(table=tables, data=st.data())
def test_astar_is_optimal_with_any_heuristic_that_never_overestimates(table, data):
    """Also with one that is not consistent, so that states must be opened again."""
    table = np.array(table)
    graph, goal = Graph(table), data.draw(st.integers(0, len(table) - 1))
    left = [distances(table, state).get(goal, 40) for state in range(len(table))]
    guesses = torch.tensor([data.draw(st.integers(0, exact)) for exact in left])
    plan = best_first(graph, graph.words([0]), CodeGoal(graph.words([goal])), lambda w: guesses[w[:, -1]], batch=2)
    assert len(plan.actions) == left[0] if left[0] < 40 else plan.outcome == EXHAUSTED


@given(table=tables, nodes=st.integers(1, 60), name=st.sampled_from(list(PLANNERS)))
def test_a_budget_of_nodes_is_kept_and_its_end_is_said(table, nodes, name):
    table = np.array(table)
    graph = Graph(table)
    nowhere = CodeGoal(graph.words([100]))
    plan = PLANNERS[name](graph, graph.words([0]), nowhere, lambda w: 20 - w[:, -1], Budget(nodes=nodes))
    assert plan.generated <= nodes
    reachable = distances(table, 0)
    whole = sum(int((table[state] >= 0).sum()) for state in reachable)
    if plan.outcome == EXHAUSTED:
        assert plan.kept == len(reachable)
        assert plan.generated >= whole
    else:
        assert (plan.outcome, plan.reason) == (OUT_OF_BUDGET, "nodes")
        assert nodes - plan.generated < graph.n_actions
        if name == "breadth_first":  # the others may expand a state twice
            assert (plan.generated, plan.expanded) != (whole, len(reachable))
        best = int(plan.codes[-1, -1])
        assert follow(graph, 0, plan.actions) == best


@pytest.mark.parametrize("name", PLANNERS)
def test_a_budget_of_time(name):
    start, goal = (tile_codes(board) for board in pair(0))
    plan = PLANNERS[name](tile_dynamics(), start, CodeGoal(goal), budget=Budget(seconds=0.0))
    assert (plan.outcome, plan.reason, plan.actions) == (OUT_OF_BUDGET, "seconds", [])


def pair(number):
    generator = rng(number, "pair")
    return [sliding_tiles.random_board(generator, 3, 3) for _ in range(2)]


@pytest.mark.parametrize("number", range(2))
def test_the_8_puzzle_is_solved_in_the_fewest_moves(number):
    boards = pair(number)
    start, goal = (tile_codes(board) for board in boards)
    for name in OPTIMAL:
        plan = PLANNERS[name](tile_dynamics(), start, CodeGoal(goal))
        assert len(plan.actions) == distance(SlidingTiles(3), *boards)
        board = boards[0]
        for action in plan.actions:
            before, board = board, sliding_tiles.step(board, action)
            assert not np.array_equal(before, board)
        assert np.array_equal(board, boards[1])


def test_an_unsolvable_2_by_3_board_is_exhausted_after_all_360():
    goal = sliding_tiles.goal_board(2, 3)
    start = goal.copy()
    start[1, 1:] = start[1, :0:-1]
    assert not sliding_tiles.solvable(start, goal)
    for name in PLANNERS:
        plan = PLANNERS[name](tile_dynamics(2, 3), tile_codes(start), CodeGoal(tile_codes(goal)))
        assert (plan.outcome, plan.kept, plan.actions) == (EXHAUSTED, 360, [])


def test_traps_of_ice_slider_are_exhausted_and_its_levels_solved():
    """From every cell of some levels: solved if and only if the true graph has a way."""
    for seed in (2000, 2001):
        level = ice_slider.make_level(seed, 1)
        table, goal = level.moves, level.goal
        dynamics = Graph(table)
        outcomes = set()
        for cell in sorted(reachable(table, level.start)):
            plan = PLANNERS["breadth_first"](dynamics, torch.tensor([[cell]]), CodeGoal(torch.tensor([[goal]])))
            assert plan.solved == (goal in reachable(table, cell))
            outcomes.add(plan.outcome)
        assert outcomes == {SOLVED, EXHAUSTED}


def test_a_search_leaves_the_number_of_threads_alone():
    graph = Graph(np.array([[0]]))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        PLANNERS["astar"](graph, graph.words([0]), CodeGoal(graph.words([1])))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_unknown_planners_are_refused():
    with pytest.raises(InputError, match="did you mean 'astar'"):
        find_planner("a_star")
    with pytest.raises(InputError, match=r"one code \(1, W\)"):
        PLANNERS["astar"](tile_dynamics(), torch.zeros(2, 1, dtype=torch.int64), CodeGoal(torch.zeros(1, 1)))
