"""How well predicted codes match the codes of the frames that really came next."""

import numpy as np

from dwmr.models.callables import as_bits
from dwmr.models.world_model import Array, WorldModel


def agreement(predicted: np.ndarray, actual: np.ndarray) -> dict[str, float]:
    """Percent of equal codes (``exact_next``) and of equal bits (``bits_next``) between two arrays, bool (N, K)."""
    same = predicted == actual
    return {"exact_next": 100 * float(same.all(1).mean()), "bits_next": 100 * float(same.mean())}


def next_code_agreement(model: WorldModel, obs: Array, actions: Array, next_obs: Array) -> dict[str, float]:
    """`agreement` between the codes that a model predicts one step ahead and the codes of the next frames."""
    predicted = model.predict(model.encode(obs), actions)
    return agreement(as_bits(predicted), as_bits(model.encode(next_obs)))
