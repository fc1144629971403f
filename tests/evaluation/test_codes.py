"""The health of codes, checked against counts by hand."""

import numpy as np
import pytest
import torch

from dwmr import InputError, Transitions, certify
from dwmr.evaluation.codes import KnownCodes, code_health, confusions, row_hashes, shared_dimensions, state_shares
from tests.evaluation.ring import ring_model, ring_transitions


def bits(*rows: str) -> np.ndarray:
    """ "010" as a row of Booleans."""
    return np.array([[c == "1" for c in row] for row in rows])


def health(codes: np.ndarray, next_codes: np.ndarray | None = None, predicted=None, episode=None) -> dict:
    next_codes = codes if next_codes is None else next_codes
    return code_health(codes, next_codes, next_codes if predicted is None else predicted, episode)


def test_dead_duplicate_and_complement():
    #                     dead bits: 0 and 3; bit 2 repeats bit 1; bit 4 is its complement; bit 5 is new
    figures = health(bits("000110", "011101", "000111"))
    assert figures["bits"] == 6
    assert figures["dead"] == 2
    assert figures["duplicate"] == 2


def test_a_bit_that_changes_in_the_next_frames_alone_is_alive():
    assert health(bits("00", "00"), bits("01", "00"))["dead"] == 1


def test_a_code_of_dead_bits_alone():
    figures = health(bits("0101", "0101"))
    assert (figures["dead"], figures["duplicate"], figures["flips_mean"]) == (4, 0, 0)


def test_flips_and_agreement():
    codes, next_codes = bits("0000", "0011"), bits("0001", "1100")
    figures = health(codes, next_codes, predicted=bits("0001", "1111"))
    assert figures["flips_mean"] == (1 + 4) / 2
    assert figures["exact_next"] == figures["exact_changed"] == 50
    assert figures["bits_next"] == 75


def test_exact_changed_ignores_codes_that_do_not_change():
    still, moving = bits("00", "01", "10", "11"), bits("00", "01", "10", "10")
    assert health(still, moving, predicted=still)["exact_next"] == 75
    assert health(still, moving, predicted=still)["exact_changed"] == 0
    assert health(still)["exact_changed"] is None


def test_state_share_is_taken_over_the_live_bits():
    # Four pairs next_obs[t], obs[t + 1]: the first bit depends on the rendering, the second on the state.
    codes = bits("000", "000", "110", "100", "010")
    next_codes = bits("000", "010", "100", "110", "000")
    figures = health(codes, next_codes, episode=np.zeros(5, int))
    assert (figures["state_share"], figures["state_share_min"]) == (50, 0)
    alone = health(bits("00", "00"), episode=np.zeros(2, int))
    assert (alone["state_share"], alone["state_share_min"], alone["same_code"]) == (None, None, 100)


def test_same_code_compares_frames_of_one_state_within_an_episode():
    codes, next_codes = bits("00", "01", "11", "10"), bits("01", "10", "00", "11")
    # Pairs next_obs[t], obs[t+1] of one episode: 01 = 01, and 00 ≠ 10 in one bit. 10, 11 is across the border.
    figures = health(codes, next_codes, episode=np.array([0, 0, 1, 1]))
    assert figures["same_code"] == 50
    assert figures["same_bits"] == 75
    assert health(codes, next_codes)["same_code"] is None
    alone = health(codes, next_codes, episode=np.arange(4))
    assert alone["same_code"] is None
    assert alone["same_bits"] is None


def test_state_shares_by_hand():
    # Bit 0 depends on the state alone, bit 1 on the rendering alone, bit 2 never changes.
    shares = state_shares(bits("001", "011", "101", "111"), bits("011", "001", "101", "111"))
    assert shares[:2].tolist() == [100, 0]
    assert np.isnan(shares[2])


@pytest.mark.parametrize("wrong", [0.0, 0.05, 0.2, 0.5])
def test_state_shares_of_misread_bits_against_theory(wrong):
    """A fair bit of the state that each frame flips with probability e has covariance (1 − 2e)² / 4."""
    random = np.random.default_rng(0)
    state = random.random((200_000, 1)) < 0.5
    shares = state_shares(*(state ^ (random.random(state.shape) < wrong) for _ in range(2)))
    assert shares[0] == pytest.approx(100 * (1 - 2 * wrong) ** 2, abs=0.8)


def test_collisions_and_splits():
    codes = bits("00", "00", "01", "10", "11")
    states = np.array([[0, 0], [0, 1], [1, 0], [1, 0], [1, 1]])
    # Code 00 stands for two states (two frames of five); state 10 has two codes (two frames of five).
    assert confusions(codes, states) == {"collisions": 40, "splits": 40}
    assert confusions(codes, np.arange(5)[:, None]) == {"collisions": 40, "splits": 0}
    assert confusions(bits("0", "0"), np.array([[3], [3]])) == {"collisions": 0, "splits": 0}


def test_codes_longer_than_a_byte():
    codes = np.zeros((20, 40), bool)
    codes[np.arange(20), np.arange(20) * 2] = True
    assert confusions(codes, np.arange(20).reshape(20, 1, 1)) == {"collisions": 0, "splits": 0}


def test_certify_takes_plain_numpy_functions():
    data = ring_transitions(labels=False)

    def encode(images: np.ndarray) -> np.ndarray:
        return images.reshape(len(images), 4) > 0

    def predict(codes: np.ndarray, actions: np.ndarray) -> np.ndarray:
        return np.where(actions[:, None] == 0, np.roll(codes, 1, axis=1), np.roll(codes, -1, axis=1))

    health = {
        "bits": 4,
        "dead": 0,
        "duplicate": 0,
        "flips_mean": 2,
        "exact_next": 100,
        "bits_next": 100,
        "exact_changed": 100,
        "same_code": 100,
        "same_bits": 100,
        "state_share": pytest.approx(100),
        "state_share_min": pytest.approx(100),
    }
    found = certify(encode, predict, data)
    assert {name: found[name] for name in health} == health
    lazy = certify(encode, lambda codes, actions: codes, data)
    assert (lazy["exact_next"], lazy["bits_next"]) == (0, 50)


@pytest.mark.parametrize("kind", [np.uint8, np.float32, torch.tensor])
def test_certify_takes_zeros_and_ones_of_any_kind(kind):
    data = ring_transitions()
    make = kind if kind is torch.tensor else lambda values: np.asarray(values, dtype=kind)
    figures = certify(lambda images: make(images.reshape(-1, 4) // 255), lambda codes, actions: codes, data)
    assert figures["bits_next"] == 50


@pytest.mark.parametrize(
    ("encode", "predict", "message"),
    [
        (lambda x: np.full((len(x), 4), 0.5), lambda b, a: b, "codes must be Boolean, or numbers 0 and 1"),
        (lambda x: x > 0, lambda b, a: b, r"codes must have the shape \(N, K\), got \(320, 1, 1, 4\)"),
        (lambda x: x[:-1, 0, 0] > 0, None, r"\(N, K\) with N = 320, got \(319, 4\) and \(319, 4\)"),
        (lambda x: x[:, 0, 0] > 0, lambda b, a: b[:, :2], r"its input, \(320, 4\), got \(320, 2\)"),
    ],
)
def test_certify_refuses_invalid_codes(encode, predict, message):
    with pytest.raises(InputError, match=message):
        certify(encode, predict, ring_transitions(episodes=8))


def test_a_model_can_be_certified_as_it_is():
    data: Transitions = ring_transitions()
    model = ring_model()
    assert certify(model.encode, model.predict, data)["exact_next"] == 100


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


def test_a_code_is_unique_if_no_known_frame_of_another_state_has_it() -> None:
    codes = np.array([[0, 0], [0, 1], [0, 1], [1, 1]], bool)
    known = KnownCodes(codes, row_hashes(np.array([[5], [6], [7], [8]])))
    asked = np.array([[0, 0], [0, 0], [0, 1], [1, 0]], bool)
    assert known.unique(asked, row_hashes(np.array([[5], [6], [6], [9]]))).tolist() == [True, False, False, True]
