import numpy as np

from dwmr.seeding import rng
from dwmr.worlds import frozen_lake
from dwmr.worlds.frozen_lake import FrozenLake, build_level, make_level
from dwmr.worlds.grid_world import GridState, reachable

UP, RIGHT, LEFT, DOWN = range(4)
HOLE = 9  # row 1, column 1
LEVEL = build_level([cell == HOLE for cell in range(64)], start=0, goal=2)


def test_moves_by_hand():
    assert LEVEL.moves[0] == (0, 1, 0, 8)  # in the corner, up and left change nothing
    assert LEVEL.moves[8] == (0, 9, 8, 16)  # right leads into the hole
    assert LEVEL.moves[HOLE] == (9, 9, 9, 9)  # and nothing leads out of it
    assert LEVEL.moves[2] == (2, 3, 1, 10)  # the agent walks on from the goal


def test_labels_show_the_agent_and_what_is_under_it():
    ice, hole, goal = (FrozenLake().labels(GridState(LEVEL, agent)) for agent in (0, HOLE, 2))
    assert ice[:2, :4].tolist() == [[3, 0, 2, 0], [0, 1, 0, 0]]
    assert hole[:2, :4].tolist() == [[0, 0, 2, 0], [0, 4, 0, 0]]
    assert goal[:2, :4].tolist() == [[0, 0, 5, 0], [0, 1, 0, 0]]


def test_all_six_labels_look_different():
    assert len({tile.tobytes() for tile in FrozenLake.pictures}) == 6
    image = FrozenLake().render(GridState(LEVEL, HOLE), rng(0, "test"))
    assert np.array_equal(image[:, 8:16, 8:16], FrozenLake.pictures[4])


def test_levels_can_be_solved_and_differ():
    levels = [make_level(seed) for seed in range(50)]
    assert levels == [make_level(seed) for seed in range(50)]
    assert len(set(levels)) == 50
    for level in levels:
        assert level.board[level.start] == frozen_lake.ICE
        assert 1 <= len(level.solution()) <= 40
    assert 5 < np.mean([level.board.count(frozen_lake.HOLE) for level in levels]) < 11


def test_the_graph_of_a_level_has_its_reachable_cells():
    (graph,) = FrozenLake().true_graphs([7])
    level = make_level(7)
    cells = [8 * int(name.split()[1][:-1]) + int(name.split()[3]) for name in graph.states]
    assert cells[0] == level.start
    assert set(cells) == reachable(level.moves, cells[0])
    for cell, ends in zip(cells, graph.table, strict=True):
        assert [cells[end] for end in ends] == list(level.moves[cell])
