from dataclasses import replace

import numpy as np
import pytest

from dwmr import Transitions
from dwmr.models.verdict import EXACT, FAILED, READABLE, judge, lower_bound


def ring(count: int = 1000, size: int = 16, *, noise: bool = False) -> Transitions:
    """A bright pixel on a ring, moved forth or back by two actions, in episodes of 20 steps."""
    generator = np.random.default_rng(0)
    actions = generator.integers(0, 2, count)
    place = np.zeros(count + 1, int)
    for step, action in enumerate(actions):
        place[step + 1] = (place[step] + (1 if action else -1)) % size
    frames = np.zeros((count + 1, 1, 16, 16), np.uint8)
    frames[np.arange(count + 1), 0, 3, place] = 255
    now, then = frames[:-1], frames[1:]
    if noise:
        now, then = (np.maximum(part, generator.integers(0, 90, part.shape, dtype=np.uint8)) for part in (now, then))
    return Transitions(now, actions, then, n_actions=2, episode=np.arange(count) // 20)


def encode(images: np.ndarray) -> np.ndarray:
    return np.asarray(images)[:, 0, 3] > 100


def predict(bits: np.ndarray, actions: np.ndarray) -> np.ndarray:
    return np.where(np.asarray(actions)[:, None] == 1, np.roll(bits, 1, axis=1), np.roll(bits, -1, axis=1))


def test_the_true_model_is_exact() -> None:
    verdict = judge(encode, predict, ring())
    assert verdict.word == EXACT
    assert verdict.figures["exact_next"] == 100
    assert verdict.figures["collisions"] == 0
    assert str(verdict).startswith("exact: 100.00% of the next codes are predicted exactly, and 0.00%")


def test_merged_states_are_not_exact() -> None:
    """Opposite places share a code, which is still predicted exactly."""

    def half(images: np.ndarray) -> np.ndarray:
        bits = encode(images)
        return bits[:, :8] | bits[:, 8:]

    verdict = judge(half, predict, ring())
    assert verdict.figures["exact_next"] == 100
    assert verdict.figures["collisions"] > 90
    assert verdict.word == FAILED


def test_a_constant_code_failed() -> None:
    verdict = judge(lambda images: np.zeros((len(images), 16), bool), predict, ring())
    assert verdict.word == FAILED
    assert "never changes" in verdict.reason


def test_shuffled_actions_failed() -> None:
    verdict = judge(encode, lambda bits, actions: predict(bits, np.random.default_rng(1).permutation(actions)), ring())
    assert verdict.word != EXACT


def test_a_few_errors_are_readable() -> None:
    verdict = judge(
        encode, lambda bits, actions: predict(bits, actions) ^ (np.arange(len(bits)) % 20 == 0)[:, None], ring()
    )
    assert verdict.word == READABLE
    assert verdict.figures["exact_next"] == pytest.approx(95)


def test_few_transitions_are_no_proof() -> None:
    verdict = judge(encode, predict, ring(100))
    assert verdict.word == READABLE
    assert "too few" in verdict.reason


def test_collisions_are_unknown_where_frames_of_a_state_differ() -> None:
    verdict = judge(encode, predict, ring(noise=True))
    assert verdict.figures["collisions"] is None
    assert verdict.word == READABLE


@pytest.mark.parametrize("episode", [None, np.arange(1000)])
def test_collisions_are_unknown_without_two_frames_of_a_state(episode: np.ndarray | None) -> None:
    data = replace(ring(noise=True), episode=episode)
    verdict = judge(encode, predict, data, train=data)
    assert verdict.figures["collisions"] is None
    assert verdict.word == READABLE
    assert "because the data has no episodes of two or more steps" in verdict.reason


def test_the_lower_bound_is_wilsons() -> None:
    assert lower_bound(100, 100) == pytest.approx(100 / (1 + 1.645**2 / 100))
    assert lower_bound(50, 10**6) == pytest.approx(50, abs=0.1)


def draw(bits: np.ndarray) -> np.ndarray:
    """The mean frame of each code."""
    images = np.full((len(bits), 1, 16, 16), 45, np.uint8)
    images[:, 0, 3] = np.where(bits, 255, 45)
    return images


def test_what_frames_of_a_state_share_shows_that_a_code_says_all() -> None:
    verdict = judge(encode, predict, ring(6000, noise=True), decode=draw)
    assert verdict.figures["same_code"] == 100
    assert verdict.figures["unexplained"] < 1
    assert verdict.word == EXACT


def test_what_frames_of_a_state_share_gives_merged_states_away() -> None:
    def half(images: np.ndarray) -> np.ndarray:
        bits = encode(images)
        return np.tile(bits[:, :8] | bits[:, 8:], 2)

    def mean_of_both(bits: np.ndarray) -> np.ndarray:
        images = np.full((len(bits), 1, 16, 16), 45, np.uint8)
        images[:, 0, 3] = np.where(bits, 150, 45)
        return images

    verdict = judge(half, predict, ring(noise=True), decode=mean_of_both)
    assert verdict.figures["exact_next"] == 100
    assert verdict.figures["unexplained"] > 30
    assert verdict.word == READABLE


def test_pairs_of_frames_come_from_the_training_data_if_there_are_none() -> None:
    val = ring(6000, noise=True)
    single = Transitions(val.obs, val.actions, val.next_obs, n_actions=2, episode=np.arange(len(val)))
    assert judge(encode, predict, single, decode=draw).figures["unexplained"] is None
    assert judge(encode, predict, single, decode=draw, train=val).word == EXACT


def test_few_changes_are_no_proof() -> None:
    """Nearly all transitions change nothing: the few that do say little about the others."""
    data = ring(4000)
    moves = np.arange(4000) % 40 == 0
    still = np.where(moves[:, None, None, None], data.next_obs, data.obs)
    seldom = Transitions(data.obs, np.where(moves, data.actions, 2), still, n_actions=3)

    def step(bits: np.ndarray, actions: np.ndarray) -> np.ndarray:
        return np.where(np.asarray(actions)[:, None] == 2, bits, predict(bits, actions))

    verdict = judge(encode, step, seldom)
    assert verdict.figures["exact_changed"] == 100
    assert verdict.figures["changed"] == 100
    assert verdict.word == READABLE
    assert "100 of which change the code, are too few" in verdict.reason


def test_an_action_that_is_not_held_out_is_named() -> None:
    data = ring()
    verdict = judge(encode, predict, Transitions(data.obs, data.actions, data.next_obs, n_actions=3))
    assert verdict.word == READABLE
    assert "no held-out transition has the action 2" in verdict.reason


def test_collisions_with_training_frames_count() -> None:
    """The held-out frames show one half of the ring, the training frames the other, whose codes are the same."""
    data = ring(8000)
    halves = [
        encode(data.obs)[:, part].any(1) & encode(data.next_obs)[:, part].any(1) for part in (slice(8), slice(8, 16))
    ]
    low, high = (Transitions(data.obs[part], data.actions[part], data.next_obs[part], n_actions=2) for part in halves)

    def half(images: np.ndarray) -> np.ndarray:
        bits = encode(images)
        return bits[:, :8] | bits[:, 8:]

    assert judge(half, predict, low).figures["collisions"] == 0
    verdict = judge(half, predict, low, train=high)
    assert verdict.figures["collisions"] is None  # frames of one state might differ, for all that is known
    assert verdict.word == READABLE


def test_what_only_held_out_frames_show_is_noticed() -> None:
    """A second pixel lights up in the held-out frames; the encoder does not see it."""
    train, val = ring(), ring()
    new = replace(val, obs=val.obs.copy(), next_obs=val.next_obs.copy())
    new.obs[:, 0, 9, 9] = new.next_obs[:, 0, 9, 9] = 200

    def dark(bits: np.ndarray) -> np.ndarray:
        images = np.zeros((len(bits), 1, 16, 16), np.uint8)
        images[:, 0, 3] = np.where(bits, 255, 0)
        return images

    assert judge(encode, predict, val, train=train, decode=dark).word == EXACT
    verdict = judge(encode, predict, new, decode=dark, train=new)
    assert verdict.figures["misdrawn"] == 0
    verdict = judge(encode, predict, new[:500], decode=dark, train=train)
    assert verdict.figures["misdrawn"] == 100
    assert verdict.word != EXACT


def test_pixels_that_codes_do_not_explain_are_counted() -> None:
    """A counter of two pixels that goes through many values, and a pixel that is drawn badly, but follows the bits."""
    data = ring(2000)
    count = np.arange(2001) * 37 % 251
    frames = np.concatenate([data.obs, data.next_obs[-1:]])
    frames[:, 0, 12, 3], frames[:, 0, 12, 4] = count, 255 - count
    frames[:, 0, 14, 2] = 10 * frames[:, 0, 3].argmax(1)
    counting = replace(data, obs=frames[:-1], next_obs=frames[1:])

    def dark(bits: np.ndarray) -> np.ndarray:
        images = np.zeros((len(bits), 1, 16, 16), np.uint8)
        images[:, 0, 3] = np.where(bits, 255, 0)
        return images

    verdict = judge(encode, predict, counting[1500:], train=counting[:1500], decode=dark)
    assert verdict.figures["unread_pixels"] == 2
    assert verdict.word != EXACT
    assert judge(encode, predict, data[1500:], train=data[:1500], decode=dark).figures["unread_pixels"] == 0
