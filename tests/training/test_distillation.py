"""A model taught by its own two looks."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import dwmr
from dwmr.errors import InputError, TrainingDiverged
from dwmr.models.world_model import WorldModel
from dwmr.training.distillation import SCALES, best_scale, lesson

BITS, SIDE = 4, 2


class Given(nn.Module):
    """An encoder whose logits are the first four pixels, less what separates a bright from a dark one."""

    def __init__(self):
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(1.0))

    def forward(self, images):
        return self.slope * (images.flatten(1)[:, :BITS] * 255 - 128)


class Same(nn.Module):
    """A predictor that says the next bits are these bits, and is this sure of it."""

    def __init__(self, sure):
        super().__init__()
        self.sure = nn.Parameter(torch.tensor(float(sure)))

    def forward(self, codes, actions):
        return self.sure * (2 * codes - 1)


def model_of(sure):
    return WorldModel(
        Given(), Same(sure), None, image_shape=(1, SIDE, SIDE), n_actions=2, bits=BITS, standardize=False
    ).eval()


def frames(*rows):
    return np.array(rows, dtype=np.uint8).reshape(-1, 1, SIDE, SIDE)


def test_the_surer_look_decides():
    """Frames of 50 + 128 and −2 + 128: whichever look is surer of a bit has its way."""
    model = model_of(sure=20)
    later = frames([126, 178, 178, 178], [178, 78, 78, 78])
    seen = dwmr.Transitions(frames([178] * 4, [78] * 4), np.zeros(2, int), later, n_actions=2)
    encoded = torch.tensor([[-2.0, 50, 50, 50], [50, -50, -50, -50]])
    predicted = torch.tensor([[20.0] * 4, [-20.0] * 4])
    one, other = best_scale(encoded, predicted > 0), best_scale(predicted, encoded > 0)
    bits, agreement = lesson(model, seen)
    assert bits.tolist() == (one * encoded + other * predicted > 0).tolist()
    assert bits[0].all()
    assert agreement == 0.75


def test_a_rate_that_is_too_high_is_said(teacher, ice):
    with pytest.raises(TrainingDiverged, match="round 1"):
        dwmr.distil(teacher, ice, rounds=1, epochs=2, batch_size=64, lr=1e30, progress=False)


@pytest.mark.parametrize("wrong", [0.02, 0.2])
def test_the_scale_makes_logits_good_odds(wrong):
    """A look that is wrong in a share of the bits, always equally sure of itself, is worth the log of its odds."""
    generator = torch.Generator().manual_seed(0)
    bits = torch.rand(20000, generator=generator) < 0.5
    slips = torch.rand(20000, generator=generator) < wrong
    logits = 10 * (2 * (bits ^ slips).float() - 1)
    odds = np.log((1 - wrong) / wrong)
    found = 10 * best_scale(logits, bits)
    step = SCALES[1] / SCALES[0]
    assert odds / step < found < odds * step


@pytest.fixture(scope="module")
def teacher(ice):
    return dwmr.train(dwmr.preset("iceslider/dwmr", epochs=3, batch_size=64), train=ice, progress=False).model


@pytest.fixture(scope="module")
def taught(teacher, ice):
    return dwmr.distil(teacher, ice, rounds=2, epochs=2, batch_size=64, progress=False)


def test_looks_agree_more_afterwards(teacher, taught, ice):
    before, after = (lesson(model, ice)[1] for model in (teacher, taught.model))
    assert after > before
    assert taught.rounds[0]["agreement"] == pytest.approx(before)
    for record in taught.rounds:
        assert record["encoding_loss"][-1] < record["encoding_loss"][0]


def test_the_teacher_stays_and_the_seed_decides(teacher, taught, ice):
    weights = {name: value.clone() for name, value in teacher.state_dict().items()}
    again = dwmr.distil(teacher, ice, rounds=2, epochs=2, batch_size=64, progress=False)
    other = dwmr.distil(teacher, ice, rounds=2, epochs=2, batch_size=64, seed=1, progress=False)
    assert again.rounds == taught.rounds
    assert other.rounds != taught.rounds
    for name, value in teacher.state_dict().items():
        assert torch.equal(value, weights[name])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rounds": 0}, "rounds must be at least 1"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"batch_size": 1}, "batch_size must be at least 2"),
        ({"lr": 0.0}, "lr must be a number above 0"),
        ({"batch_size": 10**6}, "do not fill one minibatch"),
    ],
)
def test_what_cannot_be_done_is_refused(teacher, ice, values, message):
    with pytest.raises(InputError, match=message):
        dwmr.distil(teacher, ice, **values)


def test_transitions_of_another_world_are_refused(teacher, ice):
    with pytest.raises(InputError, match="and 3"):
        dwmr.distil(teacher, replace(ice, actions=ice.actions % 3, n_actions=3))
