import itertools

import numpy as np
import pytest

from dwmr.errors import InputError
from dwmr.seeding import rng
from dwmr.worlds.lights_out import LightsOut
from dwmr.worlds.tasks import StateNumbers


def press(size, *actions):
    world, state = LightsOut(size), 0
    for action in actions:
        state = world.step(state, action)
    return world.labels(state).tolist()


def test_presses_by_hand():
    assert press(3, 0) == [[1, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert press(3, 4) == [[0, 1, 0], [1, 1, 1], [0, 1, 0]]
    assert press(3, 0, 4) == [[1, 0, 0], [0, 1, 1], [0, 1, 0]]
    assert press(3, 5) == [[0, 0, 1], [0, 1, 1], [0, 0, 1]]
    assert press(3, 4, 4) == [[0, 0, 0]] * 3


def test_the_goal_is_all_off():
    world = LightsOut()
    assert world.solved(0)
    assert not world.solved(world.step(0, 5))


@pytest.mark.parametrize(("size", "count"), [(2, 16), (3, 512), (4, 4096)])
def test_boards_that_can_be_solved(size, count):
    states, table = StateNumbers(LightsOut(size)).explore(0)
    assert table.shape == (count, size**2)
    assert LightsOut(size).reset(3) in states


def test_the_optimum_is_the_smallest_set_of_presses():
    world = LightsOut(size=3)
    task = world.task(1)
    sizes = [
        len(presses)
        for count in range(10)
        for presses in itertools.combinations(range(9), count)
        if task.solved_by(presses)
    ]
    assert sizes == [task.optimal]  # on 3×3 there is one set


def test_large_boards_have_near_goals():
    assert all(LightsOut(size=5).task(number).optimal <= 8 for number in range(3))
    assert LightsOut(size=5).true_graphs() is None


def test_a_plus_sign_where_a_light_is_on():
    world = LightsOut(size=2)
    image = world.render(0b0010, rng(0, "test"))
    assert image.shape == (1, 28, 28)
    assert not image[0, :, :14].any()
    assert not image[0, 14:].any()
    sign = image[0, :14, 14:]
    assert (sign[6:8, 2:12] == 255).all()
    assert (sign[2:12, 6:8] == 255).all()
    assert (sign > 0).sum() == 2 * 10 + 2 * 8


def test_handwriting_is_fresh_in_every_frame_and_split():
    pytest.importorskip("sklearn")
    from dwmr.worlds.digits import load_digits

    world = LightsOut(style="digits", digits="sklearn")
    labels = np.array([[[0, 1, 1, 0]] * 4] * 2, np.uint8)
    images = world.draw(labels, rng(0, "test"), "test")
    assert images.shape == (2, 1, 56, 56)
    assert (images[0] != images[1]).any()
    cell = images[1, 0, 14:28, 28:42]
    ones = load_digits("sklearn", "test").by_label[1].astype(int)
    halves = (ones[:, ::2, ::2] + ones[:, 1::2, ::2] + ones[:, ::2, 1::2] + ones[:, 1::2, 1::2]) // 4
    assert (cell == halves).all((1, 2)).any()


def test_a_twisted_picture_shows_every_cell_somewhere_else():
    plain, twisted = LightsOut(), LightsOut(twisted=True)
    one_on = np.eye(16, dtype=np.uint8).reshape(16, 4, 4)
    before, after = (world.draw(one_on, rng(0, "test")) > 0 for world in (plain, twisted))
    assert (after.sum((1, 2, 3)) > 15).all()
    assert (after.sum(0) <= 1).all()  # no two cells share a pixel
    assert (before != after).any((1, 2, 3)).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [({"size": 9}, "size must lie between 2 and 8, got 9"), ({"style": "plsu"}, "unknown style 'plsu'; did you mean")],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises((ValueError, InputError), match=message):
        LightsOut(**options)
