"""The health of a code: dead bits, stability, collisions. Most of it needs no labels."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from dwmr.data.transitions import continued
from dwmr.models.callables import agreement
from dwmr.seeding import rng


def code_health(
    codes: np.ndarray, next_codes: np.ndarray, predicted: np.ndarray, episode: np.ndarray | None
) -> dict[str, Any]:
    """Label-free health of a code, in percent unless a count is named.

    bits             K (count)
    dead             bits that never change (count)
    duplicate        bits that equal an earlier live bit, or its complement, on every frame (count)
    flips_mean       bits flipped by an action (mean count)
    exact_next       transitions whose whole next code is predicted correctly
    bits_next        bits of the next code predicted correctly
    exact_changed    exact_next over the transitions that change the code; None if none does
    same_code        pairs of frames of one state (next_obs[t] and obs[t + 1] of an episode) with the same code
    same_bits        bits that agree in those pairs
    state_share      `state_shares`, mean over the live bits; state_share_min: of the worst live bit

    The last four are None without ``episode``, integers (N,). The codes of the frames, the codes of the next frames and
    the next codes predicted from the former are bool (N, K) each.
    """
    dead, duplicate = _dead_and_duplicate(np.concatenate([codes, next_codes]))
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
    before, after = continued(episode) if episode is not None else ((), ())
    if len(before):
        first, second = next_codes[before], codes[after]
        health["same_code"] = 100 * float((first == second).all(1).mean())
        health["same_bits"] = 100 * float((first == second).mean())
        shares = state_shares(first, second)
        if not np.isnan(shares).all():
            health |= {"state_share": float(np.nanmean(shares)), "state_share_min": float(np.nanmin(shares))}
    return health


def state_shares(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Percent of each bit's variance that the state explains, (K,), from the codes of P pairs of frames of one state,
    (P, K) each; NaN for bits that never change.

    Given the state, two renderings are independent. So the covariance of a bit between the two frames is the variance
    that the state explains, and the rest comes from the rendering. Both frames have the same distribution, so means and
    variances are pooled. With few pairs a share can be negative.
    """
    first, second = first.astype(float), second.astype(float)
    mean = (first.mean(0) + second.mean(0)) / 2
    total = (((first - mean) ** 2).mean(0) + ((second - mean) ** 2).mean(0)) / 2
    state = ((first - mean) * (second - mean)).mean(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(total > 0, 100 * state / total, np.nan)


class KnownCodes:
    """Which states share a code, among known frames with codes (N, K) and states given by their `row_hashes` (N,)."""

    def __init__(self, codes: np.ndarray, state_hashes: np.ndarray) -> None:
        hashes = row_hashes(codes)
        order = np.lexsort([state_hashes, hashes])
        codes, states = hashes[order], state_hashes[order]
        first = np.append(0, 1 + np.flatnonzero(codes[1:] != codes[:-1]))
        last = np.append(first[1:], len(codes)) - 1
        self.codes, self.states, self.one_state = codes[first], states[first], states[first] == states[last]

    def unique(self, codes: np.ndarray, state_hashes: np.ndarray) -> np.ndarray:
        """Whether no known frame of another state has the code, bool (M,)."""
        hashes = row_hashes(codes)
        place = np.searchsorted(self.codes, hashes).clip(max=len(self.codes) - 1)
        alone = self.one_state[place] & (self.states[place] == state_hashes)
        return np.where(self.codes[place] == hashes, alone, True)


def confusions(codes: np.ndarray, states: np.ndarray) -> dict[str, float]:
    """Where codes (N, K) and states (N, …) are not one to one, in percent of the frames.

    collisions  frames whose code also stands for another state
    splits      frames whose state also has another code
    """
    code, state = (np.unique(row_hashes(rows), return_inverse=True)[1] for rows in (codes, states))
    pairs = np.unique(code * len(state) + state)
    states_of_code, codes_of_state = (np.bincount(each) for each in np.divmod(pairs, len(state)))
    return {
        "collisions": 100 * float((states_of_code[code] > 1).mean()),
        "splits": 100 * float((codes_of_state[state] > 1).mean()),
    }


def shared_dimensions(first: Tensor, second: Tensor) -> float:
    """How many independent directions two codes (N, K) of the same states share, from 0 to K.

    This is Σρ² over their canonical correlations ρ. Between predicted and encoded next codes it rewards bits that carry
    information (a constant or repeated bit adds nothing) and that can be predicted (noise adds nothing).
    """

    def whitened(code: Tensor) -> Tensor:
        centred = code.double() - code.double().mean(0)
        values, vectors = torch.linalg.eigh(centred.T @ centred / len(centred))
        live = values > 1e-6
        return centred @ (vectors[:, live] / values[live].sqrt())

    return float((whitened(first).T @ whitened(second) / len(first)).square().sum())


def identify(rows: np.ndarray) -> np.ndarray:
    """A number for each row of (N, …); equal rows get equal numbers."""
    return np.unique(rows.reshape(len(rows), -1), axis=0, return_inverse=True)[1].ravel()


def row_hashes(rows: np.ndarray) -> np.ndarray:
    """A 64-bit hash of each row of bits or whole numbers (N, …)."""
    flat = rows.reshape(len(rows), -1)
    flat = (np.packbits(flat, axis=1) if flat.dtype == bool else flat).astype(np.uint64)
    return flat @ rng(0, "row hashes").integers(2**64, size=flat.shape[1], dtype=np.uint64)


def _dead_and_duplicate(codes: np.ndarray) -> tuple[int, int]:
    live = codes[:, codes.any(0) & ~codes.all(0)]
    # A bit and its complement carry the same information, so each is compared with its value on the first frame.
    columns = np.packbits((live ^ live[:1]).T, axis=1)
    return codes.shape[1] - live.shape[1], len(columns) - len({column.tobytes() for column in columns})
