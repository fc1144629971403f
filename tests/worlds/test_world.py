"""A new world is one class and one registration: data, tasks, graphs and the environment come with it."""

from dataclasses import dataclass

import numpy as np
import pytest

from dwmr import InputError, load_splits
from dwmr.data.collect import collect_world, make_transitions
from dwmr.worlds import registry
from dwmr.worlds.registry import action_names, find_world, register, tasks_of
from dwmr.worlds.tasks import Task
from dwmr.worlds.world import World


@dataclass(frozen=True)
class Corridor(World):
    """Five cells in a row; the agent must reach the last one. A state is the agent's cell."""

    name = "corridor"
    action_names = ("back", "forth")
    n_classes = 2
    image_shape = (1, 4, 20)
    small_levels = True
    task_kinds = ("walks",)

    def reset(self, seed):
        return seed % 4

    def step(self, state, action):
        return min(max(state + (1 if action == 1 else -1), 0), 4)

    def solved(self, state):
        return state == 4

    def labels(self, state):
        return np.eye(5, dtype=np.uint8)[[state]]

    def draw(self, labels, generator=None, split="train"):
        return 255 * labels.repeat(4, 1).repeat(4, 2)[:, None]

    def task(self, number, kind="", seed=0):
        return Task(f"walk {number}", self, self.reset(number), 4, 4 - self.reset(number), np.random.default_rng(seed))


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    monkeypatch.setattr(registry, "WORLDS", dict(registry.WORLDS))
    monkeypatch.setattr(registry, "ENVIRONMENTS", dict(registry.ENVIRONMENTS))
    register(Corridor(), "Corridor-v0", noisy=True)


def test_its_data_follow_its_rules(tmp_path):
    collect_world("corridor", tmp_path / "data", transitions=80)
    data, world = load_splits(tmp_path / "data"), find_world("corridor")
    assert (len(data.train), data.train.image_shape, data.train.n_actions) == (80, (1, 4, 20), 2)
    for state, action, after in zip(data.train.state, data.train.actions, data.train.next_state):
        assert np.array_equal(world.labels(world.step(int(state.argmax()), action)), after)
    assert data.train.state[::20].reshape(4, 5).argmax(1).tolist() == [0, 0, 1, 1]  # two episodes of 20 steps a level


def test_the_noisy_version_walks_the_same_way():
    clean, noisy = (make_transitions(name, "train", 80) for name in ("corridor", "corridor-noisy"))
    assert np.array_equal(clean.state, noisy.state)
    assert not np.array_equal(clean.obs, noisy.obs)


def test_its_tasks_and_the_rules_over_its_states():
    tasks = tasks_of("corridor", trials=3)["walks"]
    assert [task.optimal for task in tasks] == [4, 3, 2]
    assert tasks[0].solved_by([1, 1, 1, 1])
    assert not tasks[0].solved_by([1, 1, 1, 0])
    rules = tasks[0].rules
    numbers = rules.successors(np.array([rules.number(0)]))
    assert numbers.tolist() == [[rules.number(0), rules.number(1)]]


def test_its_true_graph():
    (graph,) = find_world("corridor").true_graphs([1])
    assert list(graph.states) == ["1", "0", "2", "3", "4"]
    assert graph.table.tolist() == [[1, 2], [1, 0], [0, 3], [2, 4], [3, 4]]
    assert graph.images.shape == (5, 1, 4, 20)


def test_its_actions_have_names():
    assert action_names("corridor", 2) == ("back", "forth")
    assert action_names("corridor", 3) == action_names(None, 3) == ("action-0", "action-1", "action-2")


def test_its_environment():
    env_module = pytest.importorskip("dwmr.worlds.gym_env")
    env = env_module.WorldEnv(f"{__name__}:Corridor", noop=True)
    frame, info = env.reset(seed=3)
    assert frame.shape == (4, 20, 1)
    assert info["state"].argmax() == 3
    assert env.step(2)[1:3] == (0.0, False)  # the no-op
    assert env.step(1)[1:3] == (1.0, True)


def test_unknown_worlds_are_answered_with_the_nearest():
    with pytest.raises(InputError, match="unknown world 'corridr'; did you mean 'corridor'"):
        find_world("corridr")
