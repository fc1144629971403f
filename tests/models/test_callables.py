"""Codes and actions of any kind."""

import numpy as np
import pytest
import torch

from dwmr import InputError
from dwmr.models.callables import agreement, as_bits, take
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
        predicted, actual = model.predict(model.encode(data.obs), data.actions), model.encode(data.next_obs)
        assert agreement(as_bits(predicted), as_bits(actual)) == {"exact_next": exact, "bits_next": bits}
        counts = model.count_right(model.encode(data.obs), torch.from_numpy(data.actions), actual)
        assert counts.tolist() == [exact * len(data) / 100, bits * actual.numel() / 100]
