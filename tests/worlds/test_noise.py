import hashlib

import numpy as np
import pytest

from dwmr.seeding import rng, words
from dwmr.worlds import noise
from dwmr.worlds.noise import add_noise, quantiles


def test_the_noise_is_normal():
    table = quantiles(0.5).astype(float)
    assert table.mean() == 0
    assert table.std() == pytest.approx(127.5, rel=1e-3)
    within = [(np.abs(table) < 127.5 * k).mean() for k in (1, 2, 3)]
    assert within == pytest.approx([0.6827, 0.9545, 0.9973], abs=0.003)


def test_noisy_grey_has_the_noise_s_spread():
    noisy = add_noise(np.full((200, 200), 128, np.uint8), rng(0), std=0.1).astype(float)
    assert noisy.mean() == pytest.approx(128, abs=0.6)
    assert noisy.std() == pytest.approx(25.5, rel=0.02)


def test_black_and_white_are_clipped_on_one_side():
    black = add_noise(np.zeros(40_000, np.uint8), rng(0))
    white = add_noise(np.full(40_000, 255, np.uint8), rng(0))
    assert (black == 0).mean() == pytest.approx(0.5, abs=0.02)
    assert (white == 255).mean() == pytest.approx(0.5, abs=0.02)
    assert (black == 255).mean() == pytest.approx(0.0228, abs=0.005)  # two standard deviations


def test_pixel_i_takes_sixteen_bits_of_word_i_over_four():
    image = np.arange(10, dtype=np.uint8).reshape(1, 2, 5)
    raw = [int(word) for word in words(rng(3), 3)]
    indices = [raw[i // 4] >> 16 * (i % 4) & 0xFFFF for i in range(10)]
    expected = [min(max(i + int(quantiles(0.5)[index]), 0), 255) for i, index in enumerate(indices)]
    assert add_noise(image, rng(3)).tolist() == [[expected[:5], expected[5:]]]


def test_the_result_does_not_depend_on_the_chunks(monkeypatch):
    image = np.full(1003, 100, np.uint8)
    whole = add_noise(image, rng(0))
    monkeypatch.setattr(noise, "_CHUNK", 16)
    assert np.array_equal(add_noise(image, rng(0)), whole)


def test_the_noise_is_the_same_everywhere():
    noisy = add_noise(np.full(100_000, 100, np.uint8), rng(0, "noise"))
    assert hashlib.sha256(noisy.tobytes()).hexdigest()[:16] == "8e42e55e111bd294"


def test_no_noise_leaves_the_image_alone():
    image = np.arange(256, dtype=np.uint8).reshape(16, 16)
    noisy = add_noise(image, rng(0), std=0.0)
    assert np.array_equal(noisy, image)
    assert not np.shares_memory(noisy, image)


def test_wrong_input_is_refused():
    with pytest.raises(ValueError, match="uint8, got float64"):
        add_noise(np.zeros(3), rng(0))
    for std in (-0.1, 11.0, float("nan")):
        with pytest.raises(ValueError, match="between 0 and 10"):
            add_noise(np.zeros(3, np.uint8), rng(0), std)
