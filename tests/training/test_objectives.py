"""Which terms a model family sums, and on which codes."""

import math

import pytest
import torch
from torch import Tensor

from dwmr.config import Hyper
from dwmr.errors import InputError
from dwmr.training import losses
from dwmr.training.objectives import OBJECTIVES, Codes, Objective
from tests import reference

HYPER = Hyper(pred=1.0, var=2.0, cor=3.0, cos=5.0, loc=7.0, rec=11.0, kl=13.0, gamma=0.4, low=0.0, high=1.0)


def some_codes(**other) -> Codes:
    generator = torch.Generator().manual_seed(0)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    values = {
        "images": uniform(6, 1, 2, 2),
        "probs": uniform(6, 4),
        "next_bits": (uniform(6, 4) > 0.5).double(),
        "predicted": uniform(6, 4) - 0.5,
        "decoded": uniform(6, 1, 2, 2),
        "next_images": uniform(6, 1, 2, 2),
        "next_probs": uniform(6, 4),
        "next_decoded": uniform(6, 1, 2, 2),
    }
    return Codes(**{**values, **other})


@pytest.mark.parametrize(
    ("name", "terms", "decoder", "noise", "scheme"),
    [
        ("ae", "pred rec", True, False, None),
        ("beta-vae", "pred rec kl", True, True, None),
        ("deepcubeai", "pred rec", True, False, "joint"),
        ("dwmr", "pred var cor cos loc", False, False, None),
        ("dwmr+ae", "pred var cor cos loc rec", True, False, None),
        ("dwmr+beta-vae", "pred var cor cos loc rec kl", True, True, None),
    ],
)
def test_the_families(name, terms, decoder, noise, scheme):
    family = OBJECTIVES[name]
    assert list(family.terms) == terms.split()
    assert (family.decoder, family.noise, family.scheme) == (decoder, noise, scheme)


def test_dwmr_is_the_papers_weighted_sum():
    codes = some_codes()
    probs, next_bits = codes.probs.tolist(), codes.next_bits.tolist()
    expected = {
        "pred": reference.prediction(codes.predicted.tolist(), next_bits),
        "var": reference.variance(probs, 0.4),
        "cor": reference.correlation(probs),
        "cos": reference.coskewness(probs),
        "loc": reference.locality(probs, next_bits, 0, 1),
    }
    total, terms = OBJECTIVES["dwmr"].evaluate(codes, HYPER)
    assert {name: term.item() for name, term in terms.items()} == pytest.approx(expected, rel=1e-9)
    weighted = sum(weight * expected[name] for name, weight in zip(expected, (1, 2, 3, 5, 7)))
    assert total.item() == pytest.approx(weighted, rel=1e-9)


def test_sampled_triplets_reach_the_coskewness():
    triplets = torch.tensor([[0, 1, 3], [2, 1, 0]])
    codes = some_codes(triplets=triplets)
    _, terms = OBJECTIVES["dwmr"].evaluate(codes, HYPER)
    assert terms["cos"].item() == pytest.approx(reference.coskewness(codes.probs.tolist(), triplets.tolist()))


def test_the_variational_terms():
    codes = some_codes()
    total, terms = OBJECTIVES["beta-vae"].evaluate(codes, HYPER)
    assert terms["rec"] == losses.reconstruction(codes.decoded, codes.images)
    assert terms["kl"] == losses.kl(codes.probs)
    assert total.item() == pytest.approx((terms["pred"] + 11 * terms["rec"] + 13 * terms["kl"]).item())


def test_deepcubeai_by_hand():
    """Two bits: the encoder says 1 1, the predictor 0.75 0.25 and so 1 0."""
    codes = some_codes(
        next_probs=torch.tensor([[0.9, 0.6]]),
        predicted=torch.tensor([[math.log(3), -math.log(3)]]),
    )
    _, terms = OBJECTIVES["deepcubeai"].evaluate(codes, HYPER)
    to_prediction = (0 + 1) / 2  # bits 1 1 against 1 0
    to_encoding = (0.25**2 + 0.75**2) / 2  # 0.75 0.25 against 1 1
    assert terms["pred"].item() == pytest.approx((to_prediction + to_encoding) / 2)
    now = losses.reconstruction(codes.decoded, codes.images)
    then = losses.reconstruction(codes.next_decoded, codes.next_images)
    assert terms["rec"].item() == pytest.approx(((now + then) / 2).item())


def test_deepcubeai_is_zero_where_encoder_and_predictor_agree_for_sure():
    codes = some_codes(next_probs=torch.tensor([[0.9, 0.1]]), predicted=torch.tensor([[50.0, -50.0]]))
    assert OBJECTIVES["deepcubeai"].evaluate(codes, HYPER)[1]["pred"].item() == pytest.approx(0, abs=1e-12)


def test_a_term_of_ones_own():
    mine = OBJECTIVES["dwmr"].adding("few_ones", lambda codes, hyper: codes.probs.mean((-2, -1)), weight=0.5)
    codes = some_codes()
    total, terms = mine.evaluate(codes, HYPER)
    usual, _ = OBJECTIVES["dwmr"].evaluate(codes, HYPER)
    assert list(terms)[-1] == "few_ones"
    assert total.item() == pytest.approx(usual.item() + 0.5 * codes.probs.mean().item())
    assert "few_ones" not in OBJECTIVES["dwmr"].terms


def test_terms_and_weights_must_match():
    with pytest.raises(InputError, match="no weight for the loss terms mine"):
        Objective({"mine": lambda codes, hyper: codes.probs.sum()})
    with pytest.raises(InputError, match="weights for terms that do not exist: other"):
        Objective({"mine": lambda codes, hyper: codes.probs.sum()}, weights={"mine": 1.0, "other": 2.0})
    with pytest.raises(InputError, match="there is a loss term 'var' already"):
        OBJECTIVES["dwmr"].adding("var", lambda codes, hyper: codes.probs.sum(), weight=1.0)


@pytest.mark.parametrize(("name", "missing"), [("ae", "decoded"), ("deepcubeai", "next_probs")])
def test_what_a_family_needs_is_named(name, missing):
    with pytest.raises(InputError, match="needs a decoder; that of DeepCubeAI also needs"):
        OBJECTIVES[name].evaluate(some_codes(**{missing: None}), HYPER)


def test_a_term_can_be_left_out_with_its_weight():
    mine = OBJECTIVES["dwmr"].adding("ones", lambda codes, hyper: codes.probs.mean(), weight=0.1)
    assert mine.without("ones") == OBJECTIVES["dwmr"]
    assert list(mine.without("cos").terms) == ["pred", "var", "cor", "loc", "ones"]


@pytest.mark.parametrize(
    ("term", "got"),
    [(lambda codes, hyper: codes.probs, r"a tensor of shape \(2, 3\)"), (lambda codes, hyper: 0.5, "float")],
)
def test_a_term_that_is_no_scalar_is_named(term, got):
    probs = torch.rand(2, 3)
    codes = Codes(images=probs, probs=probs, next_bits=probs.round(), predicted=probs)
    mine = Objective({"mine": term}, weights={"mine": 1.0})
    with pytest.raises(InputError, match=rf"the loss term 'mine' must return a scalar tensor, got {got}"):
        mine.evaluate(codes, HYPER)
