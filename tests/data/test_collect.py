"""The registered worlds: what a split holds follows from the rules, and the seed decides every byte of it."""

import functools
import hashlib
import statistics
import subprocess
import sys

import numpy as np
import pytest

from dwmr.data import collect
from dwmr.data.collect import collect_world, make_rollouts, make_transitions
from dwmr.data.transitions import HORIZONS, load_splits
from dwmr.errors import InputError
from dwmr.files import cache_folder
from dwmr.worlds import sliding_tiles
from dwmr.worlds.digit_jump import DigitJump
from dwmr.worlds.digits import CACHE_NAME
from dwmr.worlds.ice_slider import IceSlider
from dwmr.worlds.registry import WORLDS

PUZZLES = ("8puzzle", "8puzzle-noisy")
GAMES = {"iceslider": IceSlider(min_solution=1), "iceslider-noisy": IceSlider(min_solution=1), "digitjump": DigitJump()}
NOISY = ("8puzzle-noisy", "iceslider-noisy")
FRESH = ("8puzzle", "-digits", "-jitter", "-noisy")
COUNTS = {"train": 400, "val": 80, "test": 80}
FIRST_LEVEL = {"train": 0, "val": 1000, "test": 1250, "rollout": 1250}
BENCHMARKS = (*PUZZLES, *GAMES)
IMAGE = {name: (1, 88, 88) if name in PUZZLES else (3, 64, 64) for name in BENCHMARKS}
CELLS = {name: (3, 3) if name in PUZZLES else (8, 8) for name in BENCHMARKS}

each_world = pytest.mark.parametrize("name", BENCHMARKS)
each_puzzle = pytest.mark.parametrize("name", PUZZLES)
each_game = pytest.mark.parametrize("name", GAMES)
each_noisy = pytest.mark.parametrize("name", NOISY)
each_split = pytest.mark.parametrize("split", COUNTS)


@pytest.fixture(autouse=True)
def _digits(request):
    if "8puzzle" in request.node.name:
        pytest.importorskip("sklearn")


@functools.cache
def small(name, split="train", seed=0):
    return make_transitions(name, split, COUNTS[split], seed=seed, digits="sklearn")


@functools.cache
def few_rollouts(name, seed=0):
    return make_rollouts(name, 3, seed=seed, digits="sklearn")


def clean(name):
    return name.removesuffix("-noisy")


def digest(*stored):
    """One hash of every array of the transitions and roll-outs."""
    found = hashlib.sha256()
    for part in stored:
        for field in ("obs", "actions", "next_obs", "state", "next_state", "episode", "length"):
            array = getattr(part, field, None)
            if array is not None:
                found.update(
                    f"{field} {array.dtype.str} {array.shape}".encode() + np.ascontiguousarray(array).tobytes()
                )
    return found.hexdigest()


@each_world
@each_split
def test_shapes_and_labels(name, split):
    data = small(name, split)
    count = COUNTS[split]
    assert data.obs.shape == data.next_obs.shape == (count, *IMAGE[name])
    assert data.obs.dtype == data.next_obs.dtype == np.uint8
    assert data.actions.shape == data.episode.shape == (count,)
    assert data.state.shape == data.next_state.shape == (count, *CELLS[name])
    assert data.n_actions == 4
    assert set(data.actions) == {0, 1, 2, 3}
    assert data.n_classes == {"iceslider": 4, "digitjump": 12, "8puzzle": 9}[clean(name)]
    assert data.state.max() == data.n_classes - 1


@pytest.mark.parametrize("name", WORLDS)
@each_split
def test_every_world_has_splits(name, split):
    pytest.importorskip("sklearn")
    data, world = small(name, split), WORLDS[name]
    assert len(data) == COUNTS[split]
    assert data.obs.shape == data.next_obs.shape == (len(data), *world.image_shape)
    assert data.n_actions == len(world.action_names) > data.actions.max()
    assert world.n_classes == data.n_classes > data.state.max()
    inside = data.episode[1:] == data.episode[:-1]
    assert np.array_equal(data.state[1:][inside], data.next_state[:-1][inside])


@pytest.mark.parametrize("name", [name for name in WORLDS if not name.endswith(FRESH)])
def test_a_frame_shows_the_whole_state_where_rendering_is_not_fresh(name):
    data = small(name)
    frames = [(state.tobytes(), frame.tobytes()) for state, frame in zip(data.state, data.obs, strict=True)]
    assert len(set(frames)) == len(dict(frames)) == len({frame for _, frame in frames})


@each_puzzle
@each_split
def test_the_puzzle_is_one_walk_of_moves_that_change_the_board(name, split):
    data = small(name, split)
    assert (data.episode == 0).all()
    assert np.array_equal(data.state[1:], data.next_state[:-1])
    after = [sliding_tiles.step(board, action) for board, action in zip(data.state, data.actions)]
    assert np.array_equal(after, data.next_state)
    assert (data.state != data.next_state).any((1, 2)).all()
    assert sliding_tiles.solvable(data.state[0], sliding_tiles.goal_board(3, 3))


@each_puzzle
def test_a_board_is_never_drawn_twice_in_the_same_way(name):
    data = small(name)
    assert (data.next_obs[:-1] != data.obs[1:]).any((1, 2, 3)).all()


def test_the_puzzle_s_digits_are_those_of_its_split():
    pytest.importorskip("sklearn")
    from dwmr.worlds.digits import load_digits

    for split in COUNTS:
        data = small("8puzzle", split)
        pictures = load_digits("sklearn", split).by_label
        for index, row, col in ((0, 0, 0), (7, 1, 2), (63, 2, 1)):
            tile = data.obs[index, 0, 1 + 29 * row : 29 + 29 * row, 1 + 29 * col : 29 + 29 * col]
            label = data.state[index, row, col]
            assert not tile.any() if label == 0 else (tile == pictures[label]).all((1, 2)).any()


@each_game
@each_split
def test_a_level_is_walked_twice_from_its_start_for_twenty_steps(name, split):
    data, game = small(name, split), GAMES[name]
    assert np.array_equal(data.episode, np.arange(len(data)) // 20)
    state = None
    for index, action in enumerate(data.actions):
        if index % 20 == 0:
            state = game.reset(FIRST_LEVEL[split] + index // 40)
        assert np.array_equal(data.state[index], game.labels(state))
        state = game.step(state, action)
        assert np.array_equal(data.next_state[index], game.labels(state))


@pytest.mark.parametrize("name", ["iceslider", "digitjump"])
def test_images_show_the_labels(name):
    data = small(name)
    assert np.array_equal(data.obs, GAMES[name].draw(data.state, None))
    assert np.array_equal(data.next_obs, GAMES[name].draw(data.next_state, None))


@each_game
def test_whole_splits_share_no_level(name):
    levels = {split: set(seeds) for split, seeds in WORLDS[name].levels.items()}
    assert levels == {"train": set(range(1000)), "val": set(range(1000, 1250)), "test": set(range(1250, 1500))}
    for split, seeds in levels.items():
        assert WORLDS[name].sizes[split] == 40 * len(seeds)


def test_a_split_does_not_reach_into_the_levels_of_another():
    with pytest.raises(InputError, match="'val' has 250 levels, but 251 were asked for"):
        make_transitions("digitjump", "val", 10_001)
    with pytest.raises(InputError, match="250 levels"):
        make_rollouts("digitjump", 251)


@each_noisy
def test_noise_changes_the_pixels_and_nothing_else(name):
    noisy, plain = small(name), small(clean(name))
    for field in ("state", "next_state", "actions", "episode"):
        assert np.array_equal(getattr(noisy, field), getattr(plain, field))
    assert np.array_equal(few_rollouts(name).actions, few_rollouts(clean(name)).actions)
    assert np.array_equal(few_rollouts(name).state, few_rollouts(clean(name)).state)


@each_noisy
def test_noise_has_half_the_range_of_a_pixel_as_its_deviation(name):
    noisy, plain = small(name), small(clean(name))
    normal = statistics.NormalDist(0, 127.5)
    for images, clean_images in ((noisy.obs, plain.obs), (noisy.next_obs, plain.next_obs)):
        grey = (clean_images > 115) & (clean_images < 140)  # far from both ends
        added = images[grey].astype(int) - clean_images[grey]
        for width in (20, 60, 110):
            inside = normal.cdf(width + 0.5) - normal.cdf(-width - 0.5)
            assert (np.abs(added) <= width).mean() == pytest.approx(inside, abs=0.02)
        assert (added > 0).mean() == pytest.approx(0.5, abs=0.02)


@each_noisy
def test_noise_is_never_the_same_twice(name):
    data = small(name)
    frames = np.concatenate([data.obs[:100], data.next_obs[:100]]).reshape(200, -1)
    assert len(np.unique(frames, axis=0)) == 200


@each_world
def test_roll_outs_follow_from_their_first_board_and_their_actions(name):
    data = few_rollouts(name)
    assert data.horizons == HORIZONS
    assert data.actions.shape == (3, 1000)
    assert data.length.tolist() == [1000] * 3
    assert data.obs.shape == (3, len(HORIZONS), *IMAGE[name])
    assert data.state.shape == (3, len(HORIZONS), *CELLS[name])
    for episode in range(3):
        game = GAMES.get(name)
        state = data.state[episode, 0] if game is None else game.reset(FIRST_LEVEL["rollout"] + episode)
        frame = 0
        for step in range(1001):
            if step in HORIZONS:
                labels = state if game is None else game.labels(state)
                assert np.array_equal(data.state[episode, frame], labels)
                if name in ("iceslider", "digitjump"):
                    assert np.array_equal(data.obs[episode, frame], game.render(state, None))
                frame += 1
            if step < 1000:
                act = sliding_tiles.step if game is None else game.step
                state = act(state, data.actions[episode, step])


GOLDEN = {
    "iceslider": "e401d7b8bb27766d579cc31144bce3ed5de2b56f16d60fa7f2b237f6395016fc",
    "iceslider-noisy": "ef1334c9fd602fe90cab845cf6074d2bf765dd284d6a306200bdf0e9a7afe162",
    "digitjump": "477ee16f4817afc3444e01f8e27adb6ef0a133613bebddc7ccac0a3c0a2f4637",
    "8puzzle": "9f33b246d5e0d7ed084d89305a8809671e41547fb30713d30d3c993fd833f57d",
    "8puzzle-noisy": "d4edf1a71e90ec1479bd51485641daa31dbc2a4507a05a3d8a851dbeca719b4a",
}
GOLDEN_MNIST = "13aa0d63b60ce1194accc994a44dc881d2f833a090ce1f6defedd04c59a010ae"


def sample_digest(name, digits):
    transitions = make_transitions(name, "train", 80, seed=7, digits=digits)
    return digest(transitions, make_rollouts(name, 2, seed=7, digits=digits))


@each_world
def test_a_seed_gives_the_same_bytes_everywhere(name):
    assert sample_digest(name, "sklearn") == GOLDEN[name]


def test_a_seed_gives_the_same_bytes_everywhere_with_mnist():
    if not (cache_folder() / CACHE_NAME).exists():
        pytest.skip("MNIST is not in the cache")
    assert sample_digest("8puzzle", "mnist") == GOLDEN_MNIST


@each_world
def test_seeds_and_splits_differ(name):
    actions = [small(name, split, seed).actions[:80].tobytes() for split in COUNTS for seed in (0, 1)]
    actions.append(few_rollouts(name).actions[0, :80].tobytes())
    assert len(set(actions)) == len(actions)
    assert not np.array_equal(small(name, seed=0).obs, small(name, seed=1).obs)


@each_world
def test_a_data_folder_holds_the_splits_in_proportion(name, tmp_path):
    collect_world(name, tmp_path / "data", transitions=240, digits="sklearn", seed=3)
    data = load_splits(tmp_path / "data")
    counts = {"train": 240, "val": 60, "test": 60} if name in GAMES else {"train": 240, "val": 48, "test": 48}
    for split, count in counts.items():
        stored = getattr(data, split)
        made = make_transitions(name, split, count, digits="sklearn", seed=3)
        assert digest(stored) == digest(made)
        assert len(stored) == (-(-count // 40) * 40 if name in GAMES else count)
        drawn = {"digits": "sklearn"} if name.startswith("8puzzle") else {}
        assert stored.about == {"benchmark": name, "split": split, "seed": 3} | drawn
    assert digest(data.rollout) == digest(make_rollouts(name, 10, digits="sklearn", seed=3))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


def test_the_paper_s_sizes():
    assert WORLDS["8puzzle"].sizes == {"train": 30_000, "val": 6_000, "test": 6_000}
    assert WORLDS["iceslider"].sizes == {"train": 40_000, "val": 10_000, "test": 10_000}


@pytest.mark.parametrize("transitions", [0, 39, 40_001])
def test_sizes_that_cannot_be_are_refused(transitions, tmp_path):
    with pytest.raises(InputError, match=f"iceslider has 40 to 40000 transitions, got {transitions}"):
        collect_world("iceslider", tmp_path / "data", transitions=transitions)
    assert not list(tmp_path.iterdir())


def test_an_existing_folder_is_left_alone(tmp_path):
    (tmp_path / "data").mkdir()
    with pytest.raises(FileExistsError, match="exists already"):
        collect_world("iceslider", tmp_path / "data", transitions=40)
    assert [path.name for path in tmp_path.rglob("*")] == ["data"]


def test_nothing_is_left_behind_when_collecting_fails_half_way(tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise RuntimeError("no more")

    monkeypatch.setattr(collect, "make_rollouts", fail)
    with pytest.raises(RuntimeError, match="no more"):
        collect_world("digitjump", tmp_path / "data", transitions=40)
    assert not list(tmp_path.iterdir())


def test_unknown_names_are_answered_with_the_nearest(tmp_path):
    with pytest.raises(InputError, match="unknown world 'iceslidr'; did you mean 'iceslider'"):
        collect_world("iceslidr", tmp_path / "data")
    with pytest.raises(InputError, match="unknown split 'trian'; did you mean 'train'"):
        make_transitions("iceslider", "trian", 40)


def test_collecting_works_without_gymnasium(tmp_path):
    code = (
        "import sys; sys.modules['gymnasium'] = None\n"
        "from dwmr.data.collect import collect_world\n"
        f"collect_world('iceslider', {str(tmp_path / 'data')!r}, transitions=40)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert len(load_splits(tmp_path / "data").train) == 40


def test_another_process_may_be_first_to_fill_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DWMR_CACHE", str(tmp_path))

    def overtaken(name, folder):
        with collect.atomic_folder(folder) as ours:
            collect_world(name, folder, transitions=80)  # as another process would meanwhile
            (ours / "train").mkdir()

    monkeypatch.setattr(collect, "collect_world", overtaken)
    folder = collect.cached_world("iceslider")
    assert len(load_splits(folder).train) == 80
    assert [path.name for path in folder.parent.iterdir()] == ["iceslider"]


def test_a_cache_that_cannot_be_filled_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("DWMR_CACHE", str(tmp_path))
    (tmp_path / "data").write_text("a file in the way")
    with pytest.raises(OSError, match="could not write"):
        collect.cached_world("iceslider")
