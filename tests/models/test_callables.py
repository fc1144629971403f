"""Codes and actions of any kind."""

import numpy as np
import pytest
import torch

from dwmr import InputError
from dwmr.models.callables import as_bits, next_code_agreement, take
from tests.evaluation.ring import Stay, ring_model, ring_transitions


def test_rows_of_tensors_stay_tensors():
    assert isinstance(take(torch.arange(4), np.array([2, 0])), torch.Tensor)
    assert take([5, 6, 7], np.array([2, 0])).tolist() == [7, 5]


def test_invalid_codes_are_refused():
    with pytest.raises(InputError, match="numbers 0 and 1"):
        as_bits(np.array([[0.5]]))
    with pytest.raises(InputError, match=r"shape \(N, K\)"):
        as_bits(np.array([True]))


def test_a_perfect_model_agrees_always_and_one_that_never_moves_in_half_the_bits():
    data = ring_transitions()
    for model, exact, bits in ((ring_model(), 100, 100), (ring_model(Stay()), 0, 50)):
        found = next_code_agreement(model.encode, model.predict, data.obs, data.actions, data.next_obs)
        assert found == {"exact_next": exact, "bits_next": bits}
