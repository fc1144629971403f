"""Collecting from any environment: our own, a tiny one made for these tests, and one of Gymnasium's."""

import hashlib
import sys
from itertools import count

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from gymnasium.spaces import Box, Discrete, MultiDiscrete  # noqa: E402

from dwmr.data import gym_collect  # noqa: E402
from dwmr.data.gym_collect import collect_env  # noqa: E402
from dwmr.data.transitions import HORIZONS, load_splits  # noqa: E402
from dwmr.errors import InputError  # noqa: E402
from dwmr.worlds.digit_jump import DigitJump  # noqa: E402
from dwmr.worlds.ice_slider import IceSlider  # noqa: E402
from dwmr.worlds.sliding_tiles import SlidingTiles  # noqa: E402

OWN = {
    "dwmr/IceSlider-v0": (IceSlider, {"min_solution": 1}),
    "dwmr/DigitJump-v0": (DigitJump, {}),
    "dwmr/SlidingTiles-v0": (SlidingTiles, {"size": 2, "digits": "sklearn"}),
}
TINY = "Test/Tiny-v0"


class Tiny(gymnasium.Env):
    """Seven steps, seen as two numbers: steps so far and the last action. The label is the reset seed, in base 16."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    open = 0

    def __init__(self, shape=(6, 5, 3), dtype="uint8", actions=None, spoil=None, render_mode=None):
        self.action_space = Discrete(3) if actions is None else actions
        self.observation_space = Box(0, 255, shape, np.dtype(dtype))
        self.render_mode = render_mode
        self.spoil = spoil
        self.screen = np.zeros(shape, dtype)  # the one buffer of all observations
        type(self).open += 1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed, self.steps = seed, 0
        return self._see(99)

    def step(self, action):
        if not self.action_space.contains(action):
            raise ValueError(f"what is {action}?")
        if self.spoil == "step":
            raise RuntimeError("the plug is out")
        self.steps += 1
        observation, info = self._see(action)
        return observation, 0.0, self.steps == 7, False, info

    def render(self):
        return np.full((8, 9, 3), self.steps, np.uint8)

    def close(self):
        type(self).open -= 1

    def _see(self, action):
        self.screen.flat[:2] = self.steps, action
        label = np.array([self.seed >> 4 * digit & 15 for digit in range(8)])
        spoilt = {
            "negative": {"state": label - 1},
            "float": {"state": label * 1.0},
            "cube": {"state": label.reshape(2, 2, 2)},
            "late": {"state": label} if self.steps < 5 else {},
            "growing label": {"state": label[: 3 + self.steps]},
        }
        info = spoilt.get(self.spoil, {"state": label})
        if self.spoil == "dict":
            return {"picture": self.screen, "text": "hello"}, info
        if self.spoil == "growing":
            return np.zeros((6 + self.steps, 5, 3), np.uint8), info
        return self.screen, info


class Blind(Tiny):
    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012


@pytest.fixture(autouse=True)
def _registered():
    gymnasium.register(TINY, entry_point=Tiny)
    gymnasium.register("Test/Blind-v0", entry_point=Blind)
    Tiny.open = 0
    yield
    assert Tiny.open == 0  # every environment was closed
    del gymnasium.registry[TINY], gymnasium.registry["Test/Blind-v0"]


@pytest.fixture
def tiny(tmp_path):
    """Collect 100 transitions of the tiny environment."""
    numbers = count()

    def collected(render=False, seed=0, transitions=100, **options):
        out = tmp_path / str(next(numbers))
        collect_env(TINY, out, transitions=transitions, seed=seed, render=render, env_options=options)
        return load_splits(out)

    return collected


def seeds_of(labels):
    return [int(sum(int(digit) << 4 * place for place, digit in enumerate(label))) for label in labels]


def hashes(folder):
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


@pytest.mark.parametrize("name", OWN)
def test_our_own_puzzles_keep_to_their_rules(name, tmp_path):
    puzzle_type, options = OWN[name]
    if "digits" in options:
        pytest.importorskip("sklearn")
    collect_env(name, tmp_path / "data", transitions=150, seed=4, env_options=options)
    data, puzzle = load_splits(tmp_path / "data"), puzzle_type(**options)
    assert [len(data.train), len(data.val), len(data.test), len(data.rollout)] == [150, 30, 30, 1]
    for split in ("train", "val", "test"):
        part = getattr(data, split)
        expected = {"env": name, "seed": 4, "render": False, "options": options, "split": split}
        assert part.about == expected
        seeds = gym_collect._reset_seeds(4, split)
        state, episode = None, -1
        for index, action in enumerate(part.actions):
            if part.episode[index] != episode:
                episode += 1
                state = puzzle.reset(next(seeds))
            assert part.episode[index] == episode
            assert np.array_equal(part.state[index], puzzle.labels(state))
            state = puzzle.step(state, action)
            assert np.array_equal(part.next_state[index], puzzle.labels(state))
            if puzzle_type is not SlidingTiles:
                assert np.array_equal(part.next_obs[index], puzzle.render(state, None))
    state = puzzle.reset(next(gym_collect._reset_seeds(4, "rollout")))
    for step in range(data.rollout.length[0] + 1):
        if step in HORIZONS:
            assert np.array_equal(data.rollout.state[0, HORIZONS.index(step)], puzzle.labels(state))
        if step < data.rollout.length[0]:
            assert not puzzle.solved(state)
            state = puzzle.step(state, data.rollout.actions[0, step])
    parts = (data.train, data.val, data.test, data.rollout)
    assert {part.n_classes for part in parts} == {puzzle.n_classes}
    assert {part.n_actions for part in parts} == {4}


def test_a_seed_gives_the_same_bytes(tmp_path):
    for out, seed in (("a", 5), ("b", 5), ("c", 6)):
        collect_env("dwmr/DigitJump-v0", tmp_path / out, transitions=30, seed=seed, env_options={"noise": 0.2})
    one, same, other = (hashes(tmp_path / out) for out in "abc")
    assert one == same
    assert one.keys() == other.keys()
    assert all(one[name] != other[name] for name in one if name.endswith(("obs.npy", "actions.npy")))


def test_an_episode_ends_and_another_begins(tiny):
    train = tiny().train
    steps = np.arange(100) % 7
    assert np.array_equal(train.episode, np.arange(100) // 7)
    assert np.array_equal(train.obs[:, 0, 0, 0], steps)
    assert np.array_equal(train.next_obs[:, 0, 0, 0], steps + 1)
    assert np.array_equal(train.next_obs[:, 1, 0, 0], train.actions)
    assert np.array_equal(train.obs[:, 1, 0, 0], np.where(steps == 0, 99, np.roll(train.actions, 1)))
    assert set(train.actions) == {0, 1, 2}


def test_roll_outs_stop_where_their_episode_ends(tiny):
    rollout = tiny(transitions=600).rollout
    assert rollout.length.tolist() == [7, 7, 7]
    assert rollout.actions.shape == (3, 1000)
    assert rollout.horizons == HORIZONS
    assert rollout.obs[:, :, 0, 0, 0].tolist() == [[0, 1, 2, 5, *[0] * 7]] * 3
    assert np.array_equal(rollout.obs[:, 3, 1, 0, 0], rollout.actions[:, 4])
    assert not rollout.obs[:, 4:].any()
    assert not rollout.state[:, 4:].any()


@pytest.mark.parametrize(
    ("transitions", "held_out", "episodes"), [(1, 1, 1), (9, 1, 1), (999, 199, 4), (12_000, 2400, 50)]
)
def test_the_splits_are_in_proportion(tiny, transitions, held_out, episodes):
    data = tiny(transitions=transitions)
    counts = [len(data.train), len(data.val), len(data.test), len(data.rollout)]
    assert counts == [transitions, held_out, held_out, episodes]


def test_every_episode_of_every_split_has_a_reset_seed_of_its_own(tiny):
    data = tiny(transitions=600)
    found = []
    for part in (data.train, data.val, data.test):
        starts = np.flatnonzero(np.diff(part.episode, prepend=-1))
        found += seeds_of(part.state[starts])
        assert np.array_equal(part.state, part.state[starts][part.episode])
    found += seeds_of(data.rollout.state[:, 0])
    assert len(found) == 86 + 18 + 18 + 3
    assert len(set(found)) == len(found)
    assert not set(found) & set(seeds_of(tiny(seed=1).train.state))


def test_actions_are_stored_from_zero_on(tiny):
    train = tiny(actions=Discrete(5, start=3)).train
    assert train.n_actions == 5
    assert set(train.actions) == {0, 1, 2, 3, 4}
    assert np.array_equal(train.next_obs[:, 1, 0, 0], train.actions + 3)


@pytest.mark.parametrize(
    ("shape", "stored"),
    [
        ((6, 5), (1, 6, 5)),
        ((6, 5, 1), (1, 6, 5)),
        ((6, 5, 3), (3, 6, 5)),
        ((6, 5, 4), (4, 6, 5)),
        ((3, 6, 5), (3, 6, 5)),
        ((3, 6, 4), (4, 3, 6)),  # channels come last where both readings are possible
    ],
)
def test_images_are_stored_with_their_channels_first(tiny, shape, stored):
    train = tiny(shape=shape).train
    assert train.image_shape == stored
    first = np.zeros(shape, np.uint8)
    first.flat[:2] = 0, 99
    if len(shape) == 3 and stored != shape:
        first = first.transpose(2, 0, 1)
    assert np.array_equal(train.obs[0], first.reshape(stored))


@pytest.mark.parametrize(
    ("options", "got"),
    [
        ({"shape": (4,)}, r"uint8 \(4,\)"),
        ({"dtype": "float32"}, r"float32 \(6, 5, 3\)"),
        ({"shape": (6, 5, 2)}, r"uint8 \(6, 5, 2\)"),
        ({"shape": (3, 4, 5)}, r"uint8 \(3, 4, 5\)"),
        ({"shape": (2, 6, 5, 3)}, r"uint8 \(2, 6, 5, 3\)"),
        ({"spoil": "dict"}, "of type dict"),
    ],
)
def test_what_is_no_image_is_refused_or_rendered(tiny, options, got, tmp_path):
    with pytest.raises(InputError, match=f"the observations of Test/Tiny-v0 are {got}, expected images.*--render"):
        tiny(**options)
    assert not list(tmp_path.iterdir())
    train = tiny(render=True, **options).train
    assert train.image_shape == (3, 8, 9)
    assert (train.obs == (np.arange(100) % 7)[:, None, None, None]).all()
    assert (train.next_obs == (np.arange(100) % 7 + 1)[:, None, None, None]).all()
    assert train.about["render"] is True
    assert train.labelled


def test_images_that_change_their_shape_are_refused(tiny, tmp_path):
    with pytest.raises(InputError, match=r"change their shape: \(3, 7, 5\) .* came after \(3, 6, 5\)"):
        tiny(spoil="growing")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("space", [MultiDiscrete([2, 3]), Box(-1, 1, (2,))], ids=str)
def test_actions_must_be_discrete(tiny, space):
    with pytest.raises(InputError, match=rf"the actions of Test/Tiny-v0 are {type(space).__name__}\(.*, expected Disc"):
        tiny(actions=space)


@pytest.mark.parametrize("spoil", ["negative", "float", "cube", "late", "growing label"])
def test_labels_are_stored_only_if_all_are_alike_and_make_sense(tiny, spoil):
    data = tiny(spoil=spoil)
    assert not any(part.labelled for part in (data.train, data.val, data.test))
    assert data.rollout.state is None


def test_labels_of_one_axis_count_their_classes_over_all_splits(tiny):
    data = tiny(transitions=10)
    parts = (data.train, data.val, data.test, data.rollout)
    assert data.train.state.shape == (10, 8)
    assert {part.n_classes for part in parts} == {1 + max(int(part.state.max()) for part in parts)}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (TINY, {"colour": 1}, "Test/Tiny-v0 could not be made: .*unexpected keyword argument 'colour'"),
        ("dwmr/IceSlider-v0", {"noise": -1.0}, "could not be made: std must lie between"),
        ("no_such_module:X-v0", {}, "could not be made: No module named 'no_such_module'"),
        ("two words", {}, "could not be made: Malformed environment ID"),
        ("CartPol-v1", {}, "CartPol-v1 could not be made: .*doesn't exist. Did you mean: `CartPole`"),
    ],
)
def test_environments_that_cannot_be_made_say_why(tmp_path, name, options, message):
    with pytest.raises(InputError, match=message):
        collect_env(name, tmp_path / "data", transitions=10, env_options=options)
    assert not list(tmp_path.iterdir())


def test_environments_that_cannot_render_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"Test/Blind-v0 cannot render images: its render modes are \['ansi'\]"):
        collect_env("Test/Blind-v0", tmp_path / "data", transitions=10, render=True)


def test_a_module_before_the_colon_is_imported_first(tmp_path, monkeypatch):
    (tmp_path / "far_away.py").write_text(
        "import gymnasium\n"
        "from tests.data.test_gym_collect import Tiny\n"
        "gymnasium.register('Test/Far-v0', entry_point=Tiny, max_episode_steps=4)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    name = "far_away:Test/Far-v0"
    try:
        collect_env(name, tmp_path / "data", transitions=10, env_options={"actions": Discrete(2)})
    finally:
        gymnasium.registry.pop("Test/Far-v0", None)
        sys.modules.pop("far_away", None)
    data = load_splits(tmp_path / "data")
    assert data.train.about["env"] == name
    assert data.train.about["options"] == {"actions": "Discrete(2)"}
    assert data.train.episode.tolist() == [0] * 4 + [1] * 4 + [2] * 2
    assert data.rollout.length.tolist() == [4]


def test_without_gymnasium_it_says_what_to_install(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "gymnasium"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=r"needs gymnasium: pip install 'dwmr\[envs\]'"):
        collect_env(TINY, tmp_path / "data", transitions=10)


@pytest.mark.parametrize(
    ("transitions", "seed", "message"),
    [(0, 0, "transitions must be at least 1, got 0"), (10, -1, "the seed must be 0 or more, got -1")],
)
def test_numbers_that_make_no_sense_are_refused(tiny, transitions, seed, message):
    with pytest.raises(InputError, match=message):
        tiny(transitions=transitions, seed=seed)


def test_more_than_memory_holds_is_refused(tiny):
    with pytest.raises(InputError, match="no memory for 1,000,000,000,000,000 transitions"):
        tiny(transitions=10**15)


def test_an_existing_folder_is_left_alone(tmp_path):
    (tmp_path / "data").mkdir()
    with pytest.raises(FileExistsError, match="exists already"):
        collect_env(TINY, tmp_path / "data", transitions=10)
    assert [path.name for path in tmp_path.rglob("*")] == ["data"]


def test_nothing_is_left_behind_when_the_environment_fails(tiny, tmp_path):
    with pytest.raises(RuntimeError, match="the plug is out"):
        tiny(spoil="step")
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_frozen_lake_is_seen_through_its_rendering(tmp_path, monkeypatch):
    pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    with pytest.raises(InputError, match=r"FrozenLake-v1 are of type int, expected images.*--render"):
        collect_env("FrozenLake-v1", tmp_path / "data", transitions=20)
    collect_env("FrozenLake-v1", tmp_path / "data", transitions=20, render=True)
    data = load_splits(tmp_path / "data")
    assert data.train.n_actions == 4
    assert not data.train.labelled
    assert data.train.image_shape[0] == 3
    going_on = data.train.episode[1:] == data.train.episode[:-1]
    assert np.array_equal(data.train.obs[1:][going_on], data.train.next_obs[:-1][going_on])
    assert len(np.unique(data.train.obs.reshape(20, -1), axis=0)) > 1
