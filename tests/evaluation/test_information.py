"""Information in codes, where the answer is known."""

import numpy as np
import pytest
import torch

from dwmr.evaluation.codes import information, shared_dimensions


def all_codes(bits: int) -> np.ndarray:
    return (np.arange(2**bits)[:, None] >> np.arange(bits)) % 2 == 1


def test_independent_fair_bits_carry_one_bit_each():
    assert information(all_codes(4)) == {
        "frames": 16,
        "distinct": 16,
        "code_entropy": 4,
        "bit_entropy": 4,
        "participation": pytest.approx(4),
        "rank": 4,
    }


def test_repeated_bits_count_once():
    one = all_codes(1).repeat(8, axis=0)
    found = information(np.concatenate([one, one, ~one], axis=1))
    assert (found["distinct"], found["code_entropy"], found["bit_entropy"], found["rank"]) == (2, 1, 3, 1)
    assert found["participation"] == pytest.approx(1)


def test_a_dead_code_carries_nothing():
    found = information(np.ones((5, 3), bool))
    assert (found["distinct"], found["code_entropy"], found["bit_entropy"]) == (1, 0, 0)
    assert (found["participation"], found["rank"]) == (0, 0)


def test_a_rare_bit_carries_less():
    codes = np.zeros((4, 1), bool)
    codes[0] = True
    assert information(codes)["bit_entropy"] == pytest.approx(0.811278, abs=1e-6)  # h(1/4)


def test_an_exclusive_or_adds_to_the_covariance_but_not_to_the_entropy_of_the_codes():
    codes = all_codes(2)
    found = information(np.concatenate([codes, codes[:, :1] ^ codes[:, 1:]], axis=1))
    assert (found["rank"], found["bit_entropy"], found["code_entropy"]) == (3, 3, 2)


def test_shared_dimensions_count_bits_that_are_predictable_and_informative():
    generator = torch.Generator().manual_seed(0)
    bits = torch.rand(4000, 6, generator=generator) > 0.5
    assert shared_dimensions(bits, bits) == pytest.approx(6)
    repeated = torch.cat([bits, bits[:, :2], ~bits[:, :1], torch.ones(4000, 3, dtype=torch.bool)], 1)
    assert shared_dimensions(repeated, repeated) == pytest.approx(6)
    drawn = torch.rand(4000, 6, generator=generator) > 0.5
    assert shared_dimensions(bits, drawn) == pytest.approx(0, abs=0.05)
    half = torch.cat([bits[:, :3], drawn[:, 3:]], 1)
    assert shared_dimensions(half, bits) == pytest.approx(3, abs=0.05)
    wrong = bits ^ (torch.rand(4000, 6, generator=generator) < 0.1)  # ρ = 0.8
    assert shared_dimensions(wrong, bits) == pytest.approx(6 * 0.64, abs=0.15)
    assert shared_dimensions(torch.ones_like(bits), bits) == 0
