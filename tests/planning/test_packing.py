import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from dwmr.planning.packing import hamming, hash_codes, pack, unpack

bits = st.integers(1, 200)
seeds = st.integers(0, 2**32 - 1)


def codes(seed: int, count: int, width: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).random((count, width)) < 0.5)


def test_bit_k_is_bit_k_of_the_word():
    code = torch.zeros(1, 70, dtype=torch.bool)
    code[0, [0, 3, 63, 65]] = True
    assert pack(code).tolist() == [[1 + 8 - 2**63, 2]]


@given(seeds, st.integers(1, 20), bits)
def test_packing_loses_nothing(seed, count, width):
    some = codes(seed, count, width)
    words = pack(some)
    assert words.shape == (count, -(-width // 64))
    assert torch.equal(unpack(words, width), some)


@given(seeds, bits)
def test_distances_are_those_of_the_bits(seed, width):
    some, others = codes(seed, 9, width), codes(seed + 1, 9, width)
    assert torch.equal(hamming(pack(some), torch.tensor(0)), some.sum(1))
    assert torch.equal(hamming(pack(some), pack(others)), (some != others).sum(1))


def test_many_actions_are_packed_like_one():
    some = codes(0, 12, 100).view(3, 4, 100)
    assert torch.equal(pack(some)[1, 2], pack(some[1, 2:3])[0])


def test_neighbouring_codes_are_scattered():
    places = hash_codes(torch.arange(1 << 14)[:, None]) & (2**15 - 1)
    assert len(places.unique()) > 12_000  # 12,900 of 32,768 places would be hit at random
