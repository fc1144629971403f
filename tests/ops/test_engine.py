"""Many runs as one program give what each run gives alone."""

from __future__ import annotations

import pytest
import torch

import dwmr
from dwmr.config import Config
from dwmr.data.batches import Loader, plan_epoch
from dwmr.models.encoders import CELLS
from dwmr.models.world_model import build_model
from dwmr.ops.cpu import WORTH_COMPILING, InParts, quicken
from dwmr.ops.native import library
from dwmr.ops.stacked_engine import StackedEngine
from dwmr.training.engine import PlainEngine, new_hyper
from dwmr.training.objectives import OBJECTIVES, Objective, objective_of
from dwmr.training.schedules import values_at
from dwmr.training.schemes import SCHEMES, Learner, mixed_two_step

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


def learner_of(config: Config, seed: int, data) -> Learner:
    family = family_of(config, data)
    model = build_model(config, data.image_shape, data.n_actions, decoder=family.decoder, seed=seed)
    return Learner(model, family, new_hyper(CPU).lr, noisy_predictor=config.noisy_predictor)


def plan_of(config: Config, seed: int, epoch: int, count: int):
    noise = OBJECTIVES[config.model].noise
    return plan_epoch(seed, epoch, count, config.batch_size, config.bits, noise=noise, triplets=config.triplets)


def run_alone(config: Config, seed: int, data, epochs: int = EPOCHS, quickened=None):
    learner, hyper = learner_of(config, seed, data), new_hyper(CPU)
    if quickened is not None:
        quickened(learner)
    for optimizer in (learner.codes_optimizer, learner.predictor_optimizer):
        optimizer.param_groups[0]["lr"] = hyper.lr
    engine = PlainEngine(learner, hyper, SCHEMES[config.scheme], Loader(data, CPU, config.two_views, config.steps), "")
    for epoch in range(epochs):
        (figures,) = engine.run_epoch(
            [plan_of(config, seed, epoch, len(data))], [values_at(config, epoch)], lambda steps: None
        )
    return learner, figures, engine.agreement(data)[0]


def run_together(configs: list[Config], seeds: list[int], data, epochs: int = EPOCHS, scheme=None):
    learners = [learner_of(config, seed, data) for config, seed in zip(configs, seeds)]
    first = configs[0]
    how = scheme or SCHEMES[first.scheme]
    engine = StackedEngine(learners, family_of(first, data), how, data, CPU, first.two_views, first.steps)
    for epoch in range(epochs):
        plans = [plan_of(config, seed, epoch, len(data)) for config, seed in zip(configs, seeds)]
        figures = engine.run_epoch(plans, [values_at(config, epoch) for config in configs], lambda steps: None)
    engine.settle()
    return learners, figures, engine.agreement(data)


def state_of(learner: Learner) -> dict[str, torch.Tensor]:
    moments = {
        f"{name}.{index}.{key}": value
        for name in ("codes_optimizer", "predictor_optimizer")
        for index, state in getattr(learner, name).state_dict()["state"].items()
        for key, value in state.items()
    }
    return {
        **learner.model.state_dict(),
        **{f"target.{k}": v for k, v in learner.target.state_dict().items()},
        **moments,
    }


SETTINGS = [
    ("dwmr", {"tau_factor": 0.9, "lr_factor": 0.8}),
    ("dwmr", {"scheme": "two_step_st", "triplets": 50}),
    ("dwmr", {"scheme": "soft"}),
    ("dwmr+beta-vae", {"scheme": "straight_through", "noisy_predictor": True, "temperature": 0.7}),
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
    learners, figures, agreements = run_together(configs, seeds, data, epochs)
    for config, seed, learner, figure, agreement in zip(configs, seeds, learners, figures, agreements):
        single, expected, agreed = run_alone(config, seed, data, epochs)
        rtol = 1e-6 if weights_too else 1e-4
        torch.testing.assert_close(figure.terms, expected.terms, rtol=rtol, atol=1e-9)
        if not weights_too:
            continue
        torch.testing.assert_close(figure.ones, expected.ones)
        assert figure.flips == pytest.approx(expected.flips)
        assert agreement == pytest.approx(agreed)
        weights, alone = state_of(learner), state_of(single)
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
    _, figures, _ = run_together(configs, [0, 1, 2], data, scheme=scheme)
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
    _, figures, _ = run_together([base, base], [0, 4], data, epochs=1)
    for seed, figure in zip([0, 4], figures):
        _, expected, _ = run_alone(base, seed, data, epochs=1)
        torch.testing.assert_close(figure.terms, expected.terms, rtol=1e-4, atol=1e-6)


def test_a_run_driven_to_nan_leaves_the_others_unchanged(ice):
    data = ice[:320]
    base = dwmr.preset("iceslider/dwmr", batch_size=64)
    broken = base.replace(lr=1e30)
    healthy, figures_before, _ = run_together([base, base, base], [0, 1, 2], data)
    mixed, figures, _ = run_together([base, broken, base], [0, 1, 2], data)
    assert not figures[1].finite or not torch.isfinite(figures[1].terms).all()
    for run in (0, 2):
        assert torch.equal(figures[run].terms, figures_before[run].terms)
        before, after = state_of(healthy[run]), state_of(mixed[run])
        assert all(torch.equal(before[name], after[name]) for name in before)


def test_images_a_few_at_a_time_give_the_same_updates(double_precision, ice):
    data = corner(ice[:96])
    config = dwmr.preset("generic/dwmr+ae", batch_size=32, bits=24)

    def a_few(learner: Learner) -> None:
        networks = (learner.model.encoder, learner.target, learner.model.decoder)
        learner.twins = {network: InParts(network, images=7) for network in networks}

    whole, expected, _ = run_alone(config, 0, data)
    parts, figures, _ = run_alone(config, 0, data, quickened=a_few)
    torch.testing.assert_close(figures.terms, expected.terms, rtol=1e-9, atol=1e-12)
    for name, value in state_of(parts).items():
        torch.testing.assert_close(value, state_of(whole)[name], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", ["8puzzle/dwmr", "iceslider/dwmr", "iceslider/beta-vae", "generic/dwmr"])
def test_a_quickened_run_begins_as_the_plain_run(name, ice):
    """Later updates part: Adam's first steps have the learning rate's size however small a gradient, rounding or not.
    Values and gradients of each network are compared in test_lanes."""
    if library() is None:
        pytest.skip("no C++ compiler")
    data = ice[:192] if name.startswith("iceslider") else corner(ice[:192])
    config = dwmr.preset(name, batch_size=64)
    _, expected, _ = run_alone(config, 0, data, epochs=1)
    _, figures, _ = run_alone(
        config, 0, data, epochs=1, quickened=lambda learner: quicken(learner, learner.objective, WORTH_COMPILING)
    )
    names = list(OBJECTIVES[config.model].terms)
    for place, term in enumerate(names):
        # Bits of a cell that is the same in all 64 images deviate by rounding alone, and that is standardised.
        tolerance = 0.1 if name == "iceslider/dwmr" and term in ("cor", "cos") else 1e-4
        assert float(figures.terms[0, place]) == pytest.approx(
            float(expected.terms[0, place]), rel=tolerance, abs=1e-5
        ), term
    torch.testing.assert_close(figures.terms[1:], expected.terms[1:], rtol=0.2, atol=0.1)
