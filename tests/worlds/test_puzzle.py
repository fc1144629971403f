"""Worlds that hold out states."""

import numpy as np
import pytest

from dwmr.data.collect import make_rollouts, make_transitions
from dwmr.seeding import rng
from dwmr.worlds.puzzle import NEAR, Puzzle, StateWorld
from dwmr.worlds.registry import WORLDS
from dwmr.worlds.tasks import StateNumbers, distance

pytest.importorskip("sklearn")

WORLDS_OF_STATES = {name: world for name, world in WORLDS.items() if isinstance(world, StateWorld) and not world.noise}
PUZZLES = {name: world.with_digits("sklearn") for name, world in WORLDS_OF_STATES.items() if isinstance(world, Puzzle)}
each_world = pytest.mark.parametrize("name", WORLDS_OF_STATES)
each_puzzle = pytest.mark.parametrize("name", PUZZLES)


def states(labels):
    return {each.tobytes() for each in np.ascontiguousarray(labels)}


@each_world
def test_no_state_of_another_split_is_in_the_training_data(name):
    train, val, test = (make_transitions(name, split, 400, digits="sklearn") for split in ("train", "val", "test"))
    seen = states(train.state) | states(train.next_state)
    held_out = states(val.state), states(test.state), states(make_rollouts(name, 20, digits="sklearn").state[:, 0])
    assert [len(seen & each) for each in held_out] == [0, 0, 0]
    assert not held_out[0] & (held_out[1] | held_out[2])


@each_world
def test_training_data_have_episodes_and_test_data_single_transitions(name):
    train, test = (make_transitions(name, split, 400, digits="sklearn") for split in ("train", "test"))
    assert np.bincount(train.episode).tolist() == [20] * 20
    assert np.bincount(test.episode).tolist() == [1] * 400
    assert set(train.actions) == set(test.actions) == set(range(train.n_actions))


@each_world
def test_a_tenth_of_the_states_are_test_states(name):
    world, generator = WORLDS_OF_STATES[name], rng(0, "test")
    splits = [world.split_of(world.random_state(generator)) for _ in range(2000)]
    assert 0.05 < splits.count("test") / 2000 < 0.15
    assert 0.75 < splits.count("train") / 2000 < 0.85


@each_puzzle
def test_moves_can_be_undone(name):
    world, generator = PUZZLES[name], rng(1, "test")
    state = world.random_state(generator)
    for action in range(len(world.action_names)):
        assert distance(world, world.step(state, action), state) <= 3


@each_puzzle
def test_tasks_lead_from_test_states_to_goals_that_can_be_reached(name):
    world = PUZZLES[name]
    tasks = [world.task(number) for number in range(5)]
    assert all(world.split_of(task.start) == "test" for task in tasks)
    assert len({str(world.key(task.start)) for task in tasks}) == 5
    assert all(task.optimal >= 1 for task in tasks)
    assert not world.many_states or all(task.optimal <= NEAR for task in tasks)


@each_puzzle
def test_distances_agree_with_a_search_from_one_side(name):
    world = PUZZLES[name]
    start = goal = world.reset(0)
    for action in (0, 1, 2):
        goal = world.step(goal, action)
    numbers, layer, moves = StateNumbers(world), [world.reset(0)], 0
    first, wanted = numbers.number(start), numbers.number(goal)
    seen, layer = {first}, {first}
    while wanted not in layer:
        layer = set(numbers.successors(np.array(sorted(layer)))[0].ravel().tolist()) - seen
        seen |= layer
        moves += 1
    assert distance(world, start, goal) == moves


def test_states_that_no_moves_connect_are_reported():
    from dwmr.worlds.lights_out import LightsOut

    with pytest.raises(ValueError, match="no moves lead"):
        distance(LightsOut(size=4), 0, 1)  # no presses leave just the first light on
