"""Naive twins of the losses: plain loops over Python floats, written straight from the paper's equations.

A code is a list of N samples, each a list of K numbers. Slow and obvious on purpose.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

EPS = 1e-6

Code = list[list[float]]


def mean(values: Iterable[float]) -> float:
    values = list(values)
    return sum(values) / len(values)


def variance_of(values: list[float]) -> float:
    """Var_n, with N − 1."""
    centre = mean(values)
    return sum((value - centre) ** 2 for value in values) / (len(values) - 1)


def column(code: Code, k: int) -> list[float]:
    return [sample[k] for sample in code]


def standardized(probs: Code) -> Code:
    """Eq. 2: (p_mk − E_n[p_nk]) / (σ_n[p_nk] + ε)."""
    bits = range(len(probs[0]))
    means = [mean(column(probs, k)) for k in bits]
    deviations = [math.sqrt(variance_of(column(probs, k))) for k in bits]
    return [[(sample[k] - means[k]) / (deviations[k] + EPS) for k in bits] for sample in probs]


def prediction(logits: Code, bits: Code) -> float:
    """Eq. 3: BCE(p̂', b'), where −log σ(x) = log(1 + e^−x) and −log(1 − σ(x)) = log(1 + e^x)."""
    return mean(
        bit * math.log1p(math.exp(-logit)) + (1 - bit) * math.log1p(math.exp(logit))
        for logit_row, bit_row in zip(logits, bits)
        for logit, bit in zip(logit_row, bit_row)
    )


def variance(probs: Code, gamma: float) -> float:
    """Eq. 4: (1/K) Σ_k max(0, γ − sqrt(v_k + ε))."""
    return mean(max(0.0, gamma - math.sqrt(variance_of(column(probs, k)) + EPS)) for k in range(len(probs[0])))


def correlation(probs: Code) -> float:
    """Eq. 5: 1/(K(K−1)) Σ_{i≠j} |C_ij|, with C = p̃ᵀp̃ / (N − 1)."""
    standard, bits = standardized(probs), len(probs[0])
    total = 0.0
    for i in range(bits):
        for j in range(bits):
            if i != j:
                total += abs(sum(sample[i] * sample[j] for sample in standard) / (len(probs) - 1))
    return total / (bits * (bits - 1))


def third_moment(standard: Code, i: int, j: int, k: int) -> float:
    """M_ijk = E_n[p̃_ni p̃_nj p̃_nk]."""
    return mean(sample[i] * sample[j] * sample[k] for sample in standard)


def coskewness(probs: Code, triplets: list[list[int]] | None = None) -> float:
    """Eq. 6: the mean of |M_ijk| over all distinct (i, j, k), or over the given triplets."""
    standard, bits = standardized(probs), range(len(probs[0]))
    if triplets is None:
        triplets = [[i, j, k] for i in bits for j in bits for k in bits if i != j and j != k and i != k]
    return mean(abs(third_moment(standard, *triplet)) for triplet in triplets)


def flipped_share(probs: list[float], next_bits: list[float]) -> float:
    """Eq. 7: d_n = 1/(0.75 K) Σ_k |p_nk − b'_nk| where that exceeds 0.5."""
    changes = [abs(p - b) for p, b in zip(probs, next_bits)]
    return sum(change for change in changes if change > 0.5) / (0.75 * len(probs))


def locality(probs: Code, next_bits: Code, low: float, high: float) -> float:
    """Eq. 8: E_n[max(0, |d_n − m| − w)²], with m = (L + U) / 2K and w = (U − L) / 2K."""
    bits = len(probs[0])
    middle, half_width = (low + high) / (2 * bits), (high - low) / (2 * bits)
    distances = [flipped_share(p, b) for p, b in zip(probs, next_bits)]
    return mean(max(0.0, abs(distance - middle) - half_width) ** 2 for distance in distances)


def reconstruction(decoded: list[float], images: list[float]) -> float:
    """MSE over all the pixels of all the images, given as two flat lists."""
    return mean((after - before) ** 2 for after, before in zip(decoded, images))


def kl(probs: Code) -> float:
    """Mean over samples and bits of KL(Bern(p) ‖ Bern(0.5)), with 0 log 0 = 0."""

    def divergence(p: float) -> float:
        return sum(share * math.log(share / 0.5) for share in (p, 1 - p) if share > 0)

    return mean(divergence(p) for sample in probs for p in sample)
