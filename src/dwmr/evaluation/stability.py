"""How much codes depend on the rendering of a state: pixel noise, and how often the data redraws a state."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from dwmr.data.transitions import Transitions
from dwmr.evaluation.codes import identify, share_with_others
from dwmr.models.callables import Encode, as_bits
from dwmr.seeding import rng
from dwmr.worlds.noise import add_noise

NOISE = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # standard deviations on the [0, 1] scale
MAX_NOISE_FRAMES = 2000
CHUNK = 1024  # pairs of frames compared at a time


def redrawn_share(transitions: Transitions) -> float | None:
    """Percent of the pairs next_obs[t], obs[t + 1] of an episode whose pixels differ; None without pairs.

    At 0 the data never renders a state in two ways, so it cannot show whether a code is stable.
    """
    if transitions.episode is None:
        return None
    pairs = np.stack(transitions.same_state_pairs(), axis=1)
    if not len(pairs):
        return None
    differ = [
        (transitions.next_obs[chunk[:, 0]] != transitions.obs[chunk[:, 1]]).reshape(len(chunk), -1).any(1)
        for chunk in np.array_split(pairs, -(-len(pairs) // CHUNK))
    ]
    return 100 * float(np.concatenate(differ).mean())


def redrawn_states(obs: np.ndarray, states: np.ndarray) -> float:
    """Percent of the frames (N, C, H, W) whose state (N, …) also occurs with other pixels."""
    digests = [hashlib.blake2b(np.asarray(frame).tobytes(), digest_size=16).digest() for frame in obs]
    pictures = np.frombuffer(b"".join(digests), np.uint8).reshape(len(obs), -1)
    return share_with_others(identify(pictures), identify(states))


def noise_stability(
    encode: Encode, transitions: Transitions, strengths: Sequence[float] = NOISE, seed: int = 0
) -> dict[str, dict[str, float]]:
    """Percent of frames that keep their code (``same_code``), and of bits that keep their value (``same_bits``), when
    pixel noise of each strength is added. Measured on at most 2,000 frames spread over the transitions."""
    chosen = np.unique(np.linspace(0, len(transitions) - 1, MAX_NOISE_FRAMES).astype(int))
    frames = np.asarray(transitions.obs[chosen])
    clean = as_bits(encode(frames))
    scores = {}
    for strength in strengths:
        noisy = add_noise(frames, rng(seed, "certify noise", round(1000 * strength)), strength)
        same = as_bits(encode(noisy)) == clean
        scores[f"{strength:g}"] = {"same_code": 100 * float(same.all(1).mean()), "same_bits": 100 * float(same.mean())}
    return scores
