"""How much a code of K bits can say: entropies, directions of its covariance, distinct codes. Label-free."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def information(codes: np.ndarray) -> dict[str, float | int]:
    """Of codes bool (N, K):

    frames          N (count)
    distinct        different codes among them (count)
    code_entropy    entropy of the codes as they occur, in bits; log2 of the frames at most
    bit_entropy     sum of the entropies of the single bits, in bits: what they would say if they were independent
    participation   (Σλ)² / Σλ² of the covariance's eigenvalues λ: K for independent equally varying bits, 1 where all
                    move together
    rank            eigenvalues that are not zero (count): live bits less the linear repetitions among them
    """
    count = len(codes)
    packed = np.ascontiguousarray(np.packbits(codes, axis=1))
    times = np.unique(packed.view(np.dtype((np.void, packed.shape[1]))).ravel(), return_counts=True)[1]
    rates = codes.mean(0)
    eigenvalues = np.linalg.eigvalsh(np.atleast_2d(np.cov(codes.T.astype(float), bias=True)))
    squares = float((eigenvalues**2).sum())
    return {
        "frames": count,
        "distinct": len(times),
        "code_entropy": float(_entropy(times / count).sum()),
        "bit_entropy": float((_entropy(rates) + _entropy(1 - rates)).sum()),
        "participation": float(eigenvalues.sum() ** 2 / squares) if squares > 0 else 0.0,
        "rank": int((eigenvalues > 1e-9 * max(float(eigenvalues.max()), 1e-9)).sum()),
    }


def shared_dimensions(one: Tensor, other: Tensor) -> float:
    """How many independent directions two codes (N, K) of the same states have in common: Σρ² over their canonical
    correlations ρ, from 0 to K. Of predicted and encoded next codes it asks for what a good model has: bits that say
    much (a constant bit, or one that repeats others, adds nothing) and that can be foretold (noise adds nothing)."""
    first, second = (code.double() - code.double().mean(0) for code in (one, other))
    count = len(first)

    def whitened(code: Tensor) -> Tensor:
        values, vectors = torch.linalg.eigh(code.T @ code / count)
        live = values > 1e-6
        return code @ (vectors[:, live] / values[live].sqrt())

    return float((whitened(first).T @ whitened(second) / count).square().sum())


def _entropy(probs: np.ndarray) -> np.ndarray:
    """−p log2 p of each probability, 0 at 0; the sign of zero is that of nothing."""
    known = np.where(probs > 0, probs, 1.0)
    return np.abs(probs * np.log2(known))
