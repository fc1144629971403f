"""Rules and pictures are those of MiniGrid itself."""

import sys

import numpy as np
import pytest

from dwmr.errors import InputError
from dwmr.seeding import below, rng
from dwmr.worlds import mini_grid
from dwmr.worlds.mini_grid import CLOSED, KEY, LOCKED, OPEN, DoorKey, FourRooms, Rooms

WORLDS = {"doorkey": DoorKey(), "fourrooms": FourRooms()}
each_world = pytest.mark.parametrize("name", WORLDS)

ROOMS = """
    ########
    #..#...#
    #.kL...#
    #..#...#
    #..#...#
    #..#...#
    #..#..g#
    ########
"""
TAKEN = ROOMS.replace("k", ".")
CODES = {".": 0, "#": 1, "g": 2, "k": KEY, "L": LOCKED, "C": CLOSED, "O": OPEN}


def rooms(text, row, col, heading):
    return Rooms(bytes(CODES[cell] for line in text.split() for cell in line), 8 * row + col, heading)


def after(state, *actions):
    for action in actions:
        state = DoorKey().step(state, DoorKey.action_names.index(action))
    return state


def test_the_way_through_the_door_by_hand():
    start = rooms(ROOMS, 2, 1, 0)
    assert after(start, "forward") == start  # the key is in the way
    assert after(start, "toggle") == after(start, "drop") == start
    taken = after(start, "pick-up")
    assert taken == rooms(TAKEN, 2, 1, 0)
    assert after(taken, "drop") == start
    door = after(taken, "forward")
    assert after(door, "forward") == door
    opened = after(door, "toggle")
    assert opened == rooms(TAKEN.replace("L", "O"), 2, 2, 0)
    assert after(opened, "toggle") == rooms(TAKEN.replace("L", "C"), 2, 2, 0)
    through = after(opened, "forward", "forward")
    assert DoorKey().labels(through)[2].tolist() == [1, 0, 0, 6, 7, 0, 0, 1]
    assert after(through, "left", "left", "toggle") == rooms(TAKEN.replace("L", "C"), 2, 4, 2)


def test_a_locked_door_needs_the_key():
    there, taken = rooms(ROOMS.replace(".k", "k."), 2, 2, 0), rooms(TAKEN, 2, 2, 0)
    assert after(there, "toggle") == there
    assert after(taken, "toggle") == rooms(TAKEN.replace("L", "O"), 2, 2, 0)


def test_turns_and_labels_of_the_agent():
    state = rooms(ROOMS, 4, 1, 3)
    assert after(state, "left").heading == 2
    assert after(state, "right").heading == 0
    assert DoorKey().labels(state)[4, 1] == 10
    goal = rooms(ROOMS, 6, 6, 1)
    assert DoorKey().labels(goal)[6, 6] == 12
    assert DoorKey().solved(goal)
    assert not DoorKey().solved(state)
    assert DoorKey().labels(rooms(ROOMS.replace("L", "O"), 2, 3, 2))[2, 3] == 17


def package_state(world, env):
    cells = bytes(map(mini_grid._code, env.grid.grid))
    col, row = env.agent_pos
    return Rooms(cells, int(row) * world.side + int(col), int(env.agent_dir))


@each_world
def test_steps_and_frames_are_those_of_the_package(name):
    pytest.importorskip("minigrid")
    world, env = WORLDS[name], mini_grid._environment(name)
    generator = rng(0, "test")
    for seed in range(4):
        state = world.reset(seed)
        env.reset(seed=seed)
        if seed > 1 and name == "doorkey":  # the door is within reach
            door = state.cells.index(LOCKED)
            state = Rooms(state.cells.replace(bytes([KEY]), b"\0"), door - 1, 0)
            env.carrying = next(item for item in env.grid.grid if item is not None and item.type == "key")
            env.grid.set(*env.carrying.cur_pos, None)
            env.agent_pos, env.agent_dir = ((door - 1) % 8, (door - 1) // 8), 0
        for action in [
            *([5, 2, 2] if name == "doorkey" else []),
            *below(generator, len(world.action_names), 200).tolist(),
        ]:
            assert state == package_state(world, env)
            frame = env.get_frame(highlight=False, tile_size=world.pixels)
            assert np.array_equal(world.render(state, generator).transpose(1, 2, 0), frame)
            env.step(action)
            state = world.step(state, action)


@each_world
def test_data_start_in_states_that_play_can_reach(name):
    pytest.importorskip("minigrid")
    world, generator = WORLDS[name], rng(1, "test")
    states = [world.random_state(generator) for _ in range(300)]
    for state in states:
        assert state.cells[state.agent] == 0
        if LOCKED in state.cells:
            assert state.agent % 8 < state.cells.index(LOCKED) % 8
            assert KEY not in state.cells or state.cells.index(KEY) % 8 < state.cells.index(LOCKED) % 8
    if name == "doorkey":
        for codes in ({LOCKED, KEY}, {LOCKED}, {OPEN}, {OPEN, KEY}, {CLOSED}, {CLOSED, KEY}):
            assert any(codes == set(state.cells) - {0, 1, 2} for state in states)
    assert {state.heading for state in states} == {0, 1, 2, 3}


@each_world
def test_labels_look_different(name):
    pytest.importorskip("minigrid")
    tiles = WORLDS[name].pictures
    assert tiles.shape == (19, 3, WORLDS[name].pixels, WORLDS[name].pixels)
    assert len({tile.tobytes() for tile in tiles}) == 19


def test_without_the_package_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "minigrid.envs", None)
    mini_grid._environment.cache_clear()
    with pytest.raises(InputError, match=r"pip install 'dwmr\[minigrid\]'"):
        mini_grid._environment("doorkey")
