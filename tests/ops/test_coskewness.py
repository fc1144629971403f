"""The coskewness by its symmetry equals the plain one, values and gradients."""

from __future__ import annotations

import pytest
import torch

from dwmr.ops.coskewness import coskewness
from dwmr.training import losses


@pytest.mark.parametrize("shape", [(2, 3), (64, 17), (5, 40), (3, 20, 9), (2, 2, 8, 5)])
def test_it_equals_the_plain_term_and_its_gradient(shape):
    probs = torch.rand(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True)
    plain, fast = losses.coskewness(probs), coskewness(probs)
    torch.testing.assert_close(fast, plain, rtol=1e-12, atol=1e-14)
    upstream = torch.linspace(0.5, 2, plain.numel(), dtype=torch.float64).view_as(plain)
    (of_plain,) = torch.autograd.grad(plain, probs, upstream)
    (of_fast,) = torch.autograd.grad(fast, probs, upstream)
    torch.testing.assert_close(of_fast, of_plain, rtol=1e-9, atol=1e-12)


def test_a_constant_bit_is_no_trouble():
    probs = torch.rand(16, 6, dtype=torch.float64)
    probs[:, 2] = 1.0
    probs.requires_grad_()
    value = coskewness(probs)
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(probs.grad).all()
    assert (probs.grad[:, 2] == 0).all()


def test_without_gradient_none_is_computed():
    probs = torch.rand(16, 6)
    torch.testing.assert_close(coskewness(probs), losses.coskewness(probs))
