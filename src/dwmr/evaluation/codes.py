"""The health of a code, most of it without labels: two plain callables and transitions suffice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dwmr.errors import InputError
from dwmr.transitions import Transitions
from dwmr.world_model import WorldModel

Encode = Callable[[np.ndarray], Any]
Predict = Callable[[Any, np.ndarray], Any]


def next_code_agreement(model: WorldModel, transitions: Transitions) -> dict[str, float]:
    """How the predicted codes agree with the encoded next images, in percent: whole codes, and single bits."""
    codes = model.encode(transitions.obs)
    predicted = model.predict(codes, np.asarray(transitions.actions))
    return _agreement(_as_bits(predicted), _as_bits(model.encode(transitions.next_obs)))


def certify(encode: Encode, predict: Predict, transitions: Transitions) -> dict[str, Any]:
    """Label-free health of anyone's Boolean world model.

    ``encode(images)`` takes uint8 (N, C, H, W) and returns bits (N, K); ``predict(bits, actions)`` takes what encode
    returned and integers (N,), and returns the next bits (N, K). In percent, unless said otherwise:

    bits         K (count)
    dead         bits that never change over the frames (count)
    duplicate    bits that equal, or are the complement of, an earlier live bit on every frame (count)
    flips_mean   bits that an action flips (mean count)
    exact_next   transitions whose whole next code is predicted rightly
    bits_next    bits of the next code predicted rightly
    same_code    pairs of frames of one state (next_obs[t] and obs[t+1] of an episode) with the same code, or None
                 where the transitions name no episodes
    same_bits    bits that agree in those pairs, or None
    """
    raw = encode(transitions.obs)
    codes, next_codes = _as_bits(raw), _as_bits(encode(transitions.next_obs))
    predicted = _as_bits(predict(raw, np.asarray(transitions.actions)))
    if not codes.shape == next_codes.shape == predicted.shape or len(codes) != len(transitions):
        raise InputError(
            f"encode and predict must return codes of one shape (N, K) with N = {len(transitions)}, "
            f"got {codes.shape}, {next_codes.shape} and {predicted.shape}"
        )
    return code_health(codes, next_codes, predicted, transitions.episode)


def code_health(
    codes: np.ndarray, next_codes: np.ndarray, predicted: np.ndarray, episode: np.ndarray | None
) -> dict[str, Any]:
    """`certify` from codes that were computed already, bool (N, K) each."""
    everything = np.concatenate([codes, next_codes])
    dead, duplicate = _dead_and_duplicate(everything)
    health: dict[str, Any] = {
        "bits": codes.shape[1],
        "dead": dead,
        "duplicate": duplicate,
        "flips_mean": float((codes != next_codes).sum(1).mean()),
        **_agreement(predicted, next_codes),
        "same_code": None,
        "same_bits": None,
    }
    follows = np.flatnonzero(episode[1:] == episode[:-1]) if episode is not None else np.empty(0, int)
    if len(follows):
        same = next_codes[follows] == codes[follows + 1]
        health["same_code"] = 100 * float(same.all(1).mean())
        health["same_bits"] = 100 * float(same.mean())
    return health


def confusions(codes: np.ndarray, states: np.ndarray) -> dict[str, float]:
    """Where codes and states, both (N, …), are not one to one, in percent of the frames.

    collisions  frames whose code also stands for another state
    splits      frames whose state also has another code
    """
    code, state = _identify(np.packbits(codes, axis=1)), _identify(states.reshape(len(states), -1))
    pairs = np.unique(np.stack([code, state], axis=1), axis=0)
    states_of_code = np.bincount(pairs[:, 0])
    codes_of_state = np.bincount(pairs[:, 1])
    return {
        "collisions": 100 * float((states_of_code[code] > 1).mean()),
        "splits": 100 * float((codes_of_state[state] > 1).mean()),
    }


def _agreement(predicted: np.ndarray, actual: np.ndarray) -> dict[str, float]:
    same = predicted == actual
    return {"exact_next": 100 * float(same.all(1).mean()), "bits_next": 100 * float(same.mean())}


def _dead_and_duplicate(codes: np.ndarray) -> tuple[int, int]:
    live = codes[:, codes.any(0) & ~codes.all(0)]
    # A bit and its complement carry the same information: compare them with the first frame's value made 0.
    columns = np.packbits((live ^ live[:1]).T, axis=1)
    return codes.shape[1] - live.shape[1], len(columns) - len(np.unique(columns, axis=0))


def _identify(rows: np.ndarray) -> np.ndarray:
    """A number for each row (N,), equal for equal rows."""
    packed = np.ascontiguousarray(rows)
    keys = packed.view(np.dtype((np.void, packed.dtype.itemsize * packed.shape[1]))).ravel()
    return np.unique(keys, return_inverse=True)[1].ravel()


def _as_bits(codes: Any) -> np.ndarray:
    array = codes.detach().cpu().numpy() if isinstance(codes, Tensor) else np.asarray(codes)
    if array.ndim != 2:
        raise InputError(f"codes must have the shape (N, K), got {array.shape}")
    if array.dtype != np.bool_:
        if not np.isin(array, (0, 1)).all():
            raise InputError("codes must be Boolean, or numbers 0 and 1")
        array = array.astype(bool)
    return array


def to_numpy(codes: torch.Tensor) -> np.ndarray:
    return codes.detach().cpu().numpy()
