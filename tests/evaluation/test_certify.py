"""Certificates of models whose faults are known: a ring of four lights, encoded and predicted correctly or not."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from dwmr import certify
from dwmr.evaluation.verdicts import NO, NOT_TESTED, PARTLY, QUESTIONS, YES, answers, correct_steps, summary
from tests.evaluation.ring import RIGHT, ring_rollouts, ring_transitions

RESULTS = Path(__file__).parents[2] / "experiments" / "results"
ALWAYS = {"bits", "noise", "next"}


def encode(images):
    return images.reshape(len(images), 4) > 127


def predict(codes, actions):
    return np.where(actions[:, None] == RIGHT, np.roll(codes, 1, axis=1), np.roll(codes, -1, axis=1))


def answer_of(certificate):
    return {each["name"]: each["answer"] for each in certificate["verdicts"]}


def redrawn(data):
    """The same walks, each frame a little brighter or darker."""
    random = np.random.default_rng(3)
    shades = [random.integers(0, 40, images.shape).astype(np.uint8) for images in (data.obs, data.next_obs)]
    return dataclasses.replace(
        data, obs=np.maximum(data.obs, 50) - shades[0], next_obs=np.maximum(data.next_obs, 50) - shades[1]
    )


def test_a_perfect_model_of_a_world_that_redraws_its_states():
    data = redrawn(ring_transitions())
    found = certify(encode, predict, data, rollouts=ring_rollouts([[RIGHT] * 100] * 30, (0, 1, 10, 100)))
    assert answer_of(found) == {question.name: YES for question in QUESTIONS} | {"graph": NOT_TESTED}
    assert found["redrawn"] > 99
    assert (found["same_code"], found["state_share"], found["collisions"], found["splits"]) == (100, 100, 0, 0)
    assert found["drift"]["100"] == {"bits": 100, "exact": 100, "episodes": 30}
    assert found["summary"] == (
        "Up to 100 steps ahead (the longest roll-out tested), at least 95% of the predicted codes are exact. 0.0% of "
        "the images have a code that also stands for another state. One of the eight questions could not be tested: "
        "graph (no true graphs were given)."
    )
    assert json.loads(json.dumps(found)) == found


def test_without_labels_and_episodes_the_other_questions_are_answered():
    data = dataclasses.replace(ring_transitions(labels=False), episode=None)
    found = certify(encode, predict, data)
    assert {name for name, answer in answer_of(found).items() if answer != NOT_TESTED} == ALWAYS
    assert "collisions" not in found
    assert found["redrawn"] is None
    assert list(found["drift"]) == ["1"]  # single transitions
    assert found["summary"].startswith(
        "Up to 1 step ahead (the longest roll-out tested), at least 95% of the predicted codes are exact. Whether "
        "different states have the same code is not known. Five of the eight questions could not be tested: stability "
        "(the data has no episodes, "
    )
    assert "rollout (holds up to 1 step, the longest tested)" in found["summary"]
    assert "reliable" not in found["summary"]


@pytest.mark.parametrize(("horizon", "answer"), [(20, NOT_TESTED), (100, YES)])
def test_short_roll_outs_do_not_fail_the_rollout_question(horizon, answer):
    found = certify(encode, predict, ring_transitions(episodes=30, steps=100), horizon=horizon)
    assert max(map(int, found["drift"])) == horizon
    assert answer_of(found)["rollout"] == answer
    assert 'Answered "no"' not in found["summary"]


def test_consistency_is_not_tested_where_states_are_never_redrawn():
    found = certify(encode, predict, ring_transitions())
    assert (found["splits"], found["redrawn"]) == (0, 0)
    assert answer_of(found)["consistency"] == NOT_TESTED
    assert answer_of(certify(encode, predict, redrawn(ring_transitions())))["consistency"] == YES


def test_stability_is_not_tested_where_states_are_never_redrawn():
    found = certify(encode, predict, ring_transitions())
    assert found["redrawn"] == 0
    assert found["same_code"] == 100
    assert answer_of(found)["stability"] == NOT_TESTED


def test_a_code_that_depends_on_the_rendering_is_detected():
    def handwriting(images):
        pixels = images.reshape(len(images), 4).astype(int)
        return np.concatenate([pixels > 127, pixels.sum(1, keepdims=True) % 2 == 1], axis=1)

    def move(codes, actions):
        return np.concatenate([predict(codes[:, :4], actions), codes[:, 4:]], axis=1)

    found = certify(handwriting, move, redrawn(ring_transitions()))
    assert answer_of(found)["stability"] == answer_of(found)["next"] == NO
    assert answer_of(found)["collisions"] == YES
    assert answer_of(found)["consistency"] == NO
    assert found["same_code"] == pytest.approx(50, abs=3)
    assert found["state_share_min"] == pytest.approx(0, abs=5)
    assert found["state_share"] == pytest.approx(80, abs=2)


def test_collisions_are_detected():
    found = certify(lambda images: encode(images)[:, :2], lambda codes, actions: codes, ring_transitions())
    # Places 2 and 3 both have the code 00.
    assert found["collisions"] == pytest.approx(50, abs=5)
    assert answer_of(found)["collisions"] == NO


@pytest.mark.parametrize("labels", [True, False])
def test_a_code_that_never_changes_proves_nothing(labels):
    def constant(images):
        return np.zeros((len(images), 4), dtype=bool)

    found = certify(constant, lambda codes, actions: codes, redrawn(ring_transitions(labels=labels)))
    assert {name for name, answer in answer_of(found).items() if answer == YES} == set()
    assert answer_of(found)["bits"] == NO
    assert answer_of(found)["collisions"] == (NO if labels else NOT_TESTED)
    assert found["summary"].startswith("Every image has the same code, so the code carries no information.")


def test_drift_along_the_episodes_of_the_transitions():
    seen = ring_transitions(episodes=10, steps=40)
    found = certify(encode, lambda codes, actions: codes, seen)["drift"]
    assert list(found) == ["1", "2", "5", "10", "20"]
    places = np.concatenate([seen.next_state.reshape(10, 40), seen.state.reshape(10, 40)[:, :1]], axis=1)
    # Predicting no movement is correct where the walk is back at its first place.
    for step in (1, 2, 5, 10, 20):
        assert found[str(step)]["exact"] == pytest.approx(100 * np.mean(places[:, step - 1] == places[:, -1]))


def test_long_episodes_are_cut_into_windows():
    found = certify(encode, predict, ring_transitions(episodes=2, steps=250))["drift"]
    assert list(found) == ["1", "2", "5", "10", "20", "50", "100"]
    assert (found["50"]["episodes"], found["100"]["episodes"]) == (6, 4)
    assert all(entry["exact"] == 100 for entry in found.values())


def test_noise_by_strength():
    found = certify(encode, predict, ring_transitions())["noise"]
    assert found["0.05"] == {"same_code": 100, "same_bits": 100}
    # Noise of 0.5 crosses the threshold, a distance of 0.5 on one side alone, in one of six cases.
    assert found["0.5"]["same_bits"] == pytest.approx(84.1, abs=1)
    assert list(found) == ["0.01", "0.02", "0.05", "0.1", "0.2", "0.5"]


@pytest.mark.parametrize(("shares", "steps"), [([100, 95, 94, 99], 2), ([94, 100, 100, 100], 0), ([95] * 4, 10)])
def test_roll_outs_are_reliable_up_to_the_first_drop(shares, steps):
    drift = {str(step): {"exact": share} for step, share in zip((1, 2, 5, 10), shares)}
    assert correct_steps(drift) == steps


def test_the_summary_names_what_failed():
    found = certify(encode, lambda codes, actions: codes, ring_transitions())
    assert found["summary"] == summary(found)
    assert "Predicted codes are unreliable, even one step ahead." in found["summary"]
    assert 'Answered "no": next, rollout.' in found["summary"]
    assert (
        "not be tested: stability (all images of a state are identical in this data); consistency (" in found["summary"]
    )


def test_a_model_is_called_reliable_only_if_every_question_is_answered_with_yes():
    data = redrawn(ring_transitions())
    found = certify(encode, predict, data, rollouts=ring_rollouts([[RIGHT] * 100] * 30, (0, 1, 10, 100)))
    graphs = {"levels": 1, "same": 100.0, "edges": 8, "edges_right": 100.0}
    perfect = found | {"graphs": graphs}
    perfect["verdicts"] = answers(perfect)
    assert summary(perfect).endswith("Every question is answered with yes: the model is reliable.")
    perfect["verdicts"] = answers(perfect | {"exact_next": 98.0})
    assert summary(perfect).endswith('another state. Answered "partly": next.')


def test_the_summary_blames_the_encoder_for_unstable_codes():
    """Noise on the frames flips a light now and then; the predictor is perfect, or never moves."""

    def dazzled(images):
        return encode(images) ^ (images.reshape(len(images), 4) % 40 == 0)

    data = redrawn(ring_transitions(episodes=200, steps=40))
    found = certify(dazzled, predict, data)
    assert found["same_code"] == pytest.approx(100 * (1 - 2 * 0.975 * 0.025) ** 4, abs=2)
    assert "The cause is the encoder" in found["summary"]
    for reading in (dazzled, encode):
        assert "The cause is the encoder" not in certify(reading, lambda codes, actions: codes, data)["summary"]


def test_thresholds_are_inclusive():
    for question in QUESTIONS:
        better = 1 if question.yes > question.partly else -1
        assert question.answer(question.yes) == YES
        assert question.answer(question.yes - 1e-6 * better) == PARTLY
        assert question.answer(question.partly) == PARTLY
        assert question.answer(question.partly - 1e-6 * better) == NO


def test_answers_depend_only_on_the_figures():
    found = certify(encode, predict, ring_transitions())
    worse = {each["name"]: each for each in answers(found | {"exact_next": 90.0})}
    assert worse["next"]["answer"] == PARTLY
    assert worse["next"]["figure"] == 90
    assert worse["next"]["thresholds"] == {"yes": 99, "partly": 80}


@pytest.mark.parametrize("name", ["certificate_example", "certificate_strong", "certificate_noisy"])
def test_stored_certificates_hold_the_present_answers(name):
    stored = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    assert stored["verdicts"] == answers(stored)
    assert stored["summary"] == summary(stored)
