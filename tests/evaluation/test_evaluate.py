"""All figures of a model."""

import dataclasses
import json

import numpy as np
import pytest

import dwmr
from dwmr import InputError, Transitions, evaluate
from dwmr.cli import tables
from dwmr.evaluation.evaluate import evaluate_many
from tests.evaluation.ring import PLACES, RIGHT, Stay, draw, ring_model, ring_rollouts, ring_transitions

SCORES = {"f1", "f1_true_labels", "accuracy", "board_accuracy", "changed_cells_f1"}


def test_a_perfect_model():
    data, rollout = ring_transitions(), ring_rollouts([[RIGHT] * 4], (0, 1, 4))
    report = evaluate(ring_model(), train=data, test=data, rollout=rollout)
    assert set(report) == {"encoding", "imagination", "baselines", "codes", "rollout"}
    for part in ("encoding", "imagination"):
        assert report[part] == dict.fromkeys(SCORES, 100)
    codes = report["codes"]
    assert (codes["dead"], codes["duplicate"], codes["collisions"], codes["splits"]) == (0, 0, 0, 0)
    assert (codes["exact_next"], codes["same_code"], codes["flips_mean"]) == (100, 100, 2)
    assert set(report["rollout"]) == {"1", "4"}
    assert report["rollout"]["4"]["f1"] == 100
    assert json.loads(json.dumps(report)) == report


def test_a_predictor_that_never_moves_scores_as_the_copy_baseline():
    data = ring_transitions()
    report = evaluate(ring_model(Stay()), train=data, test=data)
    assert report["encoding"]["f1"] == 100
    assert report["imagination"] == report["baselines"]["copy"]
    assert report["imagination"]["accuracy"] == 0  # on the ring the light always moves
    assert "rollout" not in report


def test_the_baselines_by_hand():
    places, after = np.array([0, 1, 2, 2]), np.array([0, 2, 2, 3])
    data = Transitions(
        draw(places),
        np.zeros(4, int),
        draw(after),
        n_actions=2,
        state=places[:, None],
        next_state=after[:, None],
        n_classes=PLACES,
    )
    baselines = evaluate(ring_model(), train=data, test=data)["baselines"]
    # Copy: 0 1 2 2 for 0 2 2 3; right twice. Changed are the second and the fourth.
    assert baselines["copy"]["accuracy"] == 50
    assert baselines["copy"]["f1"] == pytest.approx(100 * (1 + 0 + 1 / 2 + 0) / 4)
    assert baselines["copy"]["f1_true_labels"] == pytest.approx(100 * (1 + 1 / 2 + 0) / 3)
    assert baselines["copy"]["changed_cells_f1"] == 0
    # Majority: always 2.
    assert baselines["majority"]["accuracy"] == 50
    assert baselines["majority"]["f1"] == pytest.approx(100 * (0 + 2 / 3 + 0) / 3)
    assert baselines["majority"]["changed_cells_f1"] == pytest.approx(100 * (2 / 3 + 0) / 2)


def test_the_majority_is_that_of_the_training_split():
    data = ring_transitions()
    other = dataclasses.replace(data, next_state=np.zeros_like(data.next_state))
    majority = evaluate(ring_model(), train=other, test=data)["baselines"]["majority"]
    assert majority["accuracy"] == pytest.approx(100 * float((data.next_state == 0).mean()))


def test_without_labels_only_the_label_free_part_is_returned():
    data, rollout = ring_transitions(labels=False), ring_rollouts([[RIGHT] * 4], (0, 1, 4))
    report = evaluate(ring_model(), train=data, test=data, rollout=rollout)
    assert set(report) == {"codes", "rollout"}
    assert "collisions" not in report["codes"]
    assert report["codes"]["exact_next"] == 100
    assert report["rollout"]["4"] == {"bits": 100, "exact": 100, "copy_bits": 100, "copy_exact": 100}


def test_every_frame_is_encoded_once() -> None:
    model, train, test, sizes = ring_model(), ring_transitions(), ring_transitions(50), []
    model.encoder.register_forward_pre_hook(lambda module, given: sizes.append(len(given[0])))
    evaluate(model, train=train, test=test)
    assert sum(sizes) == 2 * (len(train) + len(test))


def test_an_evaluation_keeps_the_codes():
    data = ring_transitions()
    (found,) = evaluate_many([ring_model()], train=data, test=data)
    assert np.array_equal(found.codes.numpy(), data.obs.reshape(-1, 4) > 0)
    assert np.array_equal(found.next_codes.numpy(), data.next_obs.reshape(-1, 4) > 0)
    assert np.array_equal(found.predicted.numpy(), found.next_codes.numpy())
    assert np.array_equal(found.probe.read(found.codes), data.state)


def test_stored_data_gives_the_same_figures(tmp_path):
    ring_transitions().save(tmp_path / "t")
    stored = dwmr.load_transitions(tmp_path / "t")
    data = ring_transitions()
    assert evaluate(ring_model(), train=stored, test=stored) == evaluate(ring_model(), train=data, test=data)


def test_data_of_another_shape_is_refused():
    data = ring_transitions()
    wide = Transitions(np.zeros((2, 1, 1, 5), np.uint8), [0, 1], np.zeros((2, 1, 1, 5), np.uint8), n_actions=2)
    with pytest.raises(InputError, match=r"test has \(1, 1, 5\) and 2"):
        evaluate(ring_model(), train=data, test=wide)
    with pytest.raises(InputError, match=r"train has \(1, 1, 4\) and 3"):
        evaluate(ring_model(), train=dataclasses.replace(data, n_actions=3), test=data)


def test_without_labels_in_the_test_split_only_the_label_free_part_is_returned():
    figures = evaluate(ring_model(), train=ring_transitions(), test=ring_transitions(labels=False))
    assert set(figures) == {"codes"}


def in_groups(data: Transitions) -> Transitions:
    """The ring's labels in two groups: the place of the light, and whether it is an odd one."""
    now, then = (np.asarray(part)[:, 0] for part in (data.state, data.next_state))
    return dataclasses.replace(
        data,
        state={"place": now, "odd": now[:, None] % 2},
        next_state={"place": then, "odd": then[:, None] % 2},
        n_classes=None,
    )


def test_each_group_of_labels_is_scored_by_itself():
    plain = dataclasses.replace(ring_transitions(), episode=np.zeros(len(ring_transitions()), int))
    data = in_groups(plain)
    model = ring_model(Stay())
    report = evaluate(model, train=data, test=data, intervals=True)
    alone = evaluate(model, train=plain, test=plain, intervals=True)
    for part in ("encoding", "imagination"):
        groups = report[part]["groups"]
        assert set(groups) == {"place", "odd"}
        assert groups["place"] == alone[part]
        for score in SCORES:
            assert report[part][score] == pytest.approx((groups["place"][score] + groups["odd"][score]) / 2)
        assert set(report["intervals"][part]["groups"]["odd"]) == SCORES
    assert report["baselines"]["copy"]["groups"]["place"] == alone["baselines"]["copy"]
    assert report["codes"] == alone["codes"]  # the groups together name the same states
    assert json.loads(json.dumps(report)) == report
    for table in tables.evaluation(report):
        assert table.row_count
    assert dwmr.certify(model.encode, model.predict, data)["collisions"] == 0


def test_groups_of_train_and_test_must_match():
    plain = ring_transitions()
    with pytest.raises(InputError, match=r"labels of train \(place, odd\) and of test \(a single array\) do not match"):
        evaluate(ring_model(), train=in_groups(plain), test=plain)


def test_a_single_label_a_frame_is_scored_like_one_cell():
    plain = ring_transitions()
    data = in_groups(plain).group("place")
    assert data.state.shape == (len(data),)
    assert evaluate(ring_model(), train=data, test=data) == evaluate(ring_model(), train=plain, test=plain)
