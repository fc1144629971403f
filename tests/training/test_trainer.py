"""Training: the same seed gives the same bits, whatever happens on the way."""

import dataclasses
import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import dwmr
from dwmr import Config, InputError, TrainingDiverged, Transitions, WorldModel, evaluate, preset, train
from dwmr.data.collect import make_transitions
from dwmr.files import locked
from dwmr.models.run_folder import CHECKPOINT, METRICS, RUN, read_metrics, read_tensors
from dwmr.presets import PRESETS
from dwmr.training import run_group, schedules, trainer
from dwmr.training.objectives import OBJECTIVES, Objective
from dwmr.training.run_group import warn_if_collapsed

SOURCE = str(Path(dwmr.__file__).parents[1])

# Weights of its own, so that tuning does not move them: the code of so few images stays alive with these.
ICE_VALUES = {"var": 1.75, "cor": 4.0, "cos": 0.48, "loc": 0.74, "gamma": 0.34, "tau": 0.71, "lr": 1e-3}
ICE_VALUES |= {"batch_size": 64, "triplets": 100, "schedules": False}
ICE = preset("iceslider/dwmr").replace(epochs=2, **ICE_VALUES)
TINY = preset("generic/dwmr", bits=12, epochs=2, batch_size=16)


def weights(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(one: nn.Module, other: nn.Module) -> bool:
    first, second = weights(one), weights(other)
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def checkpoint_of(folder: Path) -> bytes:
    return (folder / CHECKPOINT).read_bytes()


class OwnEncoder(nn.Module):
    def __init__(self, pixels: int = 64, bits: int = 12) -> None:
        super().__init__()
        self.layer = nn.Linear(pixels, bits)

    def forward(self, images):
        return self.layer(images.flatten(1))


class OwnPredictor(nn.Module):
    def __init__(self, bits: int = 12, n_actions: int = 3) -> None:
        super().__init__()
        self.layer = nn.Linear(bits + n_actions, bits)

    def forward(self, codes, actions):
        return self.layer(torch.cat([codes, actions], -1))


class Constant(nn.Module):
    """Returns numbers of one shape, whatever it is given."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, *inputs):
        return torch.zeros(self.shape)


def test_the_same_seed_gives_the_same_bits(ice):
    torch.manual_seed(1)
    first = train(ICE, train=ice, seed=3)
    torch.manual_seed(2)
    np.random.seed(2)  # noqa: NPY002 — the global generator is what must not matter
    again, other = train(ICE, train=ice, seed=3), train(ICE, train=ice, seed=4)
    assert same(first.model, again.model)
    assert [record["terms"] for record in first.metrics] == [record["terms"] for record in again.metrics]
    assert not same(first.model, other.model)


def test_a_run_and_its_folder(ice, ice_val, tmp_path):
    run = train(ICE, train=ice, val=ice_val, out=tmp_path / "deep" / "run", seed=3)
    assert (run.seed, run.path, run.config) == (3, tmp_path / "deep" / "run", ICE)
    assert not run.model.training
    assert sorted(path.name for path in run.path.iterdir()) == [CHECKPOINT, METRICS, RUN]
    assert read_metrics(run.path) == run.metrics
    record = run.metrics[-1]
    assert [r["epoch"] for r in run.metrics] == [1, 2]
    assert set(record["terms"]) == {"pred", "var", "cor", "cos", "loc"}
    assert set(record["bits"]) == {"dead", "ones", "flips"}
    assert set(record["val"]) == {"exact_next", "bits_next"}
    assert record["hyper"]["tau"] == ICE.hyper.tau
    loaded = WorldModel.load(run.path)
    assert same(loaded, run.model)
    assert torch.equal(loaded.encode(ice.obs[:8]), run.model.encode(ice.obs[:8]))


def test_validation_changes_nothing(ice, ice_val):
    assert same(train(ICE, train=ice, val=ice_val).model, train(ICE, train=ice).model)


def test_the_loss_falls(ice):
    metrics = train(ICE.replace(epochs=6), train=ice).metrics
    assert metrics[-1]["terms"]["pred"] < metrics[0]["terms"]["pred"]
    assert metrics[-1]["terms"]["cor"] < metrics[0]["terms"]["cor"]


def test_schedules_reach_the_update(tiny):
    quick = train(TINY, train=tiny)
    slowed = train(TINY.replace(lr_factor=0.5), train=tiny)
    assert [record["hyper"]["lr"] for record in slowed.metrics] == [1e-3, 5e-4]
    assert slowed.metrics[0]["terms"] == quick.metrics[0]["terms"]
    assert not same(slowed.model, quick.model)


def test_stored_data_trains_like_data_in_memory(tiny, tmp_path):
    tiny.save(tmp_path / "t")
    assert same(train(TINY, train=dwmr.load_transitions(tmp_path / "t")).model, train(TINY, train=tiny).model)


def test_images_are_standardised_by_the_training_split(tiny):
    model = train(TINY, train=tiny).model
    assert model.mean.item() == pytest.approx((tiny.obs / 255).mean(), rel=1e-5)
    assert model.std.item() == pytest.approx((tiny.obs / 255).std(), rel=1e-5)
    plain = train(TINY.replace(standardize=False), train=tiny).model
    assert (plain.mean.item(), plain.std.item()) == (0, 1)


@pytest.mark.parametrize("scheme", ["soft", "straight_through", "two_step", "two_step_st", "joint"])
def test_every_scheme_trains(tiny, scheme):
    run = train(TINY.replace(scheme=scheme), train=tiny)
    assert run.metrics[-1]["terms"]["pred"] > 0


# Resuming


@pytest.mark.filterwarnings("ignore:.*bits never changed:RuntimeWarning")
@pytest.mark.parametrize("model", ["dwmr", "dwmr+beta-vae", "deepcubeai"])
def test_a_run_in_two_parts_is_the_run_in_one(tiny, tmp_path, model):
    config = preset(f"generic/{model}", bits=12, batch_size=16, epochs=4, lr_factor=0.9)
    train(config, train=tiny, out=tmp_path / "whole")
    train(config.replace(epochs=1), train=tiny, out=tmp_path / "parts")
    resumed = train(config, train=tiny, out=tmp_path / "parts", resume=True)
    assert checkpoint_of(tmp_path / "parts") == checkpoint_of(tmp_path / "whole")
    assert [record["epoch"] for record in resumed.metrics] == [1, 2, 3, 4]
    assert read_metrics(tmp_path / "parts") == resumed.metrics
    assert json.loads((tmp_path / "parts" / RUN).read_text())["config"]["epochs"] == 4


def test_resuming_a_finished_run_changes_nothing(tiny, tmp_path):
    run = train(TINY, train=tiny, out=tmp_path / "run")
    before = checkpoint_of(tmp_path / "run")
    again = train(TINY, train=tiny, out=tmp_path / "run", resume=True)
    assert same(again.model, run.model)
    assert again.metrics == run.metrics
    assert checkpoint_of(tmp_path / "run") == before


def test_resume_begins_where_there_is_nothing_yet(tiny, tmp_path):
    assert len(train(TINY, train=tiny, out=tmp_path / "run", resume=True).metrics) == 2


def test_an_existing_folder_is_left_alone(tiny, tmp_path):
    train(TINY, train=tiny, out=tmp_path / "run")
    before = checkpoint_of(tmp_path / "run")
    with pytest.raises(FileExistsError, match="exists already; resume it, or choose another"):
        train(TINY, train=tiny, out=tmp_path / "run", seed=9)
    assert checkpoint_of(tmp_path / "run") == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, "was trained with seed 0, not 1"),
        ({"config": TINY.replace(lr=0.1)}, "was trained with lr 0.001 instead of 0.1"),
        ({"config": TINY.replace(batch_size=32)}, "was trained with batch_size .* instead of 32"),
        ({"config": TINY.replace(scheme="soft")}, "was trained with scheme two_step instead of soft"),
        ({"encoder": OwnEncoder()}, "parts of your own: none; now given: encoder"),
        ({"objective": OBJECTIVES["dwmr"]}, "parts of your own: none; now given: objective"),
    ],
)
def test_resume_refuses_another_run(tiny, tmp_path, change, message):
    train(TINY, train=tiny, out=tmp_path / "run")
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    arguments = {"config": TINY, **change}
    with pytest.raises(InputError, match=message):
        train(arguments.pop("config"), train=tiny, out=tmp_path / "run", resume=True, **arguments)
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


def test_resume_refuses_weights_that_do_not_fit_and_changes_nothing(tiny, tmp_path):
    class Wider(OwnEncoder):
        def __init__(self):
            super().__init__()
            self.more = nn.Linear(1, 1)

    train(TINY, train=tiny, out=tmp_path / "run", encoder=OwnEncoder())
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    with pytest.raises(InputError, match="do not fit these networks"):
        train(TINY.replace(epochs=3), train=tiny, out=tmp_path / "run", resume=True, encoder=Wider())
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


def test_a_run_that_is_refused_leaves_the_others_unbegun(tiny, tmp_path):
    train(TINY, train=tiny, out=tmp_path / "b", seed=7)
    folders = [tmp_path / "a", tmp_path / "b"]
    with pytest.raises(InputError, match="was trained with seed 7, not 1"):
        dwmr.train_many(TINY, train=tiny, seeds=[0, 1], outs=folders, device="cpu", resume=True)
    assert not folders[0].exists()


def test_a_folder_that_is_being_written_is_refused(tiny, tmp_path):
    train(TINY, train=tiny, out=tmp_path / "run")
    before = checkpoint_of(tmp_path / "run")
    with locked(tmp_path / "run"), pytest.raises(InputError, match="run is being written by another process"):
        train(TINY.replace(epochs=3), train=tiny, out=tmp_path / "run", resume=True)
    assert checkpoint_of(tmp_path / "run") == before
    train(TINY.replace(epochs=3), train=tiny, out=tmp_path / "run", resume=True)


def test_a_folder_is_locked_while_it_is_written(tiny, tmp_path, monkeypatch):
    asked = []

    def values_at(config, epoch):
        with pytest.raises(InputError, match="is being written"), locked(tmp_path / "run"):
            pass
        asked.append(epoch)
        return schedules.values_at(config, epoch)

    monkeypatch.setattr(run_group, "values_at", values_at)
    train(TINY, train=tiny, out=tmp_path / "run", device="cpu")
    assert asked == [0, 1]
    with locked(tmp_path / "run"):
        pass


def test_two_runs_cannot_share_a_folder(tiny, tmp_path):
    with pytest.raises(InputError, match="every run needs a folder of its own"):
        dwmr.train_many(TINY, train=tiny, seeds=[0, 0], outs=[tmp_path / "a", tmp_path / "b" / ".." / "a"])
    assert list(tmp_path.iterdir()) == []


def test_resume_refuses_other_data(tiny, tmp_path):
    train(TINY, train=tiny, out=tmp_path / "run")
    with pytest.raises(InputError, match="was trained on other data"):
        train(TINY, train=tiny[:48], out=tmp_path / "run", resume=True)


def test_runs_that_are_interrupted_can_be_resumed(tiny, tmp_path, monkeypatch):
    asked = []

    def values_at(config, epoch):
        asked.append(epoch)
        if len(asked) == 5:
            raise KeyboardInterrupt
        return schedules.values_at(config, epoch)

    folders = [tmp_path / "a", tmp_path / "b"]
    config = TINY.replace(epochs=3)
    monkeypatch.setattr(run_group, "values_at", values_at)
    with pytest.raises(KeyboardInterrupt):
        dwmr.train_many(config, train=tiny, seeds=[0, 1], outs=folders, device="cpu")
    assert [len(read_metrics(folder)) for folder in folders] == [3, 1]
    dwmr.train_many(config, train=tiny, seeds=[0, 1], outs=folders, device="cpu", resume=True)
    train(config, train=tiny, out=tmp_path / "whole", seed=1, device="cpu")
    assert checkpoint_of(folders[1]) == checkpoint_of(tmp_path / "whole")


CHILD = """
import json, sys, torch
torch.set_num_threads(1)
import dwmr
from dwmr.presets import preset
data, out, epochs, values = sys.argv[1:]
config = preset("iceslider/dwmr").replace(epochs=int(epochs), **json.loads(values))
dwmr.train(config, train=dwmr.load_transitions(data), out=out, seed=3, resume=True)
"""


def test_a_run_killed_at_any_moment_goes_on_to_the_same_bits(ice, tmp_path):
    epochs, data, folder = 30, tmp_path / "data", tmp_path / "killed"
    ice[:128].save(data)
    for delay in (0.0, 0.013, 0.037):
        before = len(read_metrics(folder))
        arguments = [sys.executable, "-c", CHILD, str(data), str(folder), str(epochs), json.dumps(ICE_VALUES)]
        with subprocess.Popen(arguments, env={**os.environ, "PYTHONPATH": SOURCE}) as child:
            try:
                while len(read_metrics(folder)) <= before and child.poll() is None:
                    time.sleep(0.001)
                time.sleep(delay)
            finally:
                child.kill()
        assert child.returncode == -signal.SIGKILL, "it was to be killed in the midst of its work"
        WorldModel.load(folder)
    assert 3 <= len(read_metrics(folder)) < epochs
    config = ICE.replace(epochs=epochs)
    train(config, train=ice[:128], out=folder, seed=3, resume=True)
    train(config, train=ice[:128], out=tmp_path / "whole", seed=3)
    assert checkpoint_of(folder) == checkpoint_of(tmp_path / "whole")
    lines = (folder / METRICS).read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == list(range(1, epochs + 1))


def test_a_disk_that_fills_up_at_any_write_leaves_a_run_that_goes_on_to_the_same_bits(tiny, tmp_path, monkeypatch):
    train(TINY, train=tiny, out=tmp_path / "whole")
    really_flush = os.fsync
    failed = 0
    for allowed in range(100):
        left = allowed

        def flush(descriptor):
            nonlocal left
            left -= 1
            if left < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            really_flush(descriptor)

        folder = tmp_path / str(allowed)
        monkeypatch.setattr(os, "fsync", flush)
        try:
            train(TINY, train=tiny, out=folder)
            break
        except OSError as error:
            assert error.errno == errno.ENOSPC  # noqa: PT017 — the last round has no error
            failed += 1
        finally:
            monkeypatch.setattr(os, "fsync", really_flush)
        if folder.exists():
            WorldModel.load(folder)
            assert sorted(path.name for path in folder.iterdir()) == [CHECKPOINT, METRICS, RUN]
        train(TINY, train=tiny, out=folder, resume=True)
        assert checkpoint_of(folder) == checkpoint_of(tmp_path / "whole")
        assert [record["epoch"] for record in read_metrics(folder)] == [1, 2]
    assert failed >= 6


def test_metrics_cut_off_by_a_crash_end_at_the_last_whole_line(tmp_path):
    (tmp_path / METRICS).write_text('{"epoch": 1}\n{"epoch": 2}\n{"epo')
    assert read_metrics(tmp_path) == [{"epoch": 1}, {"epoch": 2}]
    assert read_metrics(tmp_path / "absent") == []


# What goes wrong


def infinite_at(update: int) -> Objective:
    calls = 0

    def term(codes, hyper):
        nonlocal calls
        calls += 1
        return codes.probs.mean() * (float("inf") if calls == update else 1.0)

    return OBJECTIVES["dwmr"].adding("mine", term, weight=0.1)


def test_a_term_that_is_no_number_is_named_and_the_last_checkpoint_kept(tiny, tmp_path):
    with pytest.raises(TrainingDiverged, match=r"'mine' is not a finite number since update 2 of epoch 2; .*epoch 1"):
        train(TINY.replace(epochs=3), train=tiny, out=tmp_path / "run", objective=infinite_at(6))
    reference = train(TINY.replace(epochs=1), train=tiny, objective=infinite_at(100))
    assert same(WorldModel.load(tmp_path / "run"), reference.model)
    assert [record["epoch"] for record in read_metrics(tmp_path / "run")] == [1]


def test_a_run_that_explodes_says_so(tiny, tmp_path):
    with pytest.raises(TrainingDiverged, match="epoch 1; what was saved after epoch 0 is kept"):
        train(TINY.replace(lr=1e30), train=tiny, out=tmp_path / "run")
    assert all(value.isfinite().all() for value in weights(WorldModel.load(tmp_path / "run")).values())


def test_a_collapse_is_warned_of(tiny):
    all_ones = OBJECTIVES["dwmr"].adding("zeros", lambda codes, hyper: 1 - codes.probs.mean((-2, -1)), weight=10.0)
    config = TINY.replace(epochs=4, lr=0.05, var=0, cor=0, cos=0, loc=0)
    with pytest.warns(
        RuntimeWarning, match=r"only \d of 12 bits changed in epoch \d, too few for 64 frames: the code is collapsing"
    ):
        run = train(config, train=tiny, objective=all_ones)
    assert run.metrics[-1]["bits"] == {"dead": 12, "ones": 1.0, "flips": 0.0}


def test_constant_bits_of_a_code_that_still_tells_frames_apart_are_no_collapse(recwarn):
    record = {"bits": {"dead": 100}, "epoch": 1}
    warn_if_collapsed(record, bits=192, frames=40_000)  # 2⁹² codes are left
    assert not recwarn.list
    with pytest.warns(RuntimeWarning, match="only 15 of 192 bits"):
        warn_if_collapsed({"bits": {"dead": 177}, "epoch": 1}, bits=192, frames=40_000)


def test_an_epoch_whose_warning_is_an_error_is_saved_all_the_same(tiny, tmp_path):
    all_ones = Objective({"zeros": lambda codes, hyper: 1 - codes.probs.mean((-2, -1))}, weights={"zeros": 1.0})
    with pytest.raises(RuntimeWarning, match="collapsing"):
        train(TINY.replace(epochs=50, lr=0.05), train=tiny, out=tmp_path / "run", objective=all_ones)
    done = read_metrics(tmp_path / "run")[-1]
    assert done["bits"]["dead"] > 6
    _, epoch = read_tensors(tmp_path / "run")
    assert epoch == done["epoch"]


def test_a_warning_about_one_run_that_is_an_error_loses_no_epoch_of_another(tiny, tmp_path):
    all_ones = Objective({"zeros": lambda codes, hyper: 1 - codes.probs.mean((-2, -1))}, weights={"zeros": 1.0})
    config, folders = TINY.replace(epochs=50, lr=0.05), [tmp_path / "a", tmp_path / "b"]
    job = trainer.Job(all_ones, tiny, None, torch.device("cpu"), False, False)
    members = trainer._make_members(job, [config] * 2, [0, 1], folders, {}, ())
    with pytest.raises(RuntimeWarning, match="collapsing"):
        trainer.train_group(job, members)
    assert len(read_metrics(folders[0])) == len(read_metrics(folders[1]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"config": TINY.replace(model="dwmrr")}, "unknown model 'dwmrr'; did you mean 'dwmr'"),
        ({"config": TINY.replace(scheme="two_steps")}, "unknown scheme 'two_steps'; did you mean 'two_step'"),
        ({"config": TINY.replace(encoder="convv")}, "unknown encoder 'convv'"),
        ({"config": TINY.replace(batch_size=65)}, "64 transitions do not fill one minibatch of 65"),
        ({"device": "quantum"}, "unknown device 'quantum'; name auto, cpu, cuda or cuda:N"),
        ({"encoder": nn.Flatten(0)}, r"encoder must return logits of shape \(N, K\), got \(128,\)"),
        ({"encoder": OwnEncoder(65)}, r"the encoder cannot take images \(N, C, H, W\), here \(2, 1, 8, 8\): mat1 and"),
        (
            {"predictor": OwnPredictor(13)},
            r"take codes \(N, K\) and one-hot actions \(N, A\), here \(2, 12\) and \(2, 3\)",
        ),
        ({"predictor": lambda: Constant(2, 11)}, r"predictor must return logits .*\(N, K\) = \(2, 12\), got \(2, 11\)"),
        ({"predictor": lambda: Constant(), "out": None}, r"the predictor must return .* got \(\)"),
        ({"encoder": OwnEncoder(bits=14)}, "bits=12 was asked for, but your encoder returns 14; leave bits out"),
        (
            {"config": preset("generic/ae", bits=12, batch_size=16), "decoder": lambda: Constant(2, 8, 8)},
            r"decoder must return images of shape \(N, C, H, W\) = \(2, 1, 8, 8\), got \(2, 8, 8\)",
        ),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_written(tiny, tmp_path, arguments, message):
    arguments = {"config": TINY, "out": tmp_path / "run", **arguments}
    with pytest.raises(InputError, match=message):
        train(arguments.pop("config"), train=tiny, **arguments)
    assert list(tmp_path.iterdir()) == []


def test_validation_data_must_match(tiny, ice):
    with pytest.raises(InputError, match=r"validation images \(3, 64, 64\) with 4 actions do not match"):
        train(TINY, train=tiny, val=ice)


# Your own networks and objectives


def test_networks_of_ones_own(tiny, tmp_path):
    torch.manual_seed(0)
    config = preset("generic/dwmr", epochs=2, batch_size=16)
    run = train(config, train=tiny, out=tmp_path / "run", encoder=OwnEncoder(bits=14), predictor=OwnPredictor(14))
    assert (run.config.encoder, run.config.predictor, run.config.bits) == ("custom", "custom", 14)
    loaded = WorldModel.load(tmp_path / "run", encoder=OwnEncoder(bits=14), predictor=OwnPredictor(14))
    assert same(loaded, run.model)
    assert loaded.encode(tiny.obs).shape == (64, 14)
    assert evaluate(loaded, train=tiny, test=tiny)["codes"]["bits"] == 14
    with pytest.raises(InputError, match="pass it as predictor="):
        WorldModel.load(tmp_path / "run", encoder=OwnEncoder(bits=14))
    with pytest.raises(InputError, match="holds a model of 14 bits, and your encoder returns 13"):
        WorldModel.load(tmp_path / "run", encoder=OwnEncoder(bits=13), predictor=OwnPredictor(14))


def test_a_network_is_made_once_for_each_seed(tiny):
    made = []
    factory = lambda: made.append(OwnEncoder()) or made[-1]  # noqa: E731
    runs = dwmr.train_many(TINY.replace(epochs=1), train=tiny, seeds=[0, 1], encoder=factory, device="cpu")
    assert [run.model.encoder for run in runs] == made


def test_a_run_is_shown_in_one_line(tiny, tmp_path):
    run = train(TINY, train=tiny, seed=3)
    assert repr(run) == "Run('generic/dwmr', seed=3, epochs=2)"
    assert repr(dataclasses.replace(run, path=Path("runs/a"))) == "Run('generic/dwmr', seed=3, epochs=2, path='runs/a')"


def test_a_decoder_of_ones_own(tiny, tmp_path):
    class OwnDecoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(12, 64)

        def forward(self, codes):
            return self.layer(codes).reshape(-1, 1, 8, 8)

    config = preset("generic/ae", bits=12, epochs=1, batch_size=16)
    train(config, train=tiny, out=tmp_path / "run", decoder=OwnDecoder())
    loaded = WorldModel.load(tmp_path / "run", decoder=OwnDecoder())
    assert loaded.decode(loaded.encode(tiny.obs)).shape == tiny.obs.shape


def test_weights_may_be_tied(tiny, tmp_path):
    class Tied(OwnEncoder):
        def __init__(self):
            super().__init__()
            self.alias = self.layer

    run = train(TINY, train=tiny, out=tmp_path / "run", encoder=Tied())
    assert same(WorldModel.load(tmp_path / "run", encoder=Tied()), run.model)


class Peeking(OwnEncoder):
    """Looks at values to decide what to do, which `torch.vmap` refuses."""

    def forward(self, images):
        return super().forward(images) * (2.0 if float(images.sum()) > 0 else 1.0)


class Picky(OwnEncoder):
    """Breaks in `torch.vmap` with an error of its own."""

    def forward(self, images):
        if torch._C._functorch.is_batchedtensor(images):
            raise TypeError("this network takes plain tensors")
        return super().forward(images)


class Counting(OwnEncoder):
    """Replaces a buffer where it could have changed it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.ones(()))

    def forward(self, images):
        if self.training:
            self.seen = self.seen + 1
        return super().forward(images)


@pytest.mark.parametrize("encoder", [Peeking, Picky, Counting])
def test_runs_that_cannot_be_one_program_are_trained_side_by_side(tiny, encoder):
    own = {"encoder": encoder, "predictor": OwnPredictor}
    config = TINY.replace(encoder="custom", predictor="custom")
    job = trainer.Job(OBJECTIVES["dwmr"], tiny, tiny, torch.device("cpu"), True, False)
    members = trainer._make_members(job, [config] * 2, [3, 4], [None] * 2, own, tuple(own))
    trainer.train_group(job, members)
    for member in members:
        alone = train(config, train=tiny, val=tiny, seed=member.seed, device="cpu", **own)
        assert same(member.state.model, alone.model)
        assert [record["val"] for record in member.metrics] == [record["val"] for record in alone.metrics]


def test_a_trained_model_keeps_no_gradients(tiny):
    assert all(parameter.grad is None for parameter in train(TINY, train=tiny).model.parameters())


def test_an_objective_of_ones_own(tiny, tmp_path):
    mine = OBJECTIVES["dwmr"].adding("few_ones", lambda codes, hyper: codes.probs.mean((-2, -1)), weight=0.5)
    run = train(TINY.replace(epochs=4, lr=0.01), train=tiny, out=tmp_path / "run", objective=mine)
    usual = train(TINY.replace(epochs=4, lr=0.01), train=tiny)
    assert run.metrics[-1]["terms"]["few_ones"] < run.metrics[0]["terms"]["few_ones"]
    assert run.metrics[-1]["bits"]["ones"] < usual.metrics[-1]["bits"]["ones"]
    assert same(WorldModel.load(tmp_path / "run"), run.model)


# Every preset


def small_data(config: Config) -> Transitions:
    if config.benchmark == "generic":
        data = make_transitions("iceslider", "train", 160)
        return Transitions(
            data.obs[..., ::4, ::4],
            data.actions,
            data.next_obs[..., ::4, ::4],
            n_actions=4,
            state=data.state,
            next_state=data.next_state,
        )
    if config.benchmark.startswith("8puzzle"):
        return make_transitions(config.benchmark, "train", 128, digits="sklearn")
    return make_transitions(config.benchmark, "train", 160)


@pytest.mark.filterwarnings("ignore:.*bits never changed:RuntimeWarning")  # two epochs promise nothing
@pytest.mark.parametrize("name", sorted(set(PRESETS) - {"auto"}))  # `auto` is tried in test_auto.py
def test_every_preset_trains_and_evaluates(name):
    config = preset(name, epochs=2, batch_size=64)
    data = small_data(config)
    run = train(config, train=data)
    assert all(np.isfinite(value) for record in run.metrics for value in record["terms"].values())
    report = evaluate(run.model, train=data, test=data)
    assert report["codes"]["bits"] == config.bits
    assert 0 < report["encoding"]["accuracy"] <= 100
    if OBJECTIVES[config.model].decoder:
        assert run.model.decode(run.model.encode(data.obs[:4])).shape == (4, *data.image_shape)
