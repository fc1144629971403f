import numpy as np
import pytest

from dwmr.seeding import rng
from dwmr.worlds.tasks import StateNumbers, distance
from dwmr.worlds.towers import Hanoi

A_B, A_C, B_A, B_C, C_A, C_B = range(6)


def test_actions_have_the_names_of_their_pegs():
    assert Hanoi().action_names == (
        "from-1-to-2",
        "from-1-to-3",
        "from-2-to-1",
        "from-2-to-3",
        "from-3-to-1",
        "from-3-to-2",
    )


def test_moves_by_hand():
    world = Hanoi(discs=3)
    start = (0, 0, 0)
    small_away = world.step(start, A_C)
    assert small_away == (2, 0, 0)
    assert world.step(small_away, A_B) == (2, 1, 0)
    assert world.step(small_away, A_C) == small_away  # the second disc is larger than the first
    assert world.step(start, B_A) == start  # nothing to take
    assert world.step(small_away, C_A) == start


def test_labels_are_the_pegs_from_the_side():
    world = Hanoi(discs=3)
    assert world.labels((0, 0, 0)).tolist() == [[1, 0, 0], [2, 0, 0], [3, 0, 0]]
    assert world.labels((2, 1, 1)).tolist() == [[0, 0, 0], [0, 2, 0], [0, 3, 1]]


def test_all_discs_at_the_last_peg_are_the_goal():
    assert Hanoi(discs=3).solved((2, 2, 2))
    assert not Hanoi(discs=3).solved((2, 2, 1))


@pytest.mark.parametrize("discs", [2, 3, 4])
def test_the_tower_takes_two_to_the_discs_less_one(discs):
    world = Hanoi(discs)
    assert distance(world, (0,) * discs, (2,) * discs) == 2**discs - 1
    assert len(StateNumbers(world).explore((0,) * discs)[0]) == 3**discs


def test_larger_discs_are_wider_bars():
    world = Hanoi(discs=4)
    image = world.render((0, 1, 2, 2), rng(0, "test"))
    assert image.shape == (3, 32, 72)
    pegs = image[:, 28].reshape(3, 3, 24)  # a row through the lowest discs: 1, 2 and 4
    widths = [(pegs[:, peg] != pegs[:, peg, :1]).any(0).sum() for peg in range(3)]
    assert widths == sorted(set(widths))
    assert (np.unique(image[:, 28], axis=1).shape[1]) == 4  # the background and three colours


def test_the_number_of_discs_is_checked():
    with pytest.raises(ValueError, match="discs must lie between 2 and 9, got 1"):
        Hanoi(1)
