from collections import Counter

import numpy as np
import pytest

from dwmr.seeding import rng
from dwmr.worlds.tasks import StateNumbers
from dwmr.worlds.towers import Blocks

WORLD = Blocks(blocks=3, columns=3)
START = ((1, 2), (), (3,))


def step(state, name):
    return WORLD.step(state, WORLD.action_names.index(name))


def test_moves_by_hand():
    assert step(START, "from-1-to-2") == ((1,), (2,), (3,))
    assert step(START, "from-3-to-1") == ((1, 2, 3), (), ())
    assert step(START, "from-2-to-1") == START  # the column is empty
    assert step(step(START, "from-1-to-3"), "from-3-to-1") == START


def test_labels_are_the_columns_from_the_side():
    assert WORLD.labels(START).tolist() == [[0, 0, 0], [2, 0, 0], [1, 0, 3]]


def test_the_goal_is_one_tower():
    assert WORLD.solved(((3, 2, 1), (), ()))
    assert not WORLD.solved(((), (3, 2, 1), ()))


def test_every_arrangement_can_be_reached_and_is_drawn_equally_often():
    states, table = StateNumbers(WORLD).explore(START)
    assert table.shape == (60, 6)  # 3! orders, 10 ways to cut them into three columns
    generator = rng(0, "test")
    drawn = Counter(WORLD.random_state(generator) for _ in range(6000))
    assert set(drawn) == set(states)
    assert 60 < min(drawn.values()) <= max(drawn.values()) < 150


def test_true_graphs_are_for_few_states():
    assert Blocks().small_levels
    assert not Blocks(blocks=6).small_levels


def test_blocks_are_squares_of_their_own_colour():
    image = WORLD.render(START, rng(0, "test"))
    assert image.shape == (3, 36, 36)
    middles = image[:, 6::12, 6::12]
    assert len(np.unique(middles.reshape(3, -1), axis=1).T) == 4  # three blocks and the background
    assert (middles[:, 0] == middles[:, 0, :1]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [({"blocks": 8}, "blocks must lie between 2 and 7, got 8"), ({"columns": 2}, "columns must lie between 3 and 6")],
)
def test_wrong_numbers_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Blocks(**options)
