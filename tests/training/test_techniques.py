"""What goes beyond the paper: moments across two looks, second looks, grid networks, shaped schedules."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import dwmr
from dwmr.config import Config
from dwmr.data.batches import Later, Loader, continuations, plan_epoch
from dwmr.errors import InputError
from dwmr.models.encoders import ENCODERS, GridEncoder
from dwmr.models.predictors import FarPredictor
from dwmr.models.world_model import build_model
from dwmr.training import losses
from dwmr.training.objectives import OBJECTIVES, Codes, objective_of
from dwmr.training.schedules import values_at
from dwmr.training.schemes import SCHEMES, predictor_step
from dwmr.training.slow_features import init_from_slow_features
from tests.reference import column, mean
from tests.training.test_schemes import make_batch, make_hyper, make_learner


def looks(samples=40, bits=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(2, samples, bits, generator=generator, dtype=torch.float64)


def covariance(one, other):
    centre_one, centre_other = mean(one), mean(other)
    return sum((a - centre_one) * (b - centre_other) for a, b in zip(one, other)) / (len(one) - 1)


def test_cross_moments_equal_their_definitions():
    first, second = looks()
    one, other = first.tolist(), second.tolist()
    shared = [[covariance(column(one, i), column(other, j)) for j in range(4)] for i in range(4)]
    found = losses.cross_covariance(first, second)
    torch.testing.assert_close(found, torch.tensor(shared, dtype=torch.float64))
    bend = losses.LINEAR_BELOW
    roots = [
        math.sqrt(value) if value > bend else math.sqrt(bend) + (value - bend) / (2 * math.sqrt(bend))
        for value in (shared[k][k] for k in range(4))
    ]
    assert min(roots) < math.sqrt(bend) < max(roots)  # both sides of the bend
    assert float(losses.cross_variance(found, 0.3)) == pytest.approx(mean(max(0.0, 0.3 - root) for root in roots))
    least = [math.sqrt(max(shared[k][k], losses.MIN_SHARED_COVARIANCE)) for k in range(4)]
    excess = [
        max(0.0, abs(shared[i][j] + shared[j][i]) / (2 * least[i] * least[j]) - 0.1)
        for i in range(4)
        for j in range(4)
        if i != j
    ]
    assert float(losses.cross_correlation(found, 0.1)) == pytest.approx(mean(excess))


def test_what_one_look_alone_shows_earns_nothing():
    """A bit drawn by the state, seen in both looks, meets the hinge; one that each look draws for itself does not,
    though its usual variance is the same."""
    generator = torch.Generator().manual_seed(1)
    state, mine, yours = (torch.rand(3, 4096, generator=generator) > 0.5).float()
    first, second = torch.stack([state, mine], 1), torch.stack([state, yours], 1)
    assert float(losses.variance(first, 0.49)) == 0
    shared = losses.cross_covariance(first, second)
    assert float(losses.cross_variance(shared[:1, :1], 0.49)) == 0
    assert float(losses.cross_variance(shared[1:, 1:], 0.49)) > 0.4


def test_the_first_shared_covariance_has_a_slope():
    for value in (-0.01, 0.0, 0.2):
        shared = torch.full((1, 1), value, dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(losses.cross_variance(shared, 0.49), shared)
        assert -20 < float(slope) < -0.5


def test_cross_moments_of_several_runs():
    first, second = looks(bits=6, seed=2).unflatten(-1, (2, 3)).transpose(1, 2)
    gamma, margin = torch.tensor([0.2, 0.4]), torch.tensor([0.0, 0.1])
    shared = torch.vmap(losses.cross_covariance)(first, second)
    variances = torch.vmap(losses.cross_variance)(shared, gamma)
    correlations = torch.vmap(losses.cross_correlation)(shared, margin)
    for run in range(2):
        alone = losses.cross_covariance(first[run], second[run])
        torch.testing.assert_close(shared[run], alone)
        torch.testing.assert_close(variances[run], losses.cross_variance(alone, float(gamma[run])))
        torch.testing.assert_close(correlations[run], losses.cross_correlation(alone, float(margin[run])))


def test_every_technique_is_off_by_default():
    for name in ("8puzzle/dwmr", "iceslider/dwmr+ae", "generic/deepcubeai"):
        config = dwmr.preset(name)
        assert objective_of(config) is OBJECTIVES[config.model]
        assert {config.cross, config.two_views, config.cosine, bool(config.warmup)} == {False}


def test_cross_adds_its_terms_to_any_model():
    for model in OBJECTIVES:
        family = objective_of(Config().replace(model=model, cross=True))
        assert set(family.terms) - set(OBJECTIVES[model].terms) == {"cross_var", "cross_cor", "agree"}


def test_cross_moments_take_the_place_of_the_usual_ones():
    config = Config().replace(cross=True, cross_from=2, cross_to=4, var=3, cor=1, cross_var=4, cross_cor=2)
    values = [values_at(config, epoch) for epoch in range(6)]
    assert [now["var"] for now in values] == [3, 3, 3, 1.5, 0, 0]
    assert [now["cross_var"] for now in values] == [0, 0, 0, 2, 4, 4]
    assert [now["cross_cor"] for now in values] == [0, 0, 0, 1, 2, 2]
    assert values_at(config.replace(cross_from=3, cross_to=3), 3)["cross_var"] == 4
    with pytest.raises(InputError, match="cross_from"):
        config.replace(cross_from=5)


def test_agreement_is_one_less_the_correlation():
    first, second = looks()
    expected = mean(1 - np.corrcoef(first[:, k], second[:, k])[0, 1] for k in range(4))
    assert float(losses.agreement(first, second)) == pytest.approx(expected, rel=1e-2)
    assert float(losses.agreement(first, first)) == pytest.approx(0, abs=1e-2)
    assert float(losses.agreement(torch.zeros(9, 2), torch.rand(9, 2))) == 1
    rare = (torch.arange(6400) % 64 == 0).double()[:, None]
    assert float(losses.agreement(rare, rare)) < 0.01


def test_bits_by_cell():
    """Bits are laid out as (channels, cells); moments by cell see the channels of every cell of every sample."""
    codes = torch.arange(2 * 6.0).view(2, 6)
    assert losses.by_cell(codes, 3).tolist() == [[0, 3], [1, 4], [2, 5], [6, 9], [7, 10], [8, 11]]
    assert losses.by_cell(codes, 1) is codes
    config = Config().replace(encoder="patch", by_cell=True, cross=True)
    probs, bits, logits = torch.rand(3, 8, 12, generator=torch.Generator().manual_seed(0))
    found = Codes(images=probs, probs=probs, next_bits=bits.round(), predicted=logits, next_probs=bits)
    hyper = config.hyper
    _, terms = objective_of(config, cells=4).evaluate(found, hyper)
    cells, encoded, predicted = (losses.by_cell(each, 4) for each in (probs, bits, torch.sigmoid(logits)))
    shared = losses.cross_covariance(encoded, predicted)
    assert shared.shape == (3, 3)
    expected = {
        "var": losses.variance(cells, hyper.gamma),
        "cor": losses.correlation(cells),
        "cross_var": losses.cross_variance(shared, hyper.cross_gamma),
        "cross_cor": losses.cross_correlation(shared, hyper.margin),
        "agree": losses.agreement(encoded, predicted),
        "cos": losses.coskewness(probs),
    }
    for name, value in expected.items():
        torch.testing.assert_close(terms[name], value)


def test_by_cell_wants_a_grid(ice):
    with pytest.raises(InputError, match="grid"):
        dwmr.train(Config().replace(encoder="generic", by_cell=True), train=ice, device="cpu", progress=False)


def test_the_predictor_may_learn_alone_first(ice):
    config = dwmr.preset("iceslider/strong", epochs=2, batch_size=64, init_from_slow_features=False)
    start = build_model(config, ice.image_shape, ice.n_actions, decoder=False, seed=0)
    weights = {}
    for waits in (0, 2):
        run = dwmr.train(config.replace(predictor_first=waits), train=ice, device="cpu", fast="off", progress=False)
        weights[waits] = [start.encoder, run.model.encoder], [start.predictor, run.model.predictor]
    for waits, (encoders, predictors) in weights.items():
        same = [torch.equal(*pair) for pair in zip(*(each.parameters() for each in encoders))]
        assert all(same) if waits else not any(same)
        assert not any(torch.equal(*pair) for pair in zip(*(each.parameters() for each in predictors)))
    with pytest.raises(InputError, match="predictor_first"):
        config.replace(scheme="soft")


@pytest.mark.parametrize("seed", [0, 1, 5])
def test_slow_features_of_an_untrained_encoder_are_the_labels(ice, seed):
    """Rock, floor, goal and agent have codes of their own before anything is learned. With seed 1 random weights see
    agent and goal alike, with seed 5 both look like rock."""
    config = dwmr.preset("iceslider/strong")
    model = build_model(config, ice.image_shape, ice.n_actions, decoder=False, seed=seed)
    init_from_slow_features(model, ice)
    codes = losses.by_cell(model.encode(ice.obs), 64).numpy() @ [4, 2, 1]
    labels = np.asarray(ice.state).ravel()
    usual = [np.bincount(codes[labels == label]).argmax() for label in range(4)]
    assert len(set(usual)) == 4
    assert np.mean(np.array(usual)[labels] == codes) > 0.999


def test_a_slow_start_is_where_training_begins(ice, tmp_path):
    config = dwmr.preset("iceslider/strong", epochs=1, batch_size=64, predictor_first=1)
    model = build_model(config, ice.image_shape, ice.n_actions, decoder=False, seed=0)
    init_from_slow_features(model, ice)
    run = dwmr.train(config, train=ice, out=tmp_path / "run", device="cpu", fast="off", progress=False)
    assert all(torch.equal(*pair) for pair in zip(model.encoder.parameters(), run.model.encoder.parameters()))


def test_a_slow_start_wants_a_linear_end(tiny):
    encoder = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 6, bias=False))
    config = Config().replace(init_from_slow_features=True, batch_size=16, epochs=1, low=0, high=6)
    with pytest.raises(InputError, match="last layer is linear"):
        dwmr.train(config, train=tiny, encoder=encoder, device="cpu", progress=False)


def test_learning_rates_rise_and_fall():
    config = Config().replace(lr=1.0, epochs=4, cosine=True, warmup=1)
    rates = [values_at(config, epoch)["lr"] for epoch in range(4)]
    cosine = [(1 + math.cos(math.pi * epoch / 4)) / 2 for epoch in range(4)]
    assert rates == pytest.approx([cosine[0] / 2, *cosine[1:]])


def test_a_learning_rate_may_fall_later_or_never():
    later = Config().replace(lr=1.0, epochs=6, cosine=True, cosine_from=2)
    assert [values_at(later, epoch)["lr"] for epoch in range(6)] == pytest.approx(
        [1, 1, *((1 + math.cos(math.pi * epoch / 4)) / 2 for epoch in range(4))]
    )
    assert {values_at(later.replace(epochs=2), epoch)["lr"] for epoch in range(2)} == {1.0}


def test_continuations_are_the_next_transitions_of_an_episode(ice):
    data = replace(ice[:4], episode=np.array([7, 7, 8, 8]))
    assert continuations(data).tolist() == [1, -1, 3, -1]
    with pytest.raises(InputError, match="no `episode`"):
        continuations(replace(data, episode=None))


def batches(data, plan, **what):
    """The minibatches of a plan with their images as bytes, each with the transitions it was made from."""
    loader = Loader(data, torch.device("cpu"), lambda images: images, **what)
    loader.lay_out([plan])
    return [(index, loader.batch(torch.tensor([update]))) for update, index in enumerate(plan.order)]


def test_the_loader_brings_second_views(ice):
    data = ice[:64]
    plan = plan_epoch(0, 0, len(data), 16, 8)
    again = continuations(data)
    assert (again < 0).any()
    for index, batch in batches(data, plan, two_views=True):
        expected = [data.obs[again[t]] if again[t] >= 0 else data.next_obs[t] for t in index]
        assert np.array_equal(batch.second_views.numpy(), np.stack(expected))


def test_two_views_vote_on_the_target():
    """Where the two views disagree, the more confident one decides."""
    learner, batch = make_learner(make_hyper()), make_batch()
    logits = learner.runs[0].target(batch.next_images) + learner.runs[0].target(batch.images)
    both = learner.target_bits(batch.next_images, batch.images)
    assert torch.equal(both, (logits >= 0).to(logits.dtype))
    assert not torch.equal(both, learner.target_bits(batch.next_images))


def test_the_loader_brings_later_steps(ice):
    data = replace(ice[:64], episode=np.arange(64) // 5)
    plan = plan_epoch(0, 0, len(data), 16, 8)
    for index, batch in batches(data, plan, steps=3):
        assert len(batch.later) == 2
        for ahead, step in enumerate(batch.later, start=1):
            goes_on = (index % 5 + ahead < 5) & (index + ahead < 64)
            assert (step.seen > 0).tolist() == goes_on.tolist()
            assert np.array_equal(step.images.numpy()[goes_on], data.next_obs[index[goes_on] + ahead])
            assert np.array_equal(step.actions.numpy()[goes_on].argmax(-1), data.actions[index[goes_on] + ahead])


def later_batch():
    """A learner that looks three actions ahead, and a minibatch in which some episodes end before."""
    learner, batch = make_learner(make_hyper(), objective_of(Config().replace(steps=3))), make_batch()
    generator = torch.Generator().manual_seed(5)
    steps = []
    for ends in (3, 6):
        images = torch.rand(batch.images.shape, generator=generator, dtype=torch.float64)
        seen = (torch.arange(len(images)) >= ends).double()
        steps.append(Later(batch.actions.roll(ends, 0), images, seen))
    return learner, replace(batch, later=tuple(steps))


def test_later_steps_go_on_from_predicted_bits():
    """The term by hand: each step is fed the bits of the one before, and episodes that are over do not count."""
    learner, batch = later_batch()
    predict = copy.deepcopy(learner.runs[0].model.predictor)
    logits, errors = predict(torch.sigmoid(learner.runs[0].model.encoder(batch.images)), batch.actions), []
    for step in batch.later:
        logits = predict((logits >= 0).double(), step.actions)
        wanted = (learner.runs[0].target(step.images) >= 0).double()
        each = torch.nn.functional.binary_cross_entropy_with_logits(logits, wanted, reduction="none").mean(-1)
        errors.append(each[step.seen > 0].mean())
    update = SCHEMES["soft"](learner, batch, make_hyper())
    assert update.terms["later"].item() == pytest.approx(sum(errors).item() / 2)


def test_what_came_after_an_episode_changes_nothing():
    (one, batch), (other, _) = later_batch(), later_batch()
    spoilt = tuple(
        replace(step, images=torch.where(step.seen[:, None, None, None] > 0, step.images, 9.0)) for step in batch.later
    )
    for learner, given in ((one, batch), (other, replace(batch, later=spoilt))):
        SCHEMES["two_step"](learner, given, make_hyper())
    for a, b in zip(one.runs[0].model.parameters(), other.runs[0].model.parameters()):
        assert torch.equal(a, b)


def test_the_predictor_looks_ahead_in_its_own_step_too():
    """Even in epochs in which it learns alone, when all weights are 0."""
    ends = []
    for steps in (0, 2):
        learner, batch = later_batch()
        batch = replace(batch, later=batch.later[:steps])
        bits = (learner.runs[0].model.encoder(batch.images) >= 0).double().detach()
        next_bits, *later_bits = map(learner.target_bits, [batch.next_images, *(step.images for step in batch.later)])
        predictor_step(learner, batch, make_hyper(later=0.0), bits, next_bits, later_bits)
        ends.append(torch.cat([parameter.flatten() for parameter in learner.runs[0].model.predictor.parameters()]))
    assert not torch.equal(*ends)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"steps": 0}, "steps"),
        ({"steps": 2, "scheme": "joint"}, "joint"),
        ({"two_views": True, "scheme": "joint"}, "joint"),
    ],
)
def test_steps_that_cannot_be_taken(values, message):
    with pytest.raises(InputError, match=message):
        Config().replace(**values)


@pytest.mark.parametrize("settings", [{"steps": 2}, {"two_views": True}])
def test_data_without_episodes_is_refused_before_anything_is_written(tiny, tmp_path, settings):
    config = dwmr.preset("generic/dwmr", bits=8, low=0, high=4, batch_size=16, epochs=1, **settings)
    with pytest.raises(InputError, match="this data has no `episode`"):
        dwmr.train(config, train=replace(tiny, episode=None), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_steps_need_an_objective_that_uses_them(tiny):
    config = dwmr.preset("generic/dwmr", bits=8, low=0, high=4, batch_size=16, epochs=1, steps=2)
    with pytest.raises(InputError, match="'later'"):
        dwmr.train(config, train=tiny, objective=OBJECTIVES["dwmr"])
    run = dwmr.train(config, train=tiny, objective=objective_of(config), progress=False)
    assert "later" in run.metrics[0]["terms"]


def test_a_tile_is_read_from_its_own_pixels():
    encoder = GridEncoder((1, 88, 88), 63, cells=3)
    image = torch.rand(2, 1, 88, 88)
    changed = image.clone()
    changed[:, :, 30:58, 59:87] += 1  # the tile in the middle row, right
    different = (encoder(image) != encoder(changed)).view(2, 7, 3, 3).any(1)
    assert different.nonzero()[:, 1:].unique(dim=0).tolist() == [[1, 2]]


def test_equal_tiles_have_equal_bits():
    encoder = GridEncoder((1, 88, 88), 63, cells=3)
    image = torch.zeros(1, 1, 88, 88)
    tile = torch.rand(28, 28)
    image[..., 1:29, 1:29] = image[..., 59:87, 30:58] = tile
    bits = encoder(image).view(7, 3, 3)
    torch.testing.assert_close(bits[:, 0, 0], bits[:, 2, 1])
    torch.testing.assert_close(bits[:, 1, 1], bits[:, 0, 1])
    assert not torch.allclose(bits[:, 0, 0], bits[:, 1, 1])


@pytest.mark.parametrize(("shape", "bits"), [((1, 88, 80), 63), ((1, 88, 88), 64)])
def test_a_grid_that_does_not_fit_is_refused(shape, bits):
    with pytest.raises(InputError, match="grid of 3×3"):
        ENCODERS["tiles"](shape, bits)


@pytest.mark.parametrize("cells", [3, 8])
def test_a_far_predictor_sees_from_corner_to_corner(cells):
    torch.manual_seed(0)
    predictor = FarPredictor((3, 64, 64), 2 * cells**2, 4, cells=cells).eval()
    codes = torch.rand(1, 2 * cells**2, requires_grad=True)
    first = predictor(codes, torch.eye(4)[:1]).view(2, cells, cells)[0, 0, 0]
    (gradient,) = torch.autograd.grad(first, codes)
    assert (gradient.view(2, cells, cells)[:, -1, -1] != 0).any()
    with pytest.raises(InputError, match="divisible"):
        FarPredictor((3, 64, 64), 5, 4, cells=cells)


def test_a_coskewness_that_weighs_nothing_is_not_computed(ice):
    config = dwmr.preset("iceslider/strong", epochs=2, batch_size=64)
    assert config.hyper.cos == 0
    words = {"train": ice, "device": "cpu", "progress": False}
    idle, whole = dwmr.train(config, **words), dwmr.train(config, objective=objective_of(config, cells=64), **words)
    assert set(whole.metrics[-1]["terms"]) - set(idle.metrics[-1]["terms"]) == {"cos"}
    states = [run.model.state_dict() for run in (idle, whole)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    weighty = dwmr.train(config.replace(cos=0.1, epochs=1), **words)
    assert "cos" in weighty.metrics[-1]["terms"]
