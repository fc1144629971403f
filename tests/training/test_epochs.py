"""Many runs as one program give what each run gives alone; accelerated kernels give what the reference gives."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

import dwmr
from dwmr.config import Config, Hyper
from dwmr.data.batches import Loader, plan_epoch
from dwmr.models.encoders import CELLS
from dwmr.models.world_model import build_model
from dwmr.ops.native import library
from dwmr.training import epochs
from dwmr.training.epochs import EpochRunner, new_hyper
from dwmr.training.learner import Learner, RunState
from dwmr.training.objectives import OBJECTIVES, Objective, objective_of
from dwmr.training.run_group import record_if_possible
from dwmr.training.schedules import values_at
from dwmr.training.schemes import SCHEMES, mixed_two_step
from dwmr.training.stacking import Stack

CPU = torch.device("cpu")
EPOCHS = 2


@pytest.fixture
def double_precision():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def corner(data: dwmr.Transitions) -> dwmr.Transitions:
    """The upper left 20×20 pixels: enough to pool once, and quick."""
    return square(data, 20)


def square(data: dwmr.Transitions, side: int) -> dwmr.Transitions:
    first, second = (images[..., :side, :side] for images in (data.obs, data.next_obs))
    return dwmr.Transitions(first, data.actions, second, data.n_actions, episode=data.episode)


def family_of(config: Config, data) -> Objective:
    return objective_of(config, CELLS[config.encoder](data.image_shape) if config.by_cell else 1)


def plan_of(config: Config, seed: int, epoch: int, count: int):
    noise = OBJECTIVES[config.model].noise
    return plan_epoch(seed, epoch, count, config.batch_size, config.bits, noise=noise, triplets=config.triplets)


def run(configs: list[Config], seeds: list[int], data, epochs=EPOCHS, scheme=None, fast=False, family=None, **modules):
    """Train runs in one runner; their states, the figures of the last epoch, and their agreement."""
    first = configs[0]
    family = family or family_of(first, data)
    hyper = new_hyper(CPU, len(seeds))
    states = []
    for config, seed in zip(configs, seeds):
        model = build_model(
            config, data.image_shape, data.n_actions, decoder=family.decoder, seed=seed, modules=modules
        )
        states.append(RunState(model, torch.zeros(())))
    if len(seeds) == 1:
        for optimizer in (states[0].codes_optimizer, states[0].predictor_optimizer):
            optimizer.param_groups[0]["lr"] = hyper.lr
    learner = Learner(states, family, hyper.lr)
    loader = Loader(
        data,
        CPU,
        states[0].model.normalize,
        dtype=states[0].model.mean.dtype,
        two_views=first.two_views,
        steps=first.steps,
    )
    runner = EpochRunner(learner, scheme or SCHEMES[first.scheme], loader, hyper, fast=fast)
    for epoch in range(epochs):
        plans = [plan_of(config, seed, epoch, len(data)) for config, seed in zip(configs, seeds)]
        runner.start(plans, [values_at(config, epoch) for config in configs])
        for _ in range(len(plans[0])):
            runner.step()
    return states, runner.figures(), runner.agreement(data)


def run_alone(config: Config, seed: int, data, epochs: int = EPOCHS, **how):
    (state,), (figures,), (agreement,) = run([config], [seed], data, epochs, **how)
    return state, figures, agreement


SETTINGS = [
    ("dwmr", {"tau_factor": 0.9, "lr_factor": 0.8}),
    ("dwmr", {"scheme": "two_step_st", "triplets": 50}),
    ("dwmr", {"scheme": "soft"}),
    ("dwmr+beta-vae", {"scheme": "straight_through", "temperature": 0.7}),
    ("deepcubeai", {}),
    ("ae", {}),
]


@pytest.mark.parametrize(("model", "settings"), SETTINGS)
def test_runs_together_equal_runs_alone(double_precision, ice, model, settings):
    """In float64, after six updates, to 1e-6: sums are formed in another order (products over patches instead of
    convolutions)."""
    base = dwmr.preset(f"generic/{model}", batch_size=32, bits=24, **settings)
    _compare(base, corner(ice[:96]))


TECHNIQUES = [
    {"cross": True, "cross_from": 0, "cross_to": 1, "cosine": True, "warmup": 1},
    {"two_views": True, "scheme": "two_step_st"},
    {"steps": 3, "cross": True},
    {"predictor": "residual"},
    {"encoder": "tiles", "predictor": "tiles", "bits": 27},
    {"encoder": "patch", "predictor": "far", "bits": 64},
    {"encoder": "patch", "predictor": "lines", "bits": 64},
    {"by_cell": True, "encoder": "tiles", "bits": 27, "cross": True, "cross_to": 0, "cross_from": 0, "agree": 2.0},
]


@pytest.mark.parametrize("settings", TECHNIQUES, ids=lambda settings: next(iter(settings.values())))
def test_what_goes_beyond_the_paper_too(double_precision, ice, settings):
    side = 64 if settings.get("predictor") in ("far", "lines") else 25  # three tiles of 8, lines between
    # With BatchNorm, or channels of four pixels that are normalised, some gradients are rounding noise, as below.
    whole = "encoder" not in settings
    _compare(dwmr.preset("generic/dwmr", batch_size=32, **{"bits": 24} | settings), square(ice[:96], side), whole)


def _compare(base: Config, data: dwmr.Transitions, weights_too: bool = True) -> None:
    configs = [base, base.replace(lr=3e-4, gamma=0.3), base.replace(high=9, tau=0.8, cos=1.0)]
    seeds = [0, 4, 7]
    epochs = EPOCHS if weights_too else 1
    states, figures, agreements = run(configs, seeds, data, epochs)
    for config, seed, state, figure, agreement in zip(configs, seeds, states, figures, agreements, strict=True):
        single, expected, agreed = run_alone(config, seed, data, epochs)
        rtol = 1e-6 if weights_too else 1e-4
        torch.testing.assert_close(figure.terms, expected.terms, rtol=rtol, atol=1e-9)
        if not weights_too:
            continue
        torch.testing.assert_close(figure.ones, expected.ones)
        assert figure.flips == pytest.approx(expected.flips)
        assert agreement == pytest.approx(agreed)
        weights, alone = state.tensors(), single.tensors()
        assert weights.keys() == alone.keys()
        for name, value in weights.items():
            torch.testing.assert_close(
                value, alone[name], rtol=1e-6, atol=1e-6, msg=lambda text, name=name: name + text
            )


def test_both_two_step_schemes_as_one_program(double_precision, ice):
    data = corner(ice[:96])
    soft = dwmr.preset("generic/dwmr", batch_size=32, bits=24)
    configs = [soft, soft.replace(scheme="two_step_st"), soft.replace(scheme="two_step_st", lr=3e-4)]
    assert len({config.structure() for config in configs}) == 1
    scheme = mixed_two_step(torch.tensor([False, True, True]))
    _, figures, _ = run(configs, [0, 1, 2], data, scheme=scheme)
    terms = []
    for seed, (config, figure) in enumerate(zip(configs, figures)):
        _, expected, _ = run_alone(config, seed, data)
        torch.testing.assert_close(figure.terms, expected.terms, rtol=1e-6, atol=1e-9)
        terms.append(run_alone(soft, seed, data)[1].terms)
    assert torch.allclose(figures[0].terms, terms[0], rtol=1e-6)
    assert not torch.allclose(figures[1].terms, terms[1], rtol=1e-3)


@pytest.mark.parametrize(("model", "settings"), SETTINGS[::3])
def test_runs_together_equal_runs_alone_with_batch_norm(double_precision, ice, model, settings):
    """Only the figures of the first updates are compared: the gradient of a bias before a BatchNorm is rounding noise,
    which Adam scales up to 1e-3 a step, and which then shows in the running means."""
    data = ice[:192]
    base = dwmr.preset(f"iceslider/{model}", batch_size=64, **settings)
    _, figures, _ = run([base, base], [0, 4], data, epochs=1)
    for seed, figure in zip([0, 4], figures):
        _, expected, _ = run_alone(base, seed, data, epochs=1)
        torch.testing.assert_close(figure.terms, expected.terms, rtol=1e-4, atol=1e-6)


def test_a_run_driven_to_nan_leaves_the_others_unchanged(ice):
    data = ice[:320]
    base = dwmr.preset("iceslider/dwmr", batch_size=64)
    broken = base.replace(lr=1e30)
    healthy, figures_before, _ = run([base, base, base], [0, 1, 2], data)
    mixed, figures, _ = run([base, broken, base], [0, 1, 2], data)
    assert not figures[1].finite or not torch.isfinite(figures[1].terms).all()
    for place in (0, 2):
        assert torch.equal(figures[place].terms, figures_before[place].terms)
        before, after = healthy[place].tensors(), mixed[place].tensors()
        assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("name", ["8puzzle/dwmr", "iceslider/dwmr", "iceslider/beta-vae", "generic/dwmr"])
def test_an_accelerated_run_begins_as_the_reference(name, ice):
    """Later updates part: Adam's first steps have the learning rate's size however small a gradient, rounding or not.
    Values and gradients of each network are compared in tests/ops/test_native.py."""
    if library() is None:
        pytest.skip("no C++ compiler")
    data = ice[:192] if name.startswith("iceslider") else corner(ice[:192])
    config = dwmr.preset(name, batch_size=64)
    _, expected, _ = run_alone(config, 0, data, epochs=1)
    _, figures, _ = run_alone(config, 0, data, epochs=1, fast=True)
    names = list(OBJECTIVES[config.model].terms)
    for place, term in enumerate(names):
        # Bits of a cell that is the same in all 64 images deviate by rounding alone, and that is standardised.
        tolerance = 0.1 if name == "iceslider/dwmr" and term in ("cor", "cos") else 1e-4
        assert float(figures.terms[0, place]) == pytest.approx(
            float(expected.terms[0, place]), rel=tolerance, abs=1e-5
        ), term
    torch.testing.assert_close(figures.terms[1:], expected.terms[1:], rtol=0.2, atol=0.1)


class PlainEncoder(nn.Module):
    """A user's encoder: nothing in it knows of runs, and ``flatten(1)`` would mix them up if it were not vmapped."""

    def __init__(self, bits: int = 9) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 5, stride=3)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4 * 6 * 6, bits)

    def forward(self, images):
        hidden = torch.tanh(self.norm(self.conv(images)))
        return self.head(hidden.flatten(1))


class PlainPredictor(nn.Module):
    def __init__(self, bits: int = 9) -> None:
        super().__init__()
        self.of_codes, self.of_actions = nn.Linear(bits, 16), nn.Linear(4, 16, bias=False)
        self.out = nn.Linear(16, bits)

    def forward(self, codes, actions):
        return self.out(nn.functional.gelu(self.of_codes(codes) * self.of_actions(actions)))


def few_ones(codes, hyper):
    """A user's loss term, written for one run: a mean over everything."""
    return codes.probs.mean() * hyper.gamma


def test_networks_and_terms_of_a_user_take_part(double_precision, ice):
    data = corner(ice[:96])
    config = dwmr.preset("generic/dwmr", batch_size=32, bits=9, encoder="custom", predictor="custom", high=9)
    family = OBJECTIVES["dwmr"].adding("few_ones", few_ones, weight=0.3)
    configs = [config, config.replace(lr=3e-4, gamma=0.3)]
    how = {"family": family, "encoder": PlainEncoder, "predictor": PlainPredictor}
    states, figures, agreements = run(configs, [1, 2], data, **how)
    for config, seed, state, figure, agreement in zip(configs, [1, 2], states, figures, agreements, strict=True):
        single, expected, agreed = run_alone(config, seed, data, **how)
        torch.testing.assert_close(figure.terms, expected.terms, rtol=1e-6, atol=1e-9)
        assert agreement == pytest.approx(agreed)
        for name, value in state.tensors().items():
            if "conv.bias" not in name:  # before a BatchNorm, where its gradient is rounding noise
                torch.testing.assert_close(value, single.tensors()[name], rtol=1e-5, atol=2e-3)


def test_trying_an_update_leaves_everything_as_it_was(ice):
    config = dwmr.preset("iceslider/dwmr", batch_size=64)
    data = ice[:128]
    hyper = new_hyper(CPU, 2)
    model = [build_model(config, data.image_shape, data.n_actions, decoder=False, seed=seed) for seed in (0, 1)]
    states = [RunState(each, torch.zeros(())) for each in model]
    learner = Learner(states, OBJECTIVES["dwmr"], hyper.lr)
    runner = EpochRunner(learner, SCHEMES["two_step"], Loader(data, CPU, model[0].normalize), hyper, fast=False)
    before = [{name: value.clone() for name, value in state.tensors().items()} for state in states]
    runner.start([plan_of(config, seed, 0, len(data)) for seed in (0, 1)], [values_at(config, 0)] * 2)
    runner.prepare()
    for state, kept in zip(states, before, strict=True):
        for name, value in state.tensors().items():
            assert torch.equal(value, kept[name]), name
    assert int(runner.counter) == 0


def single_runner(data) -> tuple[EpochRunner, tuple]:
    """A runner of one run, and what its first epoch begins with."""
    config, hyper = dwmr.preset("iceslider/dwmr", batch_size=64), new_hyper(CPU)
    model = build_model(config, data.image_shape, data.n_actions, decoder=False, seed=0)
    learner = Learner([RunState(model, hyper.lr)], OBJECTIVES["dwmr"], hyper.lr)
    runner = EpochRunner(learner, SCHEMES["two_step"], Loader(data, CPU, model.normalize), hyper, fast=False)
    return runner, (plan_of(config, 0, 0, len(data)), values_at(config, 0))


def test_an_update_that_cannot_be_recorded_is_made_as_it_reads(ice, monkeypatch, caplog):
    def fails(*arguments, **words):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(epochs, "capture", fails)
    runner, (plan, values) = single_runner(ice[:128])
    runner.recorded = True
    record_if_possible(runner, plan, values)
    assert "without recorded updates, which is slower" in caplog.text
    runner.start([plan], [values])
    for _ in range(len(plan)):
        runner.step()
    assert int(runner.counter) == len(plan)


def test_a_buffer_that_is_replaced_cannot_be_recorded(ice):
    class Counting(nn.BatchNorm2d):
        def forward(self, x):
            self.num_batches_tracked = self.num_batches_tracked + 1
            return super().forward(x)

    runner, (plan, values) = single_runner(ice[:128])
    layers = runner.learner.runs[0].model.encoder.layers
    layers[1] = Counting(layers[1].num_features)
    tracked = layers[1].num_batches_tracked
    runner.start([plan], [values])
    with pytest.raises(RuntimeError, match="'num_batches_tracked' is replaced by a new tensor"):
        runner.prepare()
    assert layers[1].num_batches_tracked is tracked
    assert int(tracked) == 0


def test_a_buffer_may_be_changed_in_place_in_any_way():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(()))
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x):
            self.seen += 1
            self.seen.mul_(2)
            return self.scale * x

    networks = [Counting(), Counting()]
    Stack(networks)(torch.ones(2, 3))
    assert [float(network.seen) for network in networks] == [2.0, 2.0]


class Counting(nn.Module):
    """An encoder that keeps the sizes of the batches it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.last, self.sizes = nn.Linear(3 * 64 * 64, 12), []

    def forward(self, images):
        self.sizes.append(len(images))
        return self.last(images.flatten(1))


def test_a_finished_encoder_sees_every_frame_once(ice):
    config = dwmr.preset("generic/dwmr", model="symbols", scheme="predictor_alone", epochs=3, batch_size=32)
    objective, encoder = replace(OBJECTIVES["symbols"], decoder=False), Counting()
    run = dwmr.train(config, train=ice[:64], val=ice[64:96], encoder=encoder, objective=objective, progress=False)
    assert [size for size in encoder.sizes if size > 2] == [64, 64, 32, 32]  # two zeros show what it returns
    codes, next_codes = run.model.encode(ice[64:96].obs), run.model.encode(ice[64:96].next_obs)
    exact = (run.model.predict(codes, ice[64:96].actions) == next_codes).all(1).float().mean()
    assert run.metrics[-1]["val"]["exact_next"] == pytest.approx(100 * float(exact))


def test_hyperparameters_of_one_run_are_scalars_and_of_several_have_the_run_axis():
    assert isinstance(new_hyper(CPU), Hyper)
    assert new_hyper(CPU).lr.shape == ()
    assert new_hyper(CPU, 3).tau.shape == (3,)
