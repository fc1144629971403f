"""Mending codes: a ring of four lights seen through a dirty glass, so that the right codes are known."""

import dataclasses

import numpy as np
import pytest
import torch

from dwmr import InputError, Repair, Transitions, WorldModel, evaluate
from dwmr.evaluation.repair import Faults, likelihood, nearest
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


def test_the_best_of_the_candidates_by_the_logits():
    candidates = torch.tensor([[1, 1, 0], [0, 1, 1], [0, 0, 0]]).bool()
    logits = torch.tensor([[2.0, -1.0, -0.5], [-1.0, 0.2, 0.3], [-1.0, -1.0, 0.5]])
    # Sums over the bits that are on: 1, −1.5, 0; −0.8, 0.5, 0; −2, −0.5, 0.
    assert nearest(logits, candidates).int().tolist() == [[1, 1, 0], [0, 1, 1], [0, 0, 0]]
    assert nearest(logits, candidates, batch=1).equal(nearest(logits, candidates))


def test_the_likelihood_by_hand():
    logits = torch.tensor([[0.0, np.log(3.0)]])
    codes = torch.tensor([[[True, True], [True, False]]])
    assert likelihood(logits, codes).exp().tolist() == [[pytest.approx(0.5 * 0.75), pytest.approx(0.5 * 0.25)]]


def test_decoding_among_what_the_model_reaches():
    model = blurred_model()
    repair = Repair(model)
    candidates = repair.reachable(model.encode(draw(np.array([0])))[0])
    assert candidates.int().tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]
    smudged = np.array([[200, 30, 140, 0], [100, 0, 20, 90]], np.uint8).reshape(2, 1, 1, 4)
    assert model.encode(smudged).int().tolist() == [[1, 0, 1, 0], [0, 0, 0, 0]]  # two lights, and none
    assert repair.decode(smudged, candidates).int().tolist() == [[1, 0, 0, 0], [1, 0, 0, 0]]
    assert len(repair.reachable(np.array([True, False, False, False]), limit=2)) == 2


def test_votes_add_the_same_state_codes():
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
    first = np.arange(0, len(data), 20)  # no second look at an episode's first state
    assert torch.equal(voted.codes[first], voted.before[first])
    logits = model.encode_logits(data.obs)[1:20] + model.encode_logits(data.next_obs)[:19]
    assert torch.equal(voted.codes[1:20], logits >= 0)
    assert right(voted.codes, data.state) > right(voted.before, data.state) + 0.15


def test_the_filter_sees_through_frames_that_lie():
    data = dirty(ring_transitions(episodes=100, steps=40), 0.2)
    model = blurred_model()
    repair = Repair(model)
    mended = repair.transitions(data)
    assert right(model.encode(data.obs), data.state) == pytest.approx(0.85, abs=0.02)
    late = np.arange(len(data)) % 40 >= 10
    assert right(mended.codes[late], data.state[late]) > 0.99
    assert right(mended.predicted[late], data.next_state[late]) > 0.99
    # Each alone, too: they saw different frames.
    assert right(mended.before[late], data.state[late]) > 0.98
    assert right(mended.after[late], data.next_state[late]) > 0.98


def test_a_wrong_first_frame_is_forgotten():
    actions = np.array([RIGHT, LEFT, RIGHT, RIGHT, LEFT, LEFT, RIGHT, RIGHT])
    places = np.cumsum(np.r_[0, np.where(actions == RIGHT, 1, -1)]) % PLACES
    frames = draw(np.r_[2, places[1:]])
    looks = blurred_model().encode_logits(frames)[None]
    read = Repair(blurred_model()).follow(looks, torch.from_numpy(actions)[None])[0].int().argmax(1)
    assert read[0] == 2
    assert read[-3:].tolist() == places[-3:].tolist()


def test_the_filter_never_looks_ahead():
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


def test_faults_are_counted_bit_by_bit():
    data = ring_transitions()
    assert Faults.measured(blurred_model(), data).flips.tolist() == pytest.approx([0.001] * 4)  # as few as allowed
    # A light that stays is wrong in two of four bits.
    assert Faults.measured(blurred_model(Stay()), data).flips.mean() == pytest.approx(0.5, abs=0.02)


def test_the_kind_of_faults_is_chosen_without_labels():
    class Careless(Turn):
        """Turns the light, but the last bit is always off."""

        def forward(self, codes, actions):
            return super().forward(codes, actions) * torch.tensor([1.0, 1, 1, 0]) - torch.tensor([0, 0, 0, 0.5])

    data = dirty(ring_transitions(), 0.2)
    sound, careless = (Repair.measured(model, data) for model in (blurred_model(), blurred_model(Careless())))
    assert sound.filtering
    assert sound.faults.mistake == 0.01
    mended = careless.transitions(data)
    plain = Repair(careless.model, filtering=False).transitions(data)
    assert right(mended.codes, data.state) >= right(plain.codes, data.state)


def test_the_filter_is_left_out_where_it_does_not_help():
    dirty_data = dirty(ring_transitions(), 0.2)
    assert Repair.measured(blurred_model(), dirty_data).filtering
    assert not Repair.measured(blurred_model(Stay()), dirty_data).filtering
    assert not Repair.measured(ring_model(), ring_transitions()).filtering  # nothing to mend
    assert Repair.measured(blurred_model(), dirty_data).about == {
        "tier": "J",
        "uses": "both frames of a state (next_obs[t], obs[t+1]); "
        "earlier frames of the episode and the actions between them",
        "votes": True,
        "filter": True,
    }


def test_what_suits_a_model_is_found_where_there_are_pairs(monkeypatch):
    """Sixty single transitions come first, more than are looked at."""
    data = dirty(ring_transitions(), 0.2)
    episode = np.asarray(data.episode).copy()
    episode[:60] = np.arange(-60, 0)
    monkeypatch.setattr("dwmr.evaluation.repair.TRIED_ON", 50)
    assert Repair.measured(blurred_model(), dataclasses.replace(data, episode=episode)).filtering


def test_only_what_is_used_is_named():
    votes = Repair(ring_model(), filtering=False).about
    assert (votes["tier"], votes["uses"]) == ("J", "both frames of a state (next_obs[t], obs[t+1])")
    assert "next_obs" not in str(Repair(ring_model(), votes=False).about["uses"])


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


def test_what_cannot_be_mended_is_refused():
    data = dataclasses.replace(ring_transitions(episodes=2), episode=None)
    with pytest.raises(InputError, match="needs episodes"):
        Repair(ring_model()).transitions(data)
    with pytest.raises(InputError, match="needs episodes"):
        Repair.measured(ring_model(), data)
    with pytest.raises(InputError, match="repair needs episodes, but test does not say"):
        evaluate(ring_model(), train=ring_transitions(episodes=2), test=data, repair=True)
    with pytest.raises(InputError, match="at least one candidate"):
        Repair(ring_model(), candidates=0)
