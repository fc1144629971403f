"""The variance of a bit, split into state and rendering."""

import numpy as np
import pytest

from dwmr import InputError
from dwmr.evaluation.variance import same_state_codes, variance_parts


def test_by_hand():
    # Bit 0 follows the state, bit 1 the drawing alone, bit 2 never changes.
    one = np.array([[0, 0, 1], [0, 1, 1], [1, 0, 1], [1, 1, 1]], bool)
    other = np.array([[0, 1, 1], [0, 0, 1], [1, 0, 1], [1, 1, 1]], bool)
    parts = variance_parts(one, other)
    assert parts.total.tolist() == [0.25, 0.25, 0]
    assert parts.state.tolist() == [0.25, 0, 0]
    assert parts.rendering.tolist() == [0, 0.25, 0]
    assert parts.state_share[:2].tolist() == [100, 0]
    assert np.isnan(parts.state_share[2])


@pytest.mark.parametrize("wrong", [0.0, 0.05, 0.2, 0.5])
def test_misread_bits_against_theory(wrong):
    """A fair bit of the state that each frame flips with probability e has covariance (1 − 2e)² / 4."""
    random = np.random.default_rng(0)
    state = random.random((200_000, 1)) < 0.5
    codes = [state ^ (random.random(state.shape) < wrong) for _ in range(2)]
    parts = variance_parts(*codes)
    assert parts.state_share[0] == pytest.approx(100 * (1 - 2 * wrong) ** 2, abs=0.8)
    assert parts.state + parts.rendering == pytest.approx(parts.total)


def test_pairs_are_inside_an_episode():
    codes, after = np.arange(4)[:, None], 10 + np.arange(4)[:, None]
    one, other = same_state_codes(codes, after, np.array([0, 0, 1, 1]))
    assert one.tolist() == [[10], [12]]
    assert other.tolist() == [[1], [3]]
    assert [part.shape for part in same_state_codes(codes, after, None)] == [(0, 1), (0, 1)]


@pytest.mark.parametrize("shapes", [((2, 3), (3, 3)), ((0, 3), (0, 3)), ((3,), (3,))])
def test_codes_that_do_not_match_are_refused(shapes):
    with pytest.raises(InputError, match="both codes"):
        variance_parts(*(np.zeros(shape) for shape in shapes))
