"""What goes beyond the paper: moments across two looks, second looks, grid networks, shaped schedules."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import dwmr
from dwmr import losses
from dwmr.config import Config
from dwmr.data.batches import Loader, plan_epoch, second_looks
from dwmr.errors import InputError
from dwmr.nets.encoders import ENCODERS, GridEncoder
from dwmr.nets.predictors import FarPredictor
from dwmr.objectives import OBJECTIVES, objective_of
from dwmr.schedules import values_at
from tests.reference import column, mean


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
    bend = losses.STRAIGHT_BELOW
    roots = [
        math.sqrt(value) if value > bend else math.sqrt(bend) + (value - bend) / (2 * math.sqrt(bend))
        for value in (shared[k][k] for k in range(4))
    ]
    assert min(roots) < math.sqrt(bend) < max(roots)  # both sides of the bend
    assert float(losses.cross_variance(found, 0.3)) == pytest.approx(mean(max(0.0, 0.3 - root) for root in roots))
    least = [math.sqrt(max(shared[k][k], losses.LEAST_SHARED)) for k in range(4)]
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
    shared = losses.cross_covariance(first, second)
    for run in range(2):
        alone = losses.cross_covariance(first[run], second[run])
        torch.testing.assert_close(shared[run], alone)
        torch.testing.assert_close(
            losses.cross_variance(shared, gamma)[run], losses.cross_variance(alone, float(gamma[run]))
        )
        torch.testing.assert_close(
            losses.cross_correlation(shared, margin)[run], losses.cross_correlation(alone, float(margin[run]))
        )


def test_every_technique_is_off_by_default():
    for name in ("8puzzle/dwmr", "iceslider/dwmr+ae", "generic/deepcubeai"):
        config = dwmr.preset(name)
        assert objective_of(config) is OBJECTIVES[config.model]
        assert {config.cross, config.two_views, config.cosine, bool(config.warmup)} == {False}


def test_cross_adds_its_terms_to_any_model():
    for model in OBJECTIVES:
        family = objective_of(Config().replace(model=model, cross=True))
        assert set(family.terms) - set(OBJECTIVES[model].terms) == {"cross_var", "cross_cor"}


def test_cross_moments_take_the_place_of_the_usual_ones():
    config = Config().replace(cross=True, cross_from=2, cross_to=4, var=3, cor=1, cross_var=4, cross_cor=2)
    values = [values_at(config, epoch) for epoch in range(6)]
    assert [now["var"] for now in values] == [3, 3, 3, 1.5, 0, 0]
    assert [now["cross_var"] for now in values] == [0, 0, 0, 2, 4, 4]
    assert [now["cross_cor"] for now in values] == [0, 0, 0, 1, 2, 2]
    assert values_at(config.replace(cross_from=3, cross_to=3), 3)["cross_var"] == 4
    with pytest.raises(InputError, match="cross_from"):
        config.replace(cross_from=5)


def test_learning_rates_rise_and_fall():
    config = Config().replace(lr=1.0, epochs=4, cosine=True, warmup=1)
    rates = [values_at(config, epoch)["lr"] for epoch in range(4)]
    cosine = [(1 + math.cos(math.pi * epoch / 4)) / 2 for epoch in range(4)]
    assert rates == pytest.approx([cosine[0] / 2, *cosine[1:]])


def test_second_looks_are_the_next_transitions_of_an_episode(ice):
    data = replace(ice[:4], episode=np.array([7, 7, 8, 8]))
    assert second_looks(data).tolist() == [1, -1, 3, -1]
    with pytest.raises(InputError, match="episodes"):
        second_looks(replace(data, episode=None))


def test_the_loader_brings_second_looks(ice):
    data = ice[:64]
    plan = plan_epoch(0, 0, len(data), 16, 8)
    again = second_looks(data)
    assert (again < 0).any()
    for index, batch in zip(plan.order, Loader(data, torch.device("cpu"), two_views=True).raw_batches(plan)):
        expected = [data.obs[again[t]] if again[t] >= 0 else data.next_obs[t] for t in index]
        assert np.array_equal(batch[-1].numpy(), np.stack(expected))


def test_two_views_vote_on_the_target():
    """Where the two looks disagree, the surer one decides."""
    from tests.test_schemes import make_batch, make_hyper, make_learner

    learner, batch = make_learner(make_hyper()), make_batch()
    both = replace(batch, second_looks=batch.images)
    logits = learner.target(batch.next_images) + learner.target(batch.images)
    assert torch.equal(learner.target_bits(both), (logits >= 0).to(logits.dtype))
    assert not torch.equal(learner.target_bits(both), learner.target_bits(batch))


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
