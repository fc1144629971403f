"""On a GPU: recorded updates against the reference. `pytest -m gpu` runs these."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import dwmr
from dwmr.data.collect import make_transitions
from dwmr.evaluation.probes import fit_probes
from dwmr.training import trainer
from dwmr.training.objectives import OBJECTIVES

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.fixture(scope="module")
def puzzle():
    return make_transitions("8puzzle", "train", 768, digits="sklearn")


FAMILIES = ("dwmr", "dwmr+ae", "dwmr+beta-vae", "deepcubeai")


def first_updates_agree(config, data):
    fast = dwmr.train(config, train=data, device="cuda", progress=False)
    plain = dwmr.train(config, train=data, device="cuda", fast="off", progress=False)
    for ours, theirs in zip(fast.metrics, plain.metrics):
        for name, value in theirs["terms"].items():
            assert ours["terms"][name] == pytest.approx(value, rel=1e-2, abs=1e-3), name


@pytest.fixture(params=[torch.float32, torch.float16], ids=["single", "half"])
def storage(monkeypatch, request):
    """How numbers are kept between the layers."""
    from dwmr.ops import triton_conv

    monkeypatch.setattr(triton_conv, "STORAGE", request.param)


SENSITIVE = ("8puzzle/dwmr+beta-vae", "8puzzle/strong", "8puzzle/strong-grid")


@pytest.mark.parametrize(
    "preset",
    sorted(
        {
            *(f"{game}/{model}" for game in ("8puzzle", "iceslider") for model in FAMILIES),
            *SENSITIVE,
            "iceslider/strong",
        }
    ),
)
def test_the_first_updates_are_the_plain_paths(storage, ice, puzzle, preset):
    """Convolutions in TF32 on both paths, whatever is kept between the layers: the terms of the first three updates
    agree to 1%. After some twenty, rounding has been multiplied to several percent; then only the outcomes over seeds
    can be compared.

    In a few presets rounding alone moves a term by more within three updates of the preset's size: by 1.3% in
    `8puzzle/dwmr+beta-vae`, if activations are rounded to half precision on a CPU, and by a tenth in the strong presets
    of the 8-puzzle, where moments count above a margin only, and flips beyond a window. There, one such update is
    compared, and three small ones without margin.
    """
    data = puzzle if preset.startswith("8puzzle") else ice
    config = dwmr.preset(preset, epochs=1, batch_size=64, cross_from=0, cross_to=0)
    if preset in SENSITIVE:
        first_updates_agree(config, data[:64])
        config = config.replace(lr=1e-4, margin=0.0)
    first_updates_agree(config, data[:192])


def test_many_runs_are_the_single_runs(ice):
    config = dwmr.preset("iceslider/dwmr", epochs=1, batch_size=64)
    together = dwmr.train_many(config, train=ice, seeds=[3, 5], device="cuda", progress=False)
    for run, seed in zip(together, [3, 5]):
        alone = dwmr.train(config, train=ice, seed=seed, device="cuda", progress=False)
        for name, value in alone.metrics[0]["terms"].items():
            assert run.metrics[0]["terms"][name] == pytest.approx(value, rel=1e-2, abs=1e-3), name


def test_the_reference_is_one_run_after_the_other(ice, monkeypatch):
    train_group, sizes = trainer.train_group, []
    monkeypatch.setattr(trainer, "train_group", lambda job, some: sizes.append(len(some)) or train_group(job, some))
    config = dwmr.preset("iceslider/dwmr", epochs=1, batch_size=64)
    dwmr.train_many(config, train=ice, seeds=[3, 5], device="cuda", fast="off", progress=False)
    assert sizes == [1, 1]


@pytest.mark.parametrize("preset", ["iceslider/dwmr", "8puzzle/dwmr+ae"])
def test_a_diverging_run_harms_no_other(ice, puzzle, tmp_path, preset):
    data = ice if preset.startswith("ice") else puzzle
    config = dwmr.preset(preset, epochs=2, batch_size=64)
    configs = [config, config.replace(lr=1e30), config]
    outs = [tmp_path / str(place) for place in range(3)]
    results = dwmr.train_many(configs, train=data, seeds=[0, 1, 2], outs=outs, device="cuda", progress=False)
    assert isinstance(results[1], dwmr.TrainingDiverged)
    healthy = dwmr.train_many([config] * 3, train=data, seeds=[0, 1, 2], device="cuda", progress=False)
    for place in (0, 2):
        assert results[place].metrics[-1]["terms"] == healthy[place].metrics[-1]["terms"]
    assert all(dwmr.WorldModel.load(out) for out in outs)


class OwnEncoder(nn.Module):
    """A user's encoder, which knows neither runs nor kernels."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 4, stride=2, padding=1), nn.BatchNorm2d(8)
        self.last, self.head = nn.Conv2d(8, 8, 5, stride=4, padding=2), nn.Linear(512, 24)

    def forward(self, images):
        return self.head(torch.tanh(self.last(torch.tanh(self.norm(self.conv(images))))).flatten(1))


class OwnPredictor(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(28, 64), nn.GELU(), nn.Linear(64, 24))

    def forward(self, codes, actions):
        return self.layers(torch.cat([codes, actions], dim=-1))


class Peeking(OwnPredictor):
    """One that reads a number back from the GPU, which can be neither recorded nor mapped over runs."""

    def forward(self, codes, actions):
        codes = nn.functional.dropout(codes, 0.1, self.training)
        return super().forward(codes, actions) * (1.0 if float(codes.detach().sum()) >= 0 else 2.0)


OWN = {"encoder": OwnEncoder, "predictor": OwnPredictor}


@pytest.mark.parametrize("seeds", [[3], [3, 5]])
def test_networks_and_terms_of_a_user_are_recorded(ice, seeds):
    config = dwmr.preset("generic/dwmr", epochs=1, batch_size=64)
    family = OBJECTIVES["dwmr"].adding("few_ones", lambda codes, hyper: codes.probs.mean(), weight=0.1)
    words = {"train": ice[:192], "device": "cuda", "objective": family, "progress": False, **OWN}
    fast = dwmr.train_many(config, seeds=seeds, **words)
    for run, seed in zip(fast, seeds, strict=True):
        plain = dwmr.train(config, seed=seed, fast="off", **words)
        for name, value in plain.metrics[0]["terms"].items():
            assert run.metrics[0]["terms"][name] == pytest.approx(value, rel=1e-2, abs=1e-3), name


@pytest.mark.parametrize("seeds", [[3], [3, 5]])
def test_a_recorded_validation_follows_the_weights(ice, ice_val, seeds):
    config = dwmr.preset("iceslider/dwmr", epochs=4, batch_size=64)
    for run in dwmr.train_many(config, seeds=seeds, train=ice, val=ice_val, device="cuda", progress=False):
        found = [record["val"]["bits_next"] for record in run.metrics]
        assert len(set(found)) == len(found)
        predicted = run.model.predict(run.model.encode(ice_val.obs), ice_val.actions)
        right = 100 * (predicted == run.model.encode(ice_val.next_obs)).float().mean()
        assert found[-1] == pytest.approx(float(right), abs=0.5)


def test_networks_that_cannot_be_recorded_are_trained_all_the_same(ice, caplog):
    config = dwmr.preset("generic/dwmr", epochs=1, batch_size=64)
    words = {"train": ice[:192], "device": "cuda", "progress": False, "encoder": OwnEncoder, "predictor": Peeking}
    with caplog.at_level("INFO", logger="dwmr"):
        found = dwmr.train_many(config, seeds=[0, 1], **words)
    assert all(isinstance(run, dwmr.Run) for run in found)
    assert "cannot be one program" in caplog.text
    assert "without recorded updates, which is slower" in caplog.text


def test_a_captured_run_resumes(ice, tmp_path):
    config = dwmr.preset("iceslider/dwmr", epochs=3, batch_size=64)
    dwmr.train(config.replace(epochs=1), train=ice, out=tmp_path / "a", device="cuda", progress=False)
    resumed = dwmr.train(config, train=ice, out=tmp_path / "a", resume=True, device="cuda", progress=False)
    straight = dwmr.train(config, train=ice, device="cuda", progress=False)
    for ours, theirs in zip(resumed.metrics, straight.metrics):
        assert ours["terms"] == pytest.approx(theirs["terms"], rel=1e-3, abs=1e-5)


def test_probes_fitted_by_recorded_steps_are_those_of_the_cpu(ice):
    generator = torch.Generator().manual_seed(0)
    codes = torch.rand(2, len(ice), 192, generator=generator) < 0.5
    for kind in ("affine", "grid"):
        on_cpu = fit_probes(codes, ice.state, 4, kind)
        on_gpu = fit_probes(codes.cuda(), ice.state, 4, kind)
        for ours, theirs in zip(on_gpu, on_cpu):
            torch.testing.assert_close(ours.weight.cpu(), theirs.weight, rtol=0, atol=0.02)
            assert (ours.read(codes[0].cuda()) == theirs.read(codes[0])).mean() > 0.99
