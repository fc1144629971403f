"""Imagination along real episodes of a ring of four lights."""

import numpy as np
import torch

from dwmr.evaluation.rollouts import rollout_scores
from tests.evaluation.ring import LEFT, PLACES, RIGHT, Stay, fit_probe, ring_model, ring_rollouts, ring_transitions

HORIZONS = (0, 1, 2, 4)
ROUND = [[RIGHT] * 4, [LEFT] * 4]
THERE_AND_BACK = [[RIGHT, LEFT, RIGHT, RIGHT], [LEFT, RIGHT, LEFT, LEFT]]


def test_a_perfect_model_stays_correct():
    data = ring_transitions()
    probe = fit_probe(ring_model().encode(data.obs), data.state, PLACES)
    for actions in (ROUND, THERE_AND_BACK):
        scores = rollout_scores(ring_model(), ring_rollouts(actions, HORIZONS), probe)
        right = {"bits": 100, "exact": 100, "f1": 100, "reencode_f1": 100}
        assert [scores[h] | right for h in ("1", "2", "4")] == [scores[h] for h in ("1", "2", "4")]


def test_a_model_that_never_moves_is_correct_only_where_the_light_returns():
    scores = rollout_scores(ring_model(Stay()), ring_rollouts(ROUND, HORIZONS))
    # A misplaced light is wrong in two of four bits.
    assert scores["1"] == scores["2"] == {"bits": 50, "exact": 0, "copy_bits": 50, "copy_exact": 0}
    assert scores["4"] == {"bits": 100, "exact": 100, "copy_bits": 100, "copy_exact": 100}
    back = rollout_scores(ring_model(Stay()), ring_rollouts(THERE_AND_BACK, HORIZONS))
    assert [back[h]["exact"] for h in ("1", "2", "4")] == [0, 100, 0]


def test_the_f1_is_of_the_imagined_boards():
    data = ring_transitions()
    probe = fit_probe(ring_model().encode(data.obs), data.state, PLACES)
    scores = rollout_scores(ring_model(Stay()), ring_rollouts([[RIGHT] * 4, [RIGHT, LEFT] * 2], (0, 1, 2)), probe)
    assert scores["1"]["f1"] == 0
    # After two steps the boards are 2 and 0, both read as 0: F1 is 0 and 2 / 3.
    assert np.isclose(scores["2"]["f1"], 100 / 3)


def test_a_label_that_the_probe_never_saw_counts_as_wrong():
    data = ring_transitions()
    few = np.minimum(data.state, 1)
    probe = fit_probe(ring_model().encode(data.obs), few, 2)
    scores = rollout_scores(ring_model(), ring_rollouts([[RIGHT] * 4], (0, 3)), probe)
    assert (scores["3"]["bits"], scores["3"]["f1"], scores["3"]["reencode_f1"]) == (100, 0, 0)


def test_the_horizon_ends_the_rollout():
    assert list(rollout_scores(ring_model(), ring_rollouts(ROUND, HORIZONS), horizon=2)) == ["1", "2"]
    assert rollout_scores(ring_model(), ring_rollouts(ROUND, HORIZONS), horizon=0) == {}


def test_frames_past_an_episodes_end_are_not_scored():
    episodes = ring_rollouts([[RIGHT] * 4, [RIGHT] * 4], HORIZONS, length=[4, 1])
    episodes.obs[1, 2:] = 0
    scores = rollout_scores(ring_model(), episodes)
    assert [scores[h]["exact"] for h in ("1", "2", "4")] == [100, 100, 100]
    ended = ring_rollouts([[RIGHT] * 4], HORIZONS, length=[2])
    assert list(rollout_scores(ring_model(), ended)) == ["1", "2"]


def test_imagination_continues_from_predicted_bits_not_from_frames():
    episodes = ring_rollouts([[RIGHT] * 4], HORIZONS)
    episodes.obs[0, 1] = 255  # a frame that shows nonsense on the way
    scores = rollout_scores(ring_model(), episodes)
    assert scores["1"]["exact"] == 0
    assert scores["4"]["exact"] == 100
    assert torch.is_grad_enabled()


def test_copying_keeps_the_first_frame_and_re_encoding_sees_the_last():
    data = ring_transitions()
    probe = fit_probe(ring_model().encode(data.obs), data.state, PLACES)
    episodes = ring_rollouts([[RIGHT] * 4, [RIGHT, LEFT] * 2], (0, 1, 2))
    perfect, still = (rollout_scores(model, episodes, probe) for model in (ring_model(), ring_model(Stay())))
    assert perfect["2"]["f1"] == perfect["2"]["reencode_f1"] == still["2"]["reencode_f1"] == 100
    assert perfect["2"]["copy_f1"] == still["2"]["copy_f1"] == still["2"]["f1"]
    assert np.isclose(perfect["2"]["copy_f1"], 100 / 3)
    assert (perfect["2"]["copy_exact"], perfect["2"]["copy_bits"]) == (50, 75)
