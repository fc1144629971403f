"""From probabilities to bits."""

import torch

from dwmr.nets.bits import binary_concrete, straight_through, threshold


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
    logits, noise = torch.tensor([1.0, -2.0]), torch.tensor([0.5, 2.0])
    assert torch.allclose(binary_concrete(logits, noise, 0.5), torch.sigmoid(torch.tensor([3.0, 0.0])))
