"""Each loss against its naive twin, by hand, and by what it must not depend on."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

from dwmr.training import losses
from tests import reference

TRIPLETS = [[0, 1, 2], [2, 0, 1], [1, 2, 0], [0, 2, 1]]


@dataclass(frozen=True)
class Sample:
    """Everything a loss may ask for, in float64; several runs have a leading axis."""

    probs: Tensor
    bits: Tensor
    logits: Tensor
    images: Tensor
    decoded: Tensor
    gamma: float | Tensor = 0.4
    low: float | Tensor = 1.0
    high: float | Tensor = 2.0


TENSORS = ("probs", "bits", "logits", "images", "decoded")


@dataclass(frozen=True)
class Loss:
    ours: Callable[[Sample], Tensor]
    twin: Callable[[Sample], float]


def plain(value: float | Tensor):
    return value.tolist() if isinstance(value, Tensor) else value


LOSSES = {
    "prediction": Loss(
        lambda s: losses.prediction(s.logits, s.bits),
        lambda s: reference.prediction(plain(s.logits), plain(s.bits)),
    ),
    "variance": Loss(
        lambda s: losses.variance(s.probs, s.gamma),
        lambda s: reference.variance(plain(s.probs), plain(s.gamma)),
    ),
    "correlation": Loss(
        lambda s: losses.correlation(s.probs),
        lambda s: reference.correlation(plain(s.probs)),
    ),
    "coskewness": Loss(
        lambda s: losses.coskewness(s.probs),
        lambda s: reference.coskewness(plain(s.probs)),
    ),
    "coskewness of triplets": Loss(
        lambda s: losses.coskewness(s.probs, torch.tensor(TRIPLETS)),
        lambda s: reference.coskewness(plain(s.probs), TRIPLETS),
    ),
    "locality": Loss(
        lambda s: losses.locality(s.probs, s.bits, s.low, s.high),
        lambda s: reference.locality(plain(s.probs), plain(s.bits), plain(s.low), plain(s.high)),
    ),
    "reconstruction": Loss(
        lambda s: losses.reconstruction(s.decoded, s.images),
        lambda s: reference.reconstruction(plain(s.decoded.flatten()), plain(s.images.flatten())),
    ),
    "kl": Loss(
        lambda s: losses.kl(s.probs),
        lambda s: reference.kl(plain(s.probs)),
    ),
}
REGULARIZERS = ["variance", "correlation", "coskewness", "locality", "kl"]

every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())


def code(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def table(rows: int, columns: int, values: st.SearchStrategy[float]) -> st.SearchStrategy[Tensor]:
    row = st.lists(values, min_size=columns, max_size=columns)
    return st.lists(row, min_size=rows, max_size=rows).map(lambda rows: code(*rows))


@st.composite
def samples(draw) -> Sample:
    """Small minibatches, often with probabilities of exactly 0 and 1 and with bits that never change."""
    count, bits = draw(st.integers(2, 6)), draw(st.integers(3, 5))
    probs = draw(table(count, bits, st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1))))
    for constant in draw(st.sets(st.integers(0, bits - 1))):
        probs[:, constant] = probs[0, constant]
    low, high = sorted([draw(st.floats(0, bits)), draw(st.floats(0, bits))])
    pixels = st.floats(-3, 3)
    return Sample(
        probs=probs,
        bits=draw(table(count, bits, st.sampled_from([0.0, 1.0]))),
        logits=draw(table(count, bits, st.floats(-50, 50))),
        images=draw(table(count, 4, pixels)).reshape(count, 1, 2, 2),
        decoded=draw(table(count, 4, pixels)).reshape(count, 1, 2, 2),
        gamma=draw(st.floats(0, 0.5)),
        low=low,
        high=high,
    )


def random_sample(*lead: int, count: int = 5, bits: int = 4) -> Sample:
    generator = torch.Generator().manual_seed(0)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*lead, *shape, generator=generator, dtype=torch.float64)

    return Sample(
        probs=uniform(count, bits),
        bits=(uniform(count, bits) > 0.5).double(),
        logits=6 * uniform(count, bits) - 3,
        images=uniform(count, 2, 3, 3),
        decoded=uniform(count, 2, 3, 3),
    )


@every_loss
@given(sample=samples())
def test_agrees_with_its_twin(loss, sample):
    assert loss.ours(sample).item() == pytest.approx(loss.twin(sample), rel=1e-9, abs=1e-9)


@every_loss
def test_several_runs_go_through_vmap(loss):
    together = random_sample(3)
    tensors = {name: getattr(together, name) for name in TENSORS}
    found = torch.vmap(lambda tensors: loss.ours(Sample(**tensors)))(tensors)
    assert found.shape == (3,)
    for run in range(3):
        sample = Sample(**{name: value[run] for name, value in tensors.items()})
        assert found[run].item() == pytest.approx(loss.twin(sample), rel=1e-9)


@pytest.mark.parametrize("name", ["variance", "locality"])
def test_each_run_may_have_its_own_hyperparameters(name):
    together = random_sample(3)
    run = torch.arange(3, dtype=torch.float64)
    values = {"gamma": 0.3 + 0.03 * run, "low": 0.2 * run, "high": 0.5 + 0.3 * run}
    tensors = {each: getattr(together, each) for each in TENSORS} | values
    found = torch.vmap(lambda tensors: LOSSES[name].ours(Sample(**tensors)))(tensors)
    for k in range(3):
        sample = Sample(**{each: value[k] for each, value in tensors.items()})
        assert found[k].item() == pytest.approx(LOSSES[name].twin(sample), rel=1e-9)


@every_loss
def test_gradients_are_those_of_finite_differences(loss):
    sample = random_sample()

    def of(probs: Tensor, logits: Tensor, decoded: Tensor) -> Tensor:
        return loss.ours(Sample(**{**vars(sample), "probs": probs, "logits": logits, "decoded": decoded}))

    leaves = [value.clone().requires_grad_() for value in (sample.probs, sample.logits, sample.decoded)]
    assert gradcheck(of, leaves)


@pytest.mark.parametrize("name", [*REGULARIZERS, "coskewness of triplets"])
@pytest.mark.parametrize("constant", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_bit_that_never_changes_has_a_finite_gradient(name, constant, dtype):
    sample = random_sample()
    probs = sample.probs.to(dtype)
    probs[:, 1] = constant
    probs.requires_grad_()
    LOSSES[name].ours(Sample(**{**vars(sample), "probs": probs, "bits": sample.bits.to(dtype)})).backward()
    assert probs.grad.isfinite().all()


@pytest.mark.parametrize("samples", [3, 20, 100, 256])
def test_equal_numbers_are_no_noise_though_their_mean_is_another_number(samples):
    probs = torch.rand(samples, 200, generator=torch.Generator().manual_seed(0))
    probs[:] = probs[0]
    assert not losses.standardize(probs).any()


def test_a_bit_that_is_no_number_is_seen_in_the_moments():
    probs = torch.rand(8, 3)
    probs[2, 1] = float("nan")
    assert losses.correlation(probs).isnan()


def test_a_bit_that_never_changes_counts_nothing_in_the_moments():
    probs = code([0, 0.1, 0.7], [1, 0.1, 0.2], [0, 0.1, 0.9])
    assert losses.standardize(probs)[:, 1].abs().max() < 1e-9
    others = losses.correlation(probs[:, [0, 2]])
    # Of the six ordered pairs, two are of bits that change.
    assert losses.correlation(probs).item() == pytest.approx(others.item() * 2 / 6)


@pytest.mark.parametrize("name", REGULARIZERS)
@given(sample=samples(), data=st.data())
def test_no_regularizer_depends_on_the_order_of_bits_or_samples(name, sample, data):
    count, bits = sample.probs.shape
    rows = data.draw(st.permutations(range(count)))
    columns = data.draw(st.permutations(range(bits)))
    shuffled = {key: getattr(sample, key)[rows][:, columns] for key in ("probs", "bits")}
    other = Sample(**{**vars(sample), **shuffled})
    assert LOSSES[name].ours(other).item() == pytest.approx(LOSSES[name].ours(sample).item(), rel=1e-9, abs=1e-9)


def test_prediction_by_hand():
    logits = code([math.log(3), math.log(3)])  # p = 0.75
    assert losses.prediction(logits, code([1, 0])).item() == pytest.approx((-math.log(0.75) - math.log(0.25)) / 2)
    assert losses.prediction(code([0.0, 0.0]), code([1, 0])).item() == pytest.approx(math.log(2))


def test_prediction_survives_certainty_in_single_precision():
    logits = torch.tensor([[200.0, -200.0]])
    assert losses.prediction(logits, torch.tensor([[1.0, 0.0]])) == 0
    assert losses.prediction(logits, torch.tensor([[0.0, 1.0]])) == 200


def test_variance_by_hand():
    # The first bit's deviation, sqrt(0.5), is enough; the second's, sqrt(ε) = 0.001, falls 0.399 short.
    assert losses.variance(code([0, 0.3], [1, 0.3]), 0.4).item() == pytest.approx((0 + 0.399) / 2)


def test_correlation_by_hand():
    assert losses.correlation(code([0, 0, 1], [1, 1, 0])).item() == pytest.approx(1, abs=1e-5)
    assert losses.correlation(code([0, 0], [0, 1], [1, 0], [1, 1])).item() == 0


def test_coskewness_sees_an_exclusive_or_that_correlation_misses():
    parity = code([0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0])
    assert losses.correlation(parity).item() == 0
    # Every sample's product is −(½ / σ)³, with σ = sqrt(1/3).
    assert losses.coskewness(parity).item() == pytest.approx((0.5 / math.sqrt(1 / 3)) ** 3, abs=1e-5)


def test_coskewness_of_independent_bits_is_near_its_noise_floor():
    samples = 256
    bits = torch.randint(2, (samples, 24), generator=torch.Generator().manual_seed(0)).double()
    assert losses.coskewness(bits).item() == pytest.approx(math.sqrt(2 / (math.pi * samples)), rel=0.1)


def test_coskewness_of_every_triplet_is_the_whole_coskewness():
    probs = random_sample(bits=5).probs
    every = [[i, j, k] for i in range(5) for j in range(5) for k in range(5) if len({i, j, k}) == 3]
    sampled = losses.coskewness(probs, torch.tensor(every))
    assert sampled.item() == pytest.approx(losses.coskewness(probs).item(), rel=1e-12)


def test_locality_by_hand():
    probs, next_bits = code([0.9, 0.1, 0.1, 0.1]), code([0, 0, 0, 0])
    # One flip of 0.9: d = 0.9 / (0.75 · 4) = 0.3. The window 2 to 3 of 4 bits begins at 0.5.
    assert losses.locality(probs, next_bits, 2, 3).item() == pytest.approx((0.5 - 0.3) ** 2)
    assert losses.locality(probs, next_bits, 1, 2).item() == 0


def test_locality_ignores_changes_of_at_most_a_half():
    assert losses.locality(code([0.5, 0.4, 0.0]), code([0, 0, 0]), 0, 0).item() == 0


@given(bits=st.integers(3, 12), data=st.data())
def test_locality_is_zero_inside_its_window_and_only_there(bits, data):
    flips = data.draw(st.integers(0, bits))
    probs, next_bits = torch.zeros(2, bits).double(), torch.zeros(2, bits).double()
    next_bits[:, :flips] = 1
    counted = flips / 0.75  # a flip of a whole bit counts as 1 / 0.75 of an average one
    assert losses.locality(probs, next_bits, max(0, counted - 0.5), counted + 0.5).item() == 0
    assert losses.locality(probs, next_bits, counted + 0.1, counted + 1).item() > 0
    assert losses.locality(probs, next_bits, counted - 1, counted - 0.1).item() > 0


def test_reconstruction_by_hand():
    images = torch.zeros(1, 1, 2, 2)
    assert losses.reconstruction(torch.tensor([[[[1.0, 0.0], [0.0, -3.0]]]]), images) == 2.5
    assert losses.reconstruction(code([1, 3]), code([0, 0])) == 5  # vectors (N, D)


def test_kl_by_hand():
    assert losses.kl(torch.full((2, 3), 0.5)) == 0
    for certain in (0.0, 1.0):
        assert losses.kl(torch.full((2, 3), certain)).item() == pytest.approx(math.log(2), abs=1e-5)
    assert losses.kl(code([0.25])).item() == pytest.approx(0.25 * math.log(0.5) + 0.75 * math.log(1.5))


def test_bit_error_by_hand():
    assert losses.bit_error(code([1, 0.5], [0, 0]), code([0, 0], [0, 0])).item() == pytest.approx(1.25 / 4)
