"""From probabilities to bits."""

import torch

from dwmr.models.bits import binary_concrete, straight_through, threshold


def test_a_half_is_a_one():
    assert threshold(torch.tensor([0.0, 0.4999, 0.5, 1.0])).tolist() == [0, 0, 1, 1]


def test_straight_through_gives_exact_bits_and_the_gradient_of_the_probabilities():
    probs = torch.rand(1000, generator=torch.Generator().manual_seed(0)).requires_grad_()
    bits = straight_through(probs)
    assert torch.equal(bits, (probs >= 0.5).float())
    slopes = torch.arange(1000.0)
    (bits * slopes).sum().backward()
    assert torch.equal(probs.grad, slopes)


def test_binary_concrete_by_hand():
    logits = torch.tensor([1.0, -2.0, 0.0])
    uniform = torch.sigmoid(torch.tensor([0.5, 2.0, -1.0]))  # logistic noise of 0.5, 2 and −1
    expected = torch.sigmoid(torch.tensor([1.5, 0.0, -1.0]))
    assert torch.allclose(binary_concrete(logits, uniform), expected)
    doubled = torch.sigmoid(torch.tensor([2.0, 2.0, -2.0]) / 0.5)
    assert torch.allclose(binary_concrete(logits, uniform, 2.0, 0.5), doubled)


def test_samples_of_a_relaxed_bit_are_ones_as_often_as_the_bit():
    uniform = torch.rand(20_000, generator=torch.Generator().manual_seed(0))
    samples = binary_concrete(torch.logit(torch.tensor(0.3)), uniform)
    assert abs((samples >= 0.5).float().mean().item() - 0.3) < 0.01
