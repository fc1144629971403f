"""Named streams of one seed; numbers that must never change, because stored data is made from them."""

import numpy as np

from dwmr.seeding import below, rng, shuffled, words


def test_a_stream_is_a_function_of_its_names():
    assert np.array_equal(words(rng(0, "order", 3), 5), words(rng(0, "order", 3), 5))


def test_streams_differ_by_seed_name_and_number():
    streams = [rng(0, "order", 3), rng(1, "order", 3), rng(0, "noise", 3), rng(0, "order", 4)]
    assert len({int(words(stream, 1)[0]) for stream in streams}) == 4


def test_these_numbers_are_the_same_everywhere():
    assert words(rng(0, "order", 0), 2).tolist() == [17920072776335290141, 3028551703848688942]
    assert below(rng(0, "order", 0), 10, 6).tolist() == [9, 1, 7, 8, 5, 5]


def test_below_is_uniform_and_takes_a_limit_for_each():
    draws = below(rng(0, "x"), 4, (4000,))
    assert (np.abs(np.bincount(draws, minlength=4) - 1000) < 120).all()
    limits = np.tile([1, 2, 3], 100)
    each = below(rng(0, "x"), limits, 300)
    assert (each < limits).all()
    assert [set(each[start::3]) for start in range(3)] == [{0}, {0, 1}, {0, 1, 2}]


def test_shuffled_is_an_order():
    order = shuffled(rng(0, "x"), 100)
    assert sorted(order) == list(range(100))
    assert list(order) != list(range(100))
