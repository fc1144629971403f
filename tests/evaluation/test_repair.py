"""Repair of codes, on a ring of four lights seen through a dirty glass: the correct codes are known."""

import dataclasses

import numpy as np
import pytest
import torch

from dwmr import InputError, Repair, Transitions, WorldModel, evaluate
from dwmr.evaluation.repair import PredictorErrors, log_likelihood
from tests.evaluation.ring import LEFT, PLACES, RIGHT, Lights, Stay, Turn, draw, ring_model, ring_transitions


class Blurred(Lights):
    """The ring's lights as logits of some size."""

    def forward(self, images):
        return 4 * super().forward(images)


def dirty(data: Transitions, wrong: float, seed: int = 0) -> Transitions:
    """Some frames show the light at a place where it is not."""
    random = np.random.default_rng(seed)

    def shown(places):
        misplaced = random.random(len(places)) < wrong
        return draw(np.where(misplaced, random.integers(PLACES, size=len(places)), places))

    return dataclasses.replace(data, obs=shown(data.state[:, 0]), next_obs=shown(data.next_state[:, 0]))


def blurred_model(predictor=None) -> WorldModel:
    return WorldModel(Blurred(), predictor or Turn(), image_shape=(1, 1, PLACES), n_actions=2, bits=PLACES)


def right(codes, places) -> float:
    return float((codes.numpy() == np.eye(PLACES, dtype=bool)[places[:, 0]]).all(1).mean())


def test_the_likelihood_by_hand():
    logits = torch.tensor([[0.0, np.log(3.0)]])
    codes = torch.tensor([[[True, True], [True, False]]])
    assert log_likelihood(logits, codes).exp().tolist() == [[pytest.approx(0.5 * 0.75), pytest.approx(0.5 * 0.25)]]


def test_votes_add_the_logits_of_both_frames():
    random = np.random.default_rng(0)
    clean = ring_transitions(episodes=50, steps=20)
    shaded = [
        np.clip(images.astype(int) + random.normal(0, 110, images.shape), 0, 255).astype(np.uint8)
        for images in (clean.obs, clean.next_obs)
    ]
    data = dataclasses.replace(clean, obs=shaded[0], next_obs=shaded[1])
    model = blurred_model()
    voted = Repair(model, filtering=False).transitions(data)
    assert torch.equal(voted.before, model.encode(data.obs))
    assert torch.equal(voted.after, model.encode(data.next_obs))
    first = np.arange(0, len(data), 20)  # no second frame of an episode's first state
    assert torch.equal(voted.codes[first], voted.before[first])
    logits = model.encode_logits(data.obs)[1:20] + model.encode_logits(data.next_obs)[:19]
    assert torch.equal(voted.codes[1:20], logits >= 0)
    assert right(voted.codes, data.state) > right(voted.before, data.state) + 0.15


def test_the_filter_corrects_misleading_frames():
    data = dirty(ring_transitions(episodes=100, steps=40), 0.2)
    model = blurred_model()
    repair = Repair(model)
    repaired = repair.transitions(data)
    assert right(model.encode(data.obs), data.state) == pytest.approx(0.85, abs=0.02)
    late = np.arange(len(data)) % 40 >= 10
    assert right(repaired.codes[late], data.state[late]) > 0.99
    assert right(repaired.predicted[late], data.next_state[late]) > 0.99
    # Each alone, too: they saw different frames.
    assert right(repaired.before[late], data.state[late]) > 0.98
    assert right(repaired.after[late], data.next_state[late]) > 0.98


def test_a_wrong_first_frame_is_forgotten():
    actions = np.array([RIGHT, LEFT, RIGHT, RIGHT, LEFT, LEFT, RIGHT, RIGHT])
    places = np.cumsum(np.r_[0, np.where(actions == RIGHT, 1, -1)]) % PLACES
    frames = draw(np.r_[2, places[1:]])
    logits = blurred_model().encode_logits(frames)[None]
    read = Repair(blurred_model()).follow(logits, torch.from_numpy(actions)[None])[0].int().argmax(1)
    assert read[0] == 2
    assert read[-3:].tolist() == places[-3:].tolist()


def test_the_filter_uses_no_later_frames():
    data = dirty(ring_transitions(episodes=4, steps=30), 0.3)
    cut = 12
    later = dataclasses.replace(
        data,
        obs=np.where((np.arange(len(data)) % 30 > cut)[:, None, None, None], 0, data.obs),
        next_obs=np.where((np.arange(len(data)) % 30 >= cut)[:, None, None, None], 0, data.next_obs),
    )
    repair = Repair(blurred_model())
    early = np.arange(len(data)) % 30 <= cut
    one, other = repair.transitions(data), repair.transitions(later)
    assert torch.equal(one.codes[early], other.codes[early])
    assert torch.equal(one.predicted[early], other.predicted[early])
    assert not torch.equal(one.codes, other.codes)


def test_episodes_of_different_lengths_are_kept_apart():
    data = dirty(ring_transitions(episodes=6, steps=10), 0.3)
    lengths = np.array([1, 9, 20, 5, 5, 20])
    uneven = dataclasses.replace(data, episode=np.repeat(np.arange(6), lengths))
    whole = Repair(blurred_model()).transitions(uneven)
    ends = np.cumsum(lengths)
    for begin, end in zip(ends - lengths, ends):
        alone = Repair(blurred_model()).transitions(uneven[begin:end])
        assert torch.equal(whole.codes[begin:end], alone.codes)
        assert torch.equal(whole.after[begin:end], alone.after)


def test_errors_are_measured_per_bit():
    data = ring_transitions()
    assert PredictorErrors.measured(blurred_model(), data).flips.tolist() == pytest.approx(
        [0.001] * 4
    )  # as few as allowed
    # A light that stays is wrong in two of four bits.
    assert PredictorErrors.measured(blurred_model(Stay()), data).flips.mean() == pytest.approx(0.5, abs=0.02)


def test_the_error_model_is_chosen_without_labels():
    class Careless(Turn):
        """Turns the light, but the last bit is always off."""

        def forward(self, codes, actions):
            return super().forward(codes, actions) * torch.tensor([1.0, 1, 1, 0]) - torch.tensor([0, 0, 0, 0.5])

    data = dirty(ring_transitions(), 0.2)
    sound, careless = (Repair.measured(model, data) for model in (blurred_model(), blurred_model(Careless())))
    assert sound.filtering
    assert sound.errors.mistake == 0.01
    repaired = careless.transitions(data)
    plain = Repair(careless.model, filtering=False).transitions(data)
    assert right(repaired.codes, data.state) >= right(plain.codes, data.state)


def test_the_filter_is_left_out_if_it_does_not_help():
    dirty_data = dirty(ring_transitions(), 0.2)
    assert Repair.measured(blurred_model(), dirty_data).filtering
    assert not Repair.measured(blurred_model(Stay()), dirty_data).filtering
    assert not Repair.measured(ring_model(), ring_transitions()).filtering  # nothing to repair
    assert Repair.measured(blurred_model(), dirty_data).about == {
        "tier": "J",
        "uses": "both frames of a state (next_obs[t], obs[t+1]); "
        "earlier frames of the episode and the actions between them",
        "votes": True,
        "filter": True,
    }


def test_variants_are_compared_where_there_are_pairs(monkeypatch):
    """Sixty single transitions come first, more than are tried."""
    data = dirty(ring_transitions(), 0.2)
    episode = np.asarray(data.episode).copy()
    episode[:60] = np.arange(-60, 0)
    monkeypatch.setattr("dwmr.evaluation.repair.MAX_TRIED", 50)
    assert Repair.measured(blurred_model(), dataclasses.replace(data, episode=episode)).filtering


def test_evaluate_reports_both():
    train, test = dirty(ring_transitions(), 0.2, seed=1), dirty(ring_transitions(episodes=100), 0.2, seed=2)
    model = blurred_model()
    plain = evaluate(model, train=train, test=test)
    both = evaluate(model, train=train, test=test, repair=True)
    assert both["encoding"] == plain["encoding"]
    assert both["encoding"]["board_accuracy"] == pytest.approx(85, abs=2)
    assert both["encoding_repaired"]["board_accuracy"] > 97
    assert both["imagination_repaired"]["board_accuracy"] > 97
    assert both["codes"]["same_code"] == pytest.approx(74, abs=4)
    assert both["codes"]["same_code_repaired"] > 93
    assert both["codes"]["exact_next_repaired"] > 93
    unlabelled = evaluate(
        model, train=train, test=dataclasses.replace(test, state=None, next_state=None, n_classes=None), repair=True
    )
    assert set(unlabelled) == {"codes", "repair"}


def test_data_without_episodes_is_refused():
    data = dataclasses.replace(ring_transitions(episodes=2), episode=None)
    with pytest.raises(InputError, match="needs episodes"):
        Repair(ring_model()).transitions(data)
    with pytest.raises(InputError, match="needs episodes"):
        Repair.measured(ring_model(), data)
    with pytest.raises(InputError, match="repair needs episodes, but test does not say"):
        evaluate(ring_model(), train=ring_transitions(episodes=2), test=data, repair=True)
