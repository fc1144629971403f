"""`auto` on a world that none of its values were chosen for: a token that jumps over blocks on a board of 4×4 cells."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import dwmr
from dwmr import InputError, Transitions
from dwmr.data.cell_grid import find_symbols
from dwmr.data.rendered_cells import NamedCells
from dwmr.models.run_folder import read_info, write_info
from dwmr.training.auto import MAX_ROUNDS, another_round, find_cells, hold_out, recipes
from tests.data.test_image_parts import cakes

SIDE, PIXELS = 4, 6
SHORT = dwmr.preset("auto", epochs=12)
MOVES = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])


def jump(count: int = 1500, seed: int = 0) -> Transitions:
    """A token jumps two cells if the first is a block, else one; the board is a torus, and blocks stay."""
    generator = np.random.default_rng(seed)
    boards, actions = [], generator.integers(0, 4, count)
    for step in range(count):
        if step % 10 == 0:
            blocks = generator.random((SIDE, SIDE)) < 0.2
            place = generator.integers(0, SIDE, 2)
            blocks[tuple(place)] = False
        before = blocks + 2 * _token(place)
        ahead = (place + MOVES[actions[step]]) % SIDE
        ahead = (ahead + MOVES[actions[step]]) % SIDE if blocks[tuple(ahead)] else ahead
        place = place if blocks[tuple(ahead)] else ahead
        boards.append((before, blocks + 2 * _token(place)))
    now, then = np.array(boards).transpose(1, 0, 2, 3)
    return Transitions(_drawn(now), actions, _drawn(then), n_actions=4, episode=np.arange(count) // 10)


def _token(place: np.ndarray) -> np.ndarray:
    board = np.zeros((SIDE, SIDE), int)
    board[tuple(place)] = 1
    return board


def _drawn(boards: np.ndarray) -> np.ndarray:
    tiles = np.random.default_rng(5).integers(0, 256, (3, 3, PIXELS, PIXELS), dtype=np.uint8)
    images = tiles[boards].transpose(0, 3, 1, 4, 2, 5)
    return images.reshape(len(boards), 3, SIDE * PIXELS, SIDE * PIXELS)


def with_noise(data: Transitions, *, episodes: bool = True) -> Transitions:
    """Every frame with noise of its own: the next frame of a transition differs from the first frame of the next."""
    noise = np.random.default_rng(0).integers(0, 60, (2, *data.obs.shape), dtype=np.uint8)
    episode = data.episode if episodes else None
    now, then = data.obs // 2 + noise[0], data.next_obs // 2 + noise[1]
    return Transitions(now, data.actions, then, n_actions=4, episode=episode)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[dwmr.WorldModel, Path]:
    folder = tmp_path_factory.mktemp("auto") / "run"
    run = dwmr.train(SHORT, train=jump(4000), out=folder, progress=False)
    return run.model, folder


def test_a_world_drawn_in_cells_is_learned_exactly(fitted: tuple[dwmr.WorldModel, Path]) -> None:
    model, _ = fitted
    assert model.verdict is not None
    assert model.verdict.word == "exact", model.verdict
    fresh = jump(500, seed=9)
    codes, next_codes = model.encode(fresh.obs), model.encode(fresh.next_obs)
    assert (model.predict(codes, fresh.actions) == next_codes).all(1).float().mean() > 0.985
    assert len(codes.unique(dim=0)) == len(np.unique(fresh.obs.reshape(500, -1), axis=0))
    assert torch.equal(model.decode(codes), torch.from_numpy(fresh.obs))


def test_the_run_folder_keeps_the_choices_and_the_verdict(fitted: tuple[dwmr.WorldModel, Path]) -> None:
    model, folder = fitted
    info = read_info(folder)
    assert info.config.name == "auto"
    assert info.config.cells == "4x4:6x6+0+0"
    assert info.config.symbols == 3
    loaded = dwmr.WorldModel.load(folder)
    assert loaded.verdict == model.verdict
    images = jump(50, seed=3).obs
    assert torch.equal(loaded.encode(images), model.encode(images))


def test_a_finished_run_is_resumed_as_it_is(fitted: tuple[dwmr.WorldModel, Path]) -> None:
    model, folder = fitted
    run = dwmr.train(SHORT, train=jump(4000), out=folder, resume=True, progress=False)
    assert run.verdict == model.verdict


def test_a_run_is_not_resumed_with_other_values(fitted: tuple[dwmr.WorldModel, Path]) -> None:
    _, folder = fitted
    with pytest.raises(InputError, match="was trained with epochs=12, not 13"):
        dwmr.train(SHORT.replace(epochs=13), train=jump(4000), out=folder, resume=True, progress=False)


def test_a_run_of_another_preset_is_not_resumed(tmp_path: Path) -> None:
    data = jump(400)
    dwmr.train(dwmr.preset("generic/dwmr", epochs=1), train=data, out=tmp_path / "run", progress=False)
    with pytest.raises(InputError, match="'generic/dwmr', which auto cannot resume"):
        dwmr.train(SHORT, train=data, out=tmp_path / "run", resume=True, progress=False)


def test_a_world_drawn_anew_in_every_frame_is_learned_exactly(tmp_path: Path) -> None:
    run = dwmr.train(SHORT, train=with_noise(jump(2500)), out=tmp_path / "run", progress=False)
    assert (run.config.encoder, run.config.symbols, run.config.cells) == ("reader", 3, "4x4:6x6+0+0")
    assert run.verdict is not None
    assert run.verdict.word == "exact", run.verdict
    assert run.verdict.figures["repeated_frames"] == 0
    fresh = jump(500, seed=9)
    noisy = with_noise(fresh)
    codes = run.model.encode(noisy.obs)
    states = np.unique(fresh.obs.reshape(500, -1), axis=0, return_inverse=True)[1].ravel()
    assert len(set(zip(map(bytes, codes.numpy()), states.tolist(), strict=True))) <= len(set(states)) + 5
    assert torch.equal(dwmr.WorldModel.load(tmp_path / "run").encode(noisy.obs), codes)


def test_a_world_of_parts_that_are_no_cells_is_learned_exactly(tmp_path: Path) -> None:
    """Three colours on the sectors of a circle; actions turn the circle, and change the colour of a sector."""
    generator = np.random.default_rng(0)
    actions, state = generator.integers(0, 3, 4000), generator.integers(0, 3, (4000, 5))
    turned = [np.roll(state, 1, axis=1), np.roll(state, -1, axis=1), (state + np.eye(1, 5, dtype=int)) % 3]
    data = Transitions(cakes(state), actions, cakes(np.choose(actions[:, None], turned)), n_actions=3)
    run = dwmr.train(SHORT, train=data[:3600], val=data[3600:], out=tmp_path / "run", progress=False)
    assert (run.config.cells[:4], run.config.symbols, run.config.bits) == ("1x5:", 3, 10)
    assert run.verdict is not None
    assert run.verdict.word == "exact", run.verdict
    loaded = dwmr.WorldModel.load(tmp_path / "run")
    codes = loaded.encode(data.obs)
    assert torch.equal(codes, run.model.encode(data.obs))
    assert torch.equal(loaded.decode(codes), torch.from_numpy(data.obs))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("rendered", [False, True], ids=["cells", "rendered cells"])
def test_two_seeds_on_a_gpu_are_exact_and_encode_as_on_the_cpu(rendered: bool) -> None:
    data = with_noise(jump(4000)) if rendered else jump(4000)
    for run in dwmr.train_many(SHORT, train=data, seeds=[0, 1], device="cuda", progress=False):
        assert isinstance(run, dwmr.Run)
        assert run.verdict is not None
        assert run.verdict.word == "exact", run.verdict
        on_gpu = run.model.encode(data.obs).cpu()
        assert (run.model.to("cpu").encode(data.obs) == on_gpu).all(1).float().mean() > 0.999


def test_too_short_a_training_is_not_called_exact() -> None:
    run = dwmr.train(dwmr.preset("auto", epochs=1), train=jump(600), progress=False)
    assert run.verdict is not None
    assert run.verdict.word != "exact"


def test_training_goes_on_as_long_as_it_gains() -> None:
    data = jump(2000)
    config = recipes(dwmr.preset("auto"), data)[0].config
    length = config.epochs

    def after(*ends: float) -> dwmr.Config | None:
        """With these percent of exact next codes after the first epoch and at the end of each round."""
        exact = [ends[0], *(end for end in ends[1:] for _ in range(length))][: (len(ends) - 1) * length]
        exact[length - 1 :: length] = ends[1:]
        done = len(exact)
        now = config.replace(epochs=done, cosine_from=done - length + length // 2)
        return another_round(now, [{"val": {"exact_next": each}} for each in exact], data)

    longer = after(50.0, 90.0)
    assert longer is not None
    assert (longer.epochs, longer.cosine_from) == (2 * length, length + length // 2)
    assert after(50.0, 90.0, 91.1) is not None
    assert after(50.0, 90.0, 90.9) is None  # less than a tenth of the errors
    assert after(50.0, 100.0) is None
    assert after(0.0, *(100 - 50 * 0.5**k for k in range(MAX_ROUNDS))) is None
    asked = config.replace(epochs=2 * length, cosine_from=length)  # a length that was asked for
    rising = [{"val": {"exact_next": 40.0 + epoch}} for epoch in range(2 * length)]
    assert another_round(asked, rising, data) is None


def test_rounds_are_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A seed stopped after its second round, resumed together with one that had not begun."""
    data, asked, seeds = jump(500), dwmr.preset("auto"), [2, 0]
    monkeypatch.setattr("dwmr.training.auto.UPDATES", 32)
    monkeypatch.setattr("dwmr.training.auto.TRIAL_UPDATES", 8)
    words = {"train": data[:300], "val": data[300:], "progress": False}
    straight = dwmr.train_many(asked, seeds=seeds, **words)
    first, second = (len(run.metrics) for run in straight)
    assert first >= 3 * second
    outs = [tmp_path / str(seed) for seed in seeds]
    with monkeypatch.context() as stopped:
        stopped.setattr("dwmr.training.auto.MAX_ROUNDS", 2)
        dwmr.train(asked, seed=seeds[0], out=outs[0], **words)
    write_info(outs[0], replace(read_info(outs[0]), verdict=None))  # as if killed before the third round was decided on
    for _ in range(2):  # finished runs stay as they are
        resumed = dwmr.train_many(asked, seeds=seeds, outs=outs, resume=True, **words)
        for out, run, other in zip(outs, resumed, straight):
            assert read_info(out).config == run.config == other.config
            assert [record["terms"] for record in run.metrics] == [record["terms"] for record in other.metrics]


def test_nothing_depends_on_colours_or_on_the_order_of_actions() -> None:
    data = jump(400)
    config = recipes(dwmr.preset("auto"), data)[0].config
    changed = Transitions(255 - data.obs, 3 - data.actions, 255 - data.next_obs, n_actions=4, episode=data.episode)
    assert recipes(dwmr.preset("auto"), changed)[0].config == config


def test_cells_with_many_symbols_are_compared_with_parts() -> None:
    """Every place of the board has three tiles of its own, so that its cells show 48 symbols and its parts three."""
    generator = np.random.default_rng(0)
    tiles = generator.integers(0, 256, (SIDE, SIDE, 3, 3, PIXELS, PIXELS), dtype=np.uint8)
    boards = generator.integers(0, 3, (2000, SIDE, SIDE))
    row, col = np.indices((SIDE, SIDE))
    images = tiles[row, col, boards].transpose(0, 3, 1, 4, 2, 5).reshape(-1, 3, SIDE * PIXELS, SIDE * PIXELS)
    data = Transitions(images[:-1], np.arange(1999) % 2, images[1:], n_actions=2)
    parts, cells = find_cells(data)  # the one with fewer bits first
    assert (str(cells.grid), len(cells)) == ("4x4:6x6+0+0", 48)
    assert (str(parts.grid), len(parts)) == ("4x4:36", 3)
    run = dwmr.train(dwmr.preset("auto", epochs=2), train=data, progress=False)  # nothing can be learned, only compared
    assert run.config.cells in ("4x4:6x6+0+0", "4x4:36")
    assert run.verdict is not None
    assert run.verdict.word == "failed"
    assert torch.equal(run.model.decode(run.model.encode(data.obs[:100])), torch.from_numpy(data.obs[:100]))


def test_drawings_of_one_symbol_are_one_symbol_even_if_they_are_few() -> None:
    """Each cell has one of two frames around its tile, at random in every image: two drawings of each symbol."""
    data = jump(3000)
    generator = np.random.default_rng(0)

    def framed(images: np.ndarray) -> np.ndarray:
        bright = generator.random((len(images), 1, SIDE, SIDE)) < 0.5
        edge = np.ones((PIXELS, PIXELS), bool)
        edge[1:-1, 1:-1] = False
        mask = np.kron(np.ones((SIDE, SIDE), bool), edge)
        return np.where(mask & bright.repeat(PIXELS, 2).repeat(PIXELS, 3), np.uint8(255), images)

    twice = replace(data, obs=framed(data.obs), next_obs=framed(data.next_obs))
    assert len(find_symbols(twice.obs, twice.next_obs) or ()) > 3
    (found,) = find_cells(twice)
    assert isinstance(found, NamedCells)
    assert (str(found.grid), len(found)) == ("4x4:6x6+0+0", 3)


def test_images_without_cells_train_generic_networks() -> None:
    data = jump(300)
    rendered = with_noise(data, episodes=False)
    (recipe,) = recipes(dwmr.preset("auto"), rendered)
    config = recipe.config
    assert (config.name, config.cells, config.model) == ("auto", "", "strong")


def test_whole_episodes_are_held_out() -> None:
    train, held_out = hold_out(jump(6005))
    assert (len(train), len(held_out)) == (5400, 605)
    assert train.episode is not None
    assert held_out.episode is not None
    assert not set(train.episode) & set(held_out.episode)


def test_long_episodes_are_cut() -> None:
    data = jump(400)
    two = replace(data, episode=(np.arange(400) >= 20).astype(int))
    assert [len(part) for part in hold_out(two)] == [320, 80]


@pytest.mark.parametrize(("count", "held_out"), [(300, 60), (2000, 400), (3000, 400), (10_000, 1000)])
def test_of_few_transitions_more_are_held_out(count: int, held_out: int) -> None:
    data = jump(100)
    parts = (np.resize(part, (count, *part.shape[1:])) for part in (data.obs, data.actions, data.next_obs))
    many = Transitions(*parts, n_actions=4)
    assert len(hold_out(many)[1]) == held_out


def test_few_bits_and_few_transitions_are_enough_to_train() -> None:
    """Eight lamps in a row, of which an action switches one: 8 bits, and 200 transitions."""
    generator = np.random.default_rng(0)
    lamps, actions = generator.integers(0, 2, (200, 2, 4), dtype=np.uint8), generator.integers(0, 8, 200)
    switched = lamps ^ np.eye(8, dtype=np.uint8)[actions].reshape(-1, 2, 4)
    tile = np.random.default_rng(1).integers(0, 256, (2, 8, 8), dtype=np.uint8)
    now, then = (tile[part].transpose(0, 1, 3, 2, 4).reshape(-1, 1, 16, 32) for part in (lamps, switched))
    run = dwmr.train(SHORT, train=Transitions(now, actions, then, n_actions=8), progress=False)
    assert (run.config.bits, run.config.batch_size) == (8, 40)
    assert run.verdict is not None
    assert run.verdict.word != "exact"
    assert run.verdict.figures["collisions"] == 0


def test_data_that_cannot_teach_anything_is_refused() -> None:
    data = jump(300)
    still = Transitions(data.obs, data.actions, data.obs, n_actions=4)
    one = Transitions(data.obs, np.zeros_like(data.actions), data.next_obs, n_actions=1)
    small = Transitions(data.obs[..., :12, :12], data.actions, data.next_obs[..., :12, :12], n_actions=4)
    for refused, reason in ((still, "no transition changes"), (one, "one action only"), (small, "at least 16×16")):
        with pytest.raises(InputError, match=reason):
            dwmr.fit(refused, progress=False)


def test_own_networks_need_another_preset() -> None:
    with pytest.raises(InputError, match="another preset"):
        dwmr.train(dwmr.preset("auto"), train=jump(300), encoder=torch.nn.Flatten(), progress=False)
