"""Every registered world and environment goes through the same tests; a new one is picked up automatically."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")
pytest.importorskip("sklearn")

from gymnasium.utils.env_checker import check_env  # noqa: E402

import dwmr.envs  # noqa: E402, F401
from dwmr.cli.exporting import PDDL_NAME  # noqa: E402
from dwmr.seeding import rng  # noqa: E402
from dwmr.worlds.registry import ENVIRONMENTS, WORLDS  # noqa: E402

IDS = sorted(name for name in gymnasium.registry if name.startswith("dwmr/"))
ALWAYS_MOVES = {"dwmr/Cube2-v0", "dwmr/Cube3-v0", "dwmr/LightsOut-v0"}
OFFLINE = {"dwmr/SlidingTiles-v0": {"digits": "sklearn"}}


def make(name, **options):
    return gymnasium.make(name, **OFFLINE.get(name, {}), **options)


def episode(env, seed, steps=15):
    """Observations, symbolic states and rewards of random actions."""
    env.action_space.seed(seed)
    observation, info = env.reset(seed=seed)
    seen = [(observation, info["state"], 0.0)]
    for _ in range(steps):
        observation, reward, *_, info = env.step(env.action_space.sample())
        seen.append((observation, info["state"], reward))
    return seen


def same(one, other):
    return all(np.array_equal(a, b) for x, y in zip(one, other, strict=True) for a, b in zip(x, y))


@pytest.mark.parametrize("name", WORLDS)
def test_a_world_keeps_its_promises(name):
    world = WORLDS[name].with_digits("sklearn")
    assert set(world.sizes) == set(world.levels) == {"train", "val", "test"}
    assert type(world) in ENVIRONMENTS.values()
    assert all(PDDL_NAME.fullmatch(action) for action in world.action_names)
    assert len(set(world.action_names)) == len(world.action_names)
    state, generator = world.reset(0), rng(0, "test")
    for action in range(len(world.action_names)):
        after = world.step(state, action)
        labels = world.labels(after)
        assert (labels.dtype, labels.ndim) == (np.uint8, 2)
        assert labels.max() < world.n_classes
        assert (world.key(after) == world.key(state)) == np.array_equal(labels, world.labels(state))
        frame = world.render(after, generator)
        assert (frame.dtype, frame.shape) == (np.uint8, world.image_shape)
    for kind, (task,) in world.tasks(trials=1).items():
        assert kind in world.task_kinds
        assert task.optimal > 0
        assert task.reached(task.goal)
        assert not task.reached(task.start)
    graphs = world.true_graphs([0])
    assert (graphs is not None) == world.small_levels
    for graph in graphs or []:
        assert graph.table.shape == (len(graph.images), len(world.action_names))


def test_the_three_environments_of_the_paper_are_registered():
    assert {"dwmr/SlidingTiles-v0", "dwmr/IceSlider-v0", "dwmr/DigitJump-v0"} <= set(IDS)


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("options", [{}, {"noop": True, "noise": 0.5}])
def test_gymnasium_s_checker_passes(name, options):
    check_env(make(name, **options).unwrapped)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("Blocks", {"blocks": 6, "columns": 3}),
        ("Cube2", {"style": "views", "jitter": 20}),
        ("FifteenPuzzle", {"style": "digits", "digits": "sklearn"}),
        ("Hanoi", {"discs": 4}),
        ("LightsOut", {"size": 5, "style": "digits", "twisted": True, "digits": "sklearn"}),
        ("Sokoban", {"boxes": 3}),
    ],
)
def test_environments_take_the_options_of_their_world(name, options):
    env = make(f"dwmr/{name}-v0", **options).unwrapped
    check_env(env)
    assert {option: getattr(env.world, option) for option in options} == options


@pytest.mark.parametrize("name", IDS)
def test_the_seed_decides_everything(name):
    assert same(episode(make(name, noise=0.1), 5), episode(make(name, noise=0.1), 5))
    assert not same(episode(make(name), 5), episode(make(name), 6))


@pytest.mark.parametrize("name", IDS)
def test_reset_without_a_seed_draws_another_level(name):
    env = make(name)
    _, first = env.reset(seed=1)
    _, second = env.reset()
    _, third = env.reset()
    assert not np.array_equal(first["state"], second["state"])
    assert not np.array_equal(second["state"], third["state"])
    env.reset(seed=9)
    _, again = env.reset(seed=1)
    assert np.array_equal(first["state"], again["state"])


@pytest.mark.parametrize("name", IDS)
def test_a_pickled_copy_goes_on_alike(name):
    env = make(name, noise=0.1)
    env.reset(seed=2)
    stored = pickle.dumps(env)
    assert len(stored) < 200_000
    copy = pickle.loads(stored)
    for step in range(6):
        action = step % int(env.action_space.n)
        one, other = env.step(action), copy.step(action)
        assert np.array_equal(one[0], other[0])
        assert np.array_equal(one[-1]["state"], other[-1]["state"])


@pytest.mark.parametrize("name", IDS)
def test_labels_are_small_grids_below_the_number_of_classes(name):
    env = make(name)
    n_classes = env.unwrapped.world.n_classes
    for _, state, _ in episode(env, 0):
        assert state.ndim == 2
        assert np.issubdtype(state.dtype, np.integer)
        assert state.min() >= 0
        assert state.max() < n_classes


@pytest.mark.parametrize("name", IDS)
def test_illegal_moves_and_the_no_op_change_nothing(name):
    env = make(name, noop=True)
    world = env.unwrapped.world
    noop = len(world.action_names)
    blocked = 0
    for seed in range(20):
        state = world.reset(seed)
        _, info = env.reset(seed=seed)
        before = info["state"]
        for action in range(noop + 1):
            if action == noop or np.array_equal(world.labels(world.step(state, action)), before):
                _, reward, terminated, truncated, info = env.step(action)
                assert np.array_equal(info["state"], before)
                assert (reward, terminated, truncated) == (0.0, False, False)
                blocked += action != noop
    assert blocked or name in ALWAYS_MOVES


@pytest.mark.parametrize("name", IDS)
def test_a_step_leaves_the_old_state_alone(name):
    world = make(name).unwrapped.world
    state = world.reset(0)
    before = world.labels(state)
    for action in range(len(world.action_names)):
        world.step(state, action)
        assert np.array_equal(world.labels(state), before)


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("action", [-1, None, 1.5, "up"])
def test_unknown_actions_are_refused(name, action):
    env = make(name)
    env.reset(seed=0)
    last = int(env.action_space.n) - 1
    with pytest.raises(ValueError, match=f"an integer from 0 to {last}, got"):
        env.step(last + 1 if action is None else action)


@pytest.mark.parametrize("name", IDS)
def test_render_shows_the_last_observation(name):
    env = make(name, render_mode="rgb_array", noise=0.2)
    observation, _ = env.reset(seed=0)
    for action in range(3):
        picture = env.render()
        assert picture.shape == (*observation.shape[:2], 3)
        assert (picture == observation).all()
        observation, *_ = env.step(action)


@pytest.mark.parametrize("name", IDS)
def test_noise_is_fresh_in_every_observation(name):
    env = make(name, noop=True, noise=0.5)
    first, _ = env.reset(seed=0)
    second, *_ = env.step(env.unwrapped.n_actions - 1)
    assert (first != second).mean() > 0.1


@pytest.mark.parametrize("name", IDS)
def test_wrong_options_are_refused(name):
    with pytest.raises(ValueError, match="std must lie between"):
        make(name, noise=-1.0)
    with pytest.raises(ValueError, match="rgb_array"):
        bare_env(name, render_mode="human")


def bare_env(name, **options):
    """The environment without what gymnasium.make checks itself."""
    from dwmr.worlds.gym_env import WorldEnv

    return WorldEnv(**gymnasium.spec(name).kwargs, **OFFLINE.get(name, {}), **options)


def test_reaching_the_goal_is_rewarded_and_ends_the_episode():
    from dwmr.worlds.ice_slider import make_level

    env = make("dwmr/IceSlider-v0", min_solution=2)
    env.reset(seed=4)
    *way, last = make_level(4, min_solution=2).solution()
    for action in way:
        assert env.step(action)[1:4] == (0.0, False, False)
    assert env.step(last)[1:4] == (1.0, True, False)


def test_solving_the_sliding_tiles_is_rewarded():
    env = make("dwmr/SlidingTiles-v0", size=2)
    env.reset(seed=0)
    env.unwrapped._state = np.array([[1, 0], [2, 3]], np.uint8)
    assert env.step(2)[1:4] == (1.0, True, False)


def test_the_rules_work_without_gymnasium():
    code = (
        "import sys; sys.modules['gymnasium'] = None\n"
        "import dwmr.envs\n"
        "from dwmr.worlds import digit_jump, ice_slider, noise, sliding_tiles\n"
        "assert 'dwmr.worlds.gym_env' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
