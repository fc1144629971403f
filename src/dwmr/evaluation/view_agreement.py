"""Whether a code hangs on how a state is drawn: two frames of one state, and pixel noise added to a frame."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from dwmr.data.transitions import Transitions
from dwmr.evaluation.codes import identify, share_with_others
from dwmr.evaluation.variance import same_state_pairs
from dwmr.models.callables import Encode, as_bits
from dwmr.seeding import rng

NOISE = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # standard deviations on the [0, 1] scale
FRAMES = 2000  # frames that noise is added to


def redrawn_share(transitions: Transitions) -> float | None:
    """Percent of the pairs next_obs[t], obs[t + 1] of an episode whose pixels differ: where none does, the data never
    shows a state in another way, and stability under redrawing cannot be seen in it. None without pairs."""
    follows = same_state_pairs(transitions.episode)
    if not len(follows):
        return None
    differ = [
        (transitions.next_obs[part] != transitions.obs[part + 1]).reshape(len(part), -1).any(1)
        for part in np.array_split(follows, -(-len(follows) // 1024))
    ]
    return 100 * float(np.concatenate(differ).mean())


def redrawn_states(obs: np.ndarray, states: np.ndarray) -> float:
    """Percent of the frames (N, C, H, W) whose state (N, …) is also shown by another picture."""
    digests = [hashlib.blake2b(np.asarray(frame).tobytes(), digest_size=16).digest() for frame in obs]
    pictures = np.frombuffer(b"".join(digests), np.uint8).reshape(len(obs), -1)
    return share_with_others(identify(pictures), identify(states))


def noise_stability(
    encode: Encode, transitions: Transitions, strengths: Sequence[float] = NOISE, seed: int = 0
) -> dict[str, dict[str, float]]:
    """How frames keep their code when noise of each strength is added, in percent: ``same_code``, ``same_bits``.

    Asked of at most 2,000 frames spread over the transitions.
    """
    from dwmr.worlds.noise import add_noise

    chosen = np.unique(np.linspace(0, len(transitions) - 1, FRAMES).astype(int))
    frames = np.asarray(transitions.obs[chosen])
    clean = as_bits(encode(frames))
    found: dict[str, dict[str, Any]] = {}
    for strength in strengths:
        noisy = add_noise(frames, rng(seed, "certify noise", round(1000 * strength)), strength)
        same = as_bits(encode(noisy)) == clean
        found[f"{strength:g}"] = {
            "same_code": 100 * float(same.all(1).mean()),
            "same_bits": 100 * float(same.mean()),
        }
    return found
