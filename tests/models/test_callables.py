"""Exploring a model from a code."""

import numpy as np
import pytest
import torch

from dwmr import InputError
from dwmr.models.callables import as_bits, explore, take


def count_up(codes, actions):
    """Three bits as a number; action 0 adds one up to six, action 1 goes back to zero."""
    value = (np.asarray(codes) * [1, 2, 4]).sum(1)
    after = np.where(actions == 0, np.minimum(value + 1, 6), 0)
    return (after[:, None] >> np.arange(3)) % 2 == 1


def test_everything_that_can_be_reached():
    starts = np.array([[0, 0, 0], [1, 0, 1]], bool)
    low, high = explore(count_up, starts, 2, np.array([100, 100]))
    assert low.complete
    assert (low.codes * [1, 2, 4]).sum(1).tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert low.table.tolist() == [[1, 0], [2, 0], [3, 0], [4, 0], [5, 0], [6, 0], [6, 0]]
    assert (high.codes * [1, 2, 4]).sum(1).tolist() == [5, 6, 0, 1, 2, 3, 4]


def test_a_limit_leaves_edges_open():
    (found,) = explore(count_up, np.zeros((1, 3), bool), 2, np.array([3]))
    assert len(found.codes) == 3
    assert found.table.tolist() == [[1, 0], [2, 0], [-1, 0]]
    assert not found.complete


def test_tensors_stay_tensors():
    def step(codes, actions):
        assert isinstance(codes, torch.Tensor)
        return torch.from_numpy(count_up(codes.numpy(), actions))

    (found,) = explore(step, torch.zeros(1, 3, dtype=torch.bool), 2, np.array([100]))
    assert len(found.codes) == 7
    assert isinstance(take(torch.arange(4), np.array([2, 0])), torch.Tensor)
    assert take([5, 6, 7], np.array([2, 0])).tolist() == [7, 5]


def test_what_is_no_code_is_refused():
    with pytest.raises(InputError, match="numbers 0 and 1"):
        as_bits(np.array([[0.5]]))
    with pytest.raises(InputError, match=r"shape \(N, K\)"):
        as_bits(np.array([True]))
