"""The health of a code, most of it without labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from dwmr.evaluation.variance import two_looks, variance_parts
from dwmr.models.agreement import agreement


def code_health(
    codes: np.ndarray, next_codes: np.ndarray, predicted: np.ndarray, episode: np.ndarray | None
) -> dict[str, Any]:
    """Label-free health, from codes bool (N, K) of the frames, of the next frames, and as predicted from the former.

    In percent, unless said otherwise:

    bits             K (count)
    dead             bits that never change over the frames (count)
    duplicate        bits that equal, or are the complement of, an earlier live bit on every frame (count)
    flips_mean       bits that an action flips (mean count)
    exact_next       transitions whose whole next code is predicted rightly
    bits_next        bits of the next code predicted rightly
    exact_changed    the same as exact_next where the code changes, or None where it never does
    same_code        pairs of frames of one state (next_obs[t] and obs[t+1] of an episode) with the same code, or None
                     where the transitions name no episodes
    same_bits        bits that agree in those pairs, or None
    state_share      of a bit's variance over those pairs, the part that the state and not its drawing decides: mean
                     over the live bits, or None; see `variance.variance_parts`
    state_share_min  the same of the worst live bit, or None
    """
    everything = np.concatenate([codes, next_codes])
    dead, duplicate = _dead_and_duplicate(everything)
    health: dict[str, Any] = {
        "bits": codes.shape[1],
        "dead": dead,
        "duplicate": duplicate,
        "flips_mean": float((codes != next_codes).sum(1).mean()),
        **agreement(predicted, next_codes),
        **dict.fromkeys(("exact_changed", "same_code", "same_bits", "state_share", "state_share_min")),
    }
    changed = (codes != next_codes).any(1)
    if changed.any():
        health["exact_changed"] = 100 * float((predicted == next_codes)[changed].all(1).mean())
    one, other = two_looks(codes, next_codes, episode)
    if len(one):
        health["same_code"] = 100 * float((one == other).all(1).mean())
        health["same_bits"] = 100 * float((one == other).mean())
        shares = variance_parts(one, other).state_share
        if not np.isnan(shares).all():
            health |= {"state_share": float(np.nanmean(shares)), "state_share_min": float(np.nanmin(shares))}
    return health


def confusions(codes: np.ndarray, states: np.ndarray) -> dict[str, float]:
    """Where codes and states, both (N, …), are not one to one, in percent of the frames.

    collisions  frames whose code also stands for another state
    splits      frames whose state also has another code
    """
    code, state = identify(np.packbits(codes, axis=1)), identify(states)
    return {"collisions": share_with_others(state, code), "splits": share_with_others(code, state)}


def share_with_others(names: np.ndarray, things: np.ndarray) -> float:
    """Percent of the entries, numbers (N,) each, whose thing also stands under another name."""
    pairs = np.unique(np.stack([names, things], axis=1), axis=0)
    names_of_thing = np.bincount(pairs[:, 1])
    return 100 * float((names_of_thing[things] > 1).mean())


def _dead_and_duplicate(codes: np.ndarray) -> tuple[int, int]:
    live = codes[:, codes.any(0) & ~codes.all(0)]
    # A bit and its complement carry the same information: compare them with the first frame's value made 0.
    columns = np.packbits((live ^ live[:1]).T, axis=1)
    return codes.shape[1] - live.shape[1], len(columns) - len(np.unique(columns, axis=0))


def identify(rows: np.ndarray) -> np.ndarray:
    """A number for each row of (N, …), equal for equal rows."""
    packed = np.ascontiguousarray(rows.reshape(len(rows), -1))
    keys = packed.view(np.dtype((np.void, packed.dtype.itemsize * packed.shape[1]))).ravel()
    return np.unique(keys, return_inverse=True)[1].ravel()


def to_numpy(codes: torch.Tensor) -> np.ndarray:
    return codes.detach().cpu().numpy()
