"""Which trials continue: examples by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dwmr.tuning.halving import chosen, confirmed, ranked, rungs, survivors


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [(40, [8, 20, 40]), (20, [4, 10, 20]), (6, [2, 3, 6]), (4, [1, 2, 4]), (2, [1, 2]), (1, [1])],
)
def test_trials_are_compared_at_a_fifth_a_half_and_the_end(epochs, expected):
    assert rungs(epochs) == expected


@given(st.integers(1, 500))
def test_rungs_rise_to_the_last_epoch(epochs):
    found = rungs(epochs)
    assert found == sorted(set(found))
    assert found[0] >= 1
    assert found[-1] == epochs


def test_the_best_come_first_and_of_equal_ones_the_earlier():
    assert ranked({3: 50.0, 1: 70.0, 2: 50.0, 7: None}) == [1, 2, 3]


def test_64_trials_become_21_become_7():
    scores = {number: float(number) for number in range(64)}
    second = survivors(scores)
    assert second == list(range(63, 42, -1))
    assert survivors({number: scores[number] for number in second}) == [63, 62, 61, 60, 59, 58, 57]


def test_no_fewer_go_on_than_are_confirmed_and_none_that_diverged():
    assert survivors({0: 1.0, 1: 5.0, 2: 3.0, 3: None, 4: 2.0, 5: 4.0}) == [1, 5, 2, 4]
    assert survivors({0: None, 1: 5.0}) == [1]
    assert survivors({0: None}) == []


def test_the_start_values_are_confirmed_beside_the_best():
    last = {4: 9.0, 5: 8.0, 6: 7.0, 7: 6.0, 8: 5.0}
    assert confirmed(last, start=0) == [4, 5, 6, 7, 0]
    assert confirmed(last, start=6) == [4, 5, 6, 7]
    assert confirmed(last, start=None) == [4, 5, 6, 7]


def test_the_highest_mean_wins_and_a_seed_that_diverged_counts_as_0():
    assert chosen({4: [80.0, 80.0, 80.0], 5: [99.0, 99.0, None], 0: [70.0, 70.0, 70.0]}) == 4
    assert chosen({}) is None
