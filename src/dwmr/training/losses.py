"""The loss terms of the paper, each a pure function from tensors to a scalar.

Codes have the shape (..., N, K): N samples of K bits. The last two axes are reduced; leading axes are
independent runs, and every hyperparameter may be a number or a tensor of their shape.
Variances and standard deviations divide by N − 1.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from dwmr.errors import InputError

EPS = 1e-6
LEAST_SHARED = 0.01  # a bit whose looks share less covariance is treated as if they shared this much
RARE = 1e-4  # added to variances that a correlation is divided by: those of the rarest bits worth having
STRAIGHT_BELOW = 0.001  # where the root of a shared covariance goes on as a straight line

Number = float | Tensor


def prediction(logits: Tensor, bits: Tensor) -> Tensor:
    """L_pred, eq. 3: binary cross-entropy of predicted logits (..., N, K) to target bits (..., N, K)."""
    return F.binary_cross_entropy_with_logits(logits, bits.to(logits.dtype), reduction="none").mean((-2, -1))


def later_prediction(logits: Tensor, bits: Tensor, seen: Tensor) -> Tensor:
    """`prediction` over the samples that are ``seen``, 0 or 1 (..., N): an episode may end before."""
    errors = F.binary_cross_entropy_with_logits(logits, bits.to(logits.dtype), reduction="none").mean(-1)
    return (errors * seen).sum(-1) / seen.sum(-1).clamp_min(1)


def variance(probs: Tensor, gamma: Number) -> Tensor:
    """L_var, eq. 4: how far each bit's standard deviation over the batch falls short of gamma."""
    deviation = (probs.var(-2, correction=1) + EPS).sqrt()
    return F.relu(_over_bits(gamma) - deviation).mean(-1)


def correlation(probs: Tensor) -> Tensor:
    """L_cor, eq. 5: mean absolute correlation of two distinct bits."""
    samples, bits = probs.shape[-2:]
    standard = standardize(probs)
    matrix = standard.mT @ standard / (samples - 1)
    distinct = matrix.abs().sum((-2, -1)) - matrix.diagonal(dim1=-2, dim2=-1).abs().sum(-1)
    return distinct / (bits * (bits - 1))


def coskewness(probs: Tensor, triplets: Tensor | None = None) -> Tensor:
    """L_cos, eq. 6: mean absolute third cross-moment of three distinct bits.

    ``triplets`` (..., T, 3), each of three distinct bits, restricts the mean to a sample of them.

    With all triplets, the sum over distinct indices is the sum over all of them, less those where at least two
    coincide: Σ|M_ijk| − 3 Σ|M_iij| + 2 Σ|M_iii|. No mask and no index gathering is needed.
    """
    samples, bits = probs.shape[-2:]
    standard = standardize(probs)
    if triplets is not None:
        columns = triplets.mT.flatten(-2).unsqueeze(-2).expand(*standard.shape[:-1], -1)
        first, second, third = standard.gather(-1, columns).unflatten(-1, (3, -1)).unbind(-2)
        return (first * second * third).mean(-2).abs().mean(-1)
    pairs = (standard.unsqueeze(-1) * standard.unsqueeze(-2)).flatten(-2)
    every = (pairs.mT @ standard).abs().sum((-2, -1))
    two_equal = (standard.square().mT @ standard).abs().sum((-2, -1))
    all_equal = standard.pow(3).sum(-2).abs().sum(-1)
    distinct = every - 3 * two_equal + 2 * all_equal
    return distinct / (samples * bits * (bits - 1) * (bits - 2))


def locality(probs: Tensor, next_bits: Tensor, low: Number, high: Number) -> Tensor:
    """L_loc, eq. 7 and 8: squared distance of the share of flipped bits from the window [low, high] / K."""
    bits = probs.shape[-1]
    change = (probs - next_bits.to(probs.dtype)).abs()
    flipped = (change * (change > 0.5)).sum(-1) / (0.75 * bits)
    middle = _over_bits((low + high) / (2 * bits))
    half_width = _over_bits((high - low) / (2 * bits))
    return F.relu((flipped - middle).abs() - half_width).square().mean(-1)


def reconstruction(decoded: Tensor, images: Tensor) -> Tensor:
    """L_rec: mean squared error of decoded to given images (..., N, C, H, W), or to vectors (N, D)."""
    if decoded.shape != images.shape:
        raise InputError(f"decoded images have shape {tuple(decoded.shape)}, expected {tuple(images.shape)}")
    reduced = (-4, -3, -2, -1) if decoded.ndim >= 4 else (-2, -1)
    return F.mse_loss(decoded, images, reduction="none").mean(reduced)


def kl(probs: Tensor) -> Tensor:
    """L_KL: mean divergence of the bits' Bernoulli distributions from Bernoulli(0.5)."""
    tiny = torch.finfo(probs.dtype).eps
    p = probs.clamp(tiny, 1 - tiny)
    return (p * (2 * p).log() + (1 - p) * (2 * (1 - p)).log()).mean((-2, -1))


def bit_error(values: Tensor, bits: Tensor) -> Tensor:
    """Mean squared error of two codes (..., N, K): DeepCubeAI's prediction terms."""
    return (values - bits).square().mean((-2, -1))


def cross_covariance(first: Tensor, second: Tensor) -> Tensor:
    """Σ (..., K, K): covariance over the batch of each bit of one look with each bit of the other."""
    samples = first.shape[-2]
    centred = first - first.mean(-2, keepdim=True)
    return centred.mT @ (second - second.mean(-2, keepdim=True)) / (samples - 1)


def cross_variance(covariance: Tensor, gamma: Number) -> Tensor:
    """How far the root of each bit's covariance with itself in the other look falls short of gamma: `variance`, of
    what both looks show. What only one of them shows, such as a handwriting, adds nothing.

    Below `STRAIGHT_BELOW` the root goes on as a straight line, so that it has a slope where nothing is shared yet.
    """
    shared = covariance.diagonal(dim1=-2, dim2=-1)
    least = STRAIGHT_BELOW**0.5
    bent = shared.clamp_min(STRAIGHT_BELOW).sqrt()
    deviation = torch.where(shared > STRAIGHT_BELOW, bent, least + (shared - STRAIGHT_BELOW) / (2 * least))
    return F.relu(_over_bits(gamma) - deviation).mean(-1)


def cross_correlation(covariance: Tensor, margin: Number) -> Tensor:
    """Mean excess over a margin of the absolute correlation of two distinct bits across the looks."""
    bits = covariance.shape[-1]
    shared = covariance.diagonal(dim1=-2, dim2=-1).detach().clamp_min(LEAST_SHARED).sqrt()
    matrix = (covariance + covariance.mT) / (2 * shared.unsqueeze(-1) * shared.unsqueeze(-2))
    excess = F.relu(matrix.abs() - _over_bits(_over_bits(margin)))
    distinct = excess.sum((-2, -1)) - excess.diagonal(dim1=-2, dim2=-1).sum(-1)
    return distinct / (bits * (bits - 1))


def agreement(first: Tensor, second: Tensor) -> Tensor:
    """Mean of 1 − ρ over the bits, ρ the correlation of a bit with itself in the other look. However rare a bit is,
    it counts as much as any other; a constant one agrees in nothing."""
    samples = first.shape[-2]
    one, other = (look - look.mean(-2, keepdim=True) for look in (first, second))
    spread = ((one.square().sum(-2) / (samples - 1) + RARE) * (other.square().sum(-2) / (samples - 1) + RARE)).sqrt()
    return (1 - (one * other).sum(-2) / (samples - 1) / spread).mean(-1)


def by_cell(codes: Tensor, cells: int) -> Tensor:
    """Codes (..., N, K) laid out as (channels, cells), as codes of single cells (..., N · cells, channels)."""
    return codes if cells == 1 else codes.unflatten(-1, (-1, cells)).transpose(-2, -1).flatten(-3, -2)


def standardize(probs: Tensor) -> Tensor:
    """Eq. 2: each bit less its batch mean, over its standard deviation + ε; a constant bit becomes 0."""
    centred = probs - probs.mean(-2, keepdim=True)
    spread = probs.var(-2, correction=1, keepdim=True)
    # The mean of equal numbers need not be that number, and the root's slope at 0 is infinite: constant bits are kept
    # out of both, so that they and their gradients are 0, not noise over ε, and not NaN.
    varies = (probs != probs[..., :1, :]).any(-2, keepdim=True) & ~(spread <= 0)  # NaN stays NaN
    deviation = torch.where(varies, torch.where(varies, spread, 1.0).sqrt(), 0.0)
    return torch.where(varies, centred, 0.0) / (deviation + EPS)


def _over_bits(value: Number) -> Number:
    """A hyperparameter with the runs' shape, made to broadcast against (..., K) or (..., N)."""
    return value.unsqueeze(-1) if isinstance(value, Tensor) and value.ndim else value
