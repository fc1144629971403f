"""Terms of one's own that were tried: what each of them measures."""

import importlib.util
from pathlib import Path

import pytest
import torch

from dwmr.config import Config, Hyper
from dwmr.training.objectives import Codes, objective_of

FILE = Path(__file__).parents[2] / "experiments" / "techniques.py"
spec = importlib.util.spec_from_file_location("techniques", FILE)
techniques = importlib.util.module_from_spec(spec)
spec.loader.exec_module(techniques)

STRONG = Config().replace(cross=True)


def codes_of(seed, samples=32, bits=6, actions=3):
    generator = torch.Generator().manual_seed(seed)
    probs, next_probs, predicted = torch.rand(3, samples, bits, generator=generator)
    chosen = torch.randint(actions, (samples,), generator=generator)
    return Codes(
        images=torch.zeros(samples, 1),
        probs=probs,
        next_bits=(next_probs > 0.5).float(),
        predicted=predicted - 0.5,
        next_probs=next_probs,
        actions=torch.nn.functional.one_hot(chosen, actions).float(),
    )


def test_a_queue_takes_the_moments_of_several_minibatches():
    plain, queued = objective_of(STRONG), techniques.objective_with("queue", STRONG)
    batches = [codes_of(seed) for seed in range(6)]
    for codes in batches:
        found = {name: term(codes, Hyper()) for name, term in queued.terms.items()}
    whole = Codes(
        **{
            name: torch.cat([getattr(codes, name) for codes in reversed(batches[-4:])])
            for name in ("images", "probs", "next_bits", "predicted", "next_probs", "actions")
        }
    )
    for name in ("var", "cor", "cross_var", "cross_cor", "agree"):
        assert found[name].item() == pytest.approx(plain.terms[name](whole, Hyper()).item(), rel=1e-5), name
    assert found["pred"].item() == pytest.approx(plain.terms["pred"](batches[-1], Hyper()).item())


def test_what_is_past_lends_no_gradient():
    term = techniques.objective_with("queue", STRONG).terms["var"]
    first, second = codes_of(0), codes_of(1)
    first.probs.requires_grad_()
    second.probs.requires_grad_()
    term(first, Hyper(gamma=0.5))
    term(second, Hyper(gamma=0.5)).backward()
    assert first.probs.grad is None
    assert second.probs.grad.abs().sum() > 0


def test_codes_that_show_the_action_are_told_apart():
    torch.manual_seed(0)
    blind, telling = techniques.Inverse(), techniques.Inverse()
    for seed in range(400):
        codes = codes_of(seed, bits=3)
        guessed = blind(codes, Hyper())
        shown = Codes(**{**vars(codes), "next_probs": codes.actions})
        told = telling(shown, Hyper())
    assert told.item() < 0.2 < 0.9 < guessed.item()


def test_temporal_variance_asks_for_change():
    codes = codes_of(0)
    still = Codes(**{**vars(codes), "next_probs": codes.probs})
    flipped = Codes(**{**vars(codes), "next_probs": 1 - codes.probs.round(), "probs": codes.probs.round()})
    assert techniques.temporal_variance(still, Hyper()).item() == pytest.approx(0.2, abs=0.002)
    assert techniques.temporal_variance(flipped, Hyper()).item() == 0
