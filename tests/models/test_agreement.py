"""Predicted codes against those of the next frames."""

from dwmr.models.agreement import next_code_agreement
from tests.evaluation.ring import Stay, ring_model, ring_transitions


def test_a_perfect_model_agrees_always_and_one_that_never_moves_in_half_the_bits():
    data = ring_transitions()
    arrays = (data.obs, data.actions, data.next_obs)
    assert next_code_agreement(ring_model(), *arrays) == {"exact_next": 100, "bits_next": 100}
    assert next_code_agreement(ring_model(Stay()), *arrays) == {"exact_next": 0, "bits_next": 50}
