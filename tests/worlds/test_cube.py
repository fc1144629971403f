import itertools

import numpy as np
import pytest

from dwmr.errors import InputError
from dwmr.seeding import rng
from dwmr.worlds.cube import PocketCube, RubiksCube, random_origins, solved_state
from dwmr.worlds.tasks import StateNumbers

CUBES = {2: PocketCube(), 3: RubiksCube()}
SOLVED = """
    .. WW .. ..
    .. WW .. ..
    OO GG RR BB
    OO GG RR BB
    .. YY .. ..
    .. YY .. ..
"""
LETTERS = "WOGRBY."

each_size = pytest.mark.parametrize("size", CUBES)


def turned(size, *names):
    world, state = CUBES[size], solved_state(size)
    for name in names:
        state = world.step(state, world.action_names.index(name))
    return state


def net(state):
    return ["".join(LETTERS[label] for label in row) for row in PocketCube().labels(state)]


def drawn(text):
    return ["".join(row.split()) for row in text.strip().splitlines()]


def test_the_solved_net():
    assert net(solved_state(2)) == drawn(SOLVED)


def test_turning_a_face_by_hand():
    assert net(turned(2, "up")) == drawn(
        """
        .. WW .. ..
        .. WW .. ..
        GG RR BB OO
        OO GG RR BB
        .. YY .. ..
        .. YY .. ..
        """
    )
    assert net(turned(2, "right")) == drawn(
        """
        .. WG .. ..
        .. WG .. ..
        OO GY RR WB
        OO GY RR WB
        .. YB .. ..
        .. YB .. ..
        """
    )
    assert net(turned(2, "front-inverse")) == drawn(
        """
        .. WW .. ..
        .. RR .. ..
        OW GG YR BB
        OW GG YR BB
        .. OO .. ..
        .. YY .. ..
        """
    )


def test_turning_a_face_turns_its_own_stickers_clockwise():
    assert [row[2:4] for row in net(turned(2, "right", "up"))[:2]] == ["WW", "GG"]


@each_size
def test_four_turns_and_a_turn_and_its_inverse_change_nothing(size):
    for face in CUBES[size].faces:
        assert turned(size, *[face] * 4) == turned(size, face, f"{face}-inverse") == solved_state(size)


@each_size
def test_a_known_order(size):
    assert turned(size, *["right", "up", "right-inverse", "up-inverse"] * 6) == solved_state(size)
    assert turned(size, *["right", "up", "right-inverse", "up-inverse"] * 5) != solved_state(size)
    assert turned(size, *["right", "up"] * 105) == solved_state(size)


@pytest.mark.parametrize(("size", "counts"), [(2, [1, 6, 27, 120, 534, 2256]), (3, [1, 12, 114, 1068])])
def test_known_numbers_of_states_by_distance(size, counts):
    numbers = StateNumbers(CUBES[size])
    layer = seen = {numbers.number(solved_state(size))}
    for count in counts:
        assert len(layer) == count
        layer = set(numbers.successors(np.array(sorted(layer))).ravel().tolist()) - seen
        seen = seen | layer


def test_the_same_corner_and_the_centres_never_move():
    generator = rng(0, "test")
    for _ in range(20):
        small, large = (CUBES[size].labels(CUBES[size].random_state(generator)) for size in (2, 3))
        assert [small[3, 0], small[3, 7], small[5, 2]] == [1, 4, 5]  # left, back and down
        assert [large[1, 4], *large[4, 1::3], large[7, 4]] == [0, 1, 2, 3, 4, 5]


@each_size
def test_random_cubes_have_every_piece_and_an_order_that_moves_can_reach(size):
    generator = rng(1, "test")
    for _ in range(50):
        origins = random_origins(generator, size)
        assert sorted(origins) == list(range(6 * size**2))
    if size == 3:  # a quarter turn is an odd order of corners and of edges, and flips an even number of edges
        edges = [number for number in range(54) if number % 9 in (1, 3, 5, 7)]
        assert not odd([origins[number] for number in edges])


def odd(order):
    return sum(one > other for one, other in itertools.combinations(order, 2)) % 2


def test_every_random_pocket_cube_can_be_solved_in_fourteen_moves():
    assert all(1 <= PocketCube().task(number).optimal <= 14 for number in range(10))


@pytest.mark.parametrize(("size", "pixels"), [(2, (48, 64)), (3, (72, 96))])
def test_the_net_has_flat_colours(size, pixels):
    world = CUBES[size]
    image = world.render(solved_state(size), rng(0, "test"))
    assert image.shape == (3, *pixels)
    cells = image.reshape(3, 3 * size, 8, 4 * size, 8)
    assert (cells == cells[:, :, :1, :, :1]).all()
    colours = cells[:, :, 0, :, 0].reshape(3, -1).T
    labels = world.labels(solved_state(size)).ravel()
    assert len({(label, *colour) for label, colour in zip(labels.tolist(), colours.tolist(), strict=True)}) == 7


def test_jitter_changes_every_sticker_and_keeps_the_colours_apart():
    flat, jittered = PocketCube(), PocketCube(jitter=45)
    labels = np.stack([flat.labels(turned(2, "up", "right"))] * 200)
    plain, changed = (world.draw(labels, rng(0, "test")).astype(int) for world in (flat, jittered))
    assert np.abs(plain - changed).max() == 45
    assert (changed[0] != changed[1]).any()
    assert (plain == changed)[:, :, :16, :16].all()  # the blank part
    palette = np.stack([plain[0][:, labels[0].repeat(8, 0).repeat(8, 1) == label][:, 0] for label in range(6)])
    distances = np.abs(changed.transpose(0, 2, 3, 1)[:, 4::8, 4::8, None] - palette).max(-1)
    stickers = labels != 6
    assert (distances.argmin(-1)[stickers] == labels[stickers]).all()


@each_size
def test_two_views_show_every_sticker(size):
    world = type(CUBES[size])(style="views")
    image = world.render(solved_state(size), rng(0, "test"))
    assert image.shape == (3, 48, 96)
    before = world.draw(world.labels(solved_state(size))[None], rng(0, "test"))[0]
    for number in range(6 * size**2):
        labels = world.labels(bytes((face + (place == number)) % 6 for place, face in enumerate(solved_state(size))))
        after = world.draw(labels[None], rng(0, "test"))[0]
        pixels = (before != after).any(0)
        assert 15 <= pixels.sum() <= 150
        assert pixels[:, :48].any() != pixels[:, 48:].any()
    seen = [{tuple(colour) for colour in half.reshape(3, -1).T.tolist()} for half in (image[..., :48], image[..., 48:])]
    assert len(seen[0]) == len(seen[1]) == 4
    assert len(seen[0] & seen[1]) == 1  # the background


@pytest.mark.parametrize(
    ("options", "message"),
    [({"style": "nets"}, "unknown style 'nets'; did you mean 'net'"), ({"jitter": 46}, "jitter must lie between")],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises((ValueError, InputError), match=message):
        PocketCube(**options)
