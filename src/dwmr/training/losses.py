"""The loss terms, each a pure function from tensors to a scalar, with the paper's equation numbers.

Codes have the shape (N, K): N samples of K bits. Hyperparameters are numbers or scalar tensors. Variances and standard
deviations divide by N − 1. Several runs at once go through `torch.vmap`; nothing here knows of it.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from dwmr.errors import InputError
from dwmr.ops import coskewness as third_moments
from dwmr.ops.coskewness import standardize

EPS = 1e-6
MIN_SHARED_COVARIANCE = 0.01  # bits that the views share less of are correlated as if they shared this much
MIN_VARIANCE = 1e-4  # added to variances before dividing by them: that of the rarest bits worth having
LINEAR_BELOW = 0.001  # covariance below which its square root is continued as a straight line

Number = float | Tensor


def prediction(logits: Tensor, bits: Tensor) -> Tensor:
    """L_pred, eq. 3: binary cross-entropy of predicted logits (N, K) against target bits (N, K)."""
    return F.binary_cross_entropy_with_logits(logits, bits.to(logits.dtype), reduction="none").mean((-2, -1))


def later_prediction(logits: Tensor, bits: Tensor, seen: Tensor) -> Tensor:
    """`prediction` over the samples marked in ``seen``, 0 or 1 (N,), because an episode may have ended."""
    errors = F.binary_cross_entropy_with_logits(logits, bits.to(logits.dtype), reduction="none").mean(-1)
    return (errors * seen).sum(-1) / seen.sum(-1).clamp_min(1)


def variance(probs: Tensor, gamma: Number) -> Tensor:
    """L_var, eq. 4: how far each bit's standard deviation over the batch falls short of gamma."""
    deviation = (probs.var(-2, correction=1) + EPS).sqrt()
    return F.relu(gamma - deviation).mean(-1)


def correlation(probs: Tensor) -> Tensor:
    """L_cor, eq. 5: mean absolute correlation of two distinct bits."""
    samples, bits = probs.shape[-2:]
    standard = standardize(probs)
    matrix = standard.mT @ standard / (samples - 1)
    distinct = matrix.abs().sum((-2, -1)) - matrix.diagonal(dim1=-2, dim2=-1).abs().sum(-1)
    return distinct / (bits * (bits - 1))


def coskewness(probs: Tensor, triplets: Tensor | None = None) -> Tensor:
    """L_cos, eq. 6: mean absolute third cross-moment of three distinct bits.

    Args:
        probs: bit probabilities (N, K).
        triplets: indices (T, 3) of three distinct bits each; the mean is over these. None: over all triplets.
    """
    if triplets is None:
        return third_moments.coskewness(probs)
    standard = standardize(probs)
    first, second, third = (standard.index_select(-1, triplets[..., k]) for k in range(3))
    return (first * second * third).mean(-2).abs().mean(-1)


def locality(probs: Tensor, next_bits: Tensor, low: Number, high: Number) -> Tensor:
    """L_loc, eq. 7 and 8: squared distance of the share of flipped bits from the window [low, high] / K."""
    bits = probs.shape[-1]
    change = (probs - next_bits.to(probs.dtype)).abs()
    flipped = (change * (change > 0.5)).sum(-1) / (0.75 * bits)
    middle = (low + high) / (2 * bits)
    half_width = (high - low) / (2 * bits)
    return F.relu((flipped - middle).abs() - half_width).square().mean(-1)


def reconstruction(decoded: Tensor, images: Tensor) -> Tensor:
    """L_rec: mean squared error of decoded against given images (N, C, H, W), or vectors (N, D)."""
    if decoded.shape != images.shape:
        raise InputError(f"decoded images have shape {tuple(decoded.shape)}, expected {tuple(images.shape)}")
    return F.mse_loss(decoded, images, reduction="none").mean(tuple(range(-images.ndim, 0)))


def kl(probs: Tensor) -> Tensor:
    """L_KL: mean KL divergence of the bits' Bernoulli distributions from Bernoulli(0.5)."""
    tiny = torch.finfo(probs.dtype).eps
    p = probs.clamp(tiny, 1 - tiny)
    return (p * (2 * p).log() + (1 - p) * (2 * (1 - p)).log()).mean((-2, -1))


def bit_error(values: Tensor, bits: Tensor) -> Tensor:
    """Mean squared error of two codes (N, K): DeepCubeAI's prediction terms."""
    return (values - bits).square().mean((-2, -1))


def cross_covariance(first: Tensor, second: Tensor) -> Tensor:
    """Covariance (K, K) over the batch of each bit of one view (N, K) with each bit of the other."""
    samples = first.shape[-2]
    centred = first - first.mean(-2, keepdim=True)
    return centred.mT @ (second - second.mean(-2, keepdim=True)) / (samples - 1)


def cross_variance(covariance: Tensor, gamma: Number) -> Tensor:
    """How far the root of each bit's covariance between the views falls short of gamma.

    This is `variance` of what both views show. What only one view shows, such as a handwriting, earns nothing. Below
    `LINEAR_BELOW` the root is continued as a straight line, so that it has a finite slope at 0 and below.
    """
    shared = covariance.diagonal(dim1=-2, dim2=-1)
    least = LINEAR_BELOW**0.5
    root = shared.clamp_min(LINEAR_BELOW).sqrt()
    deviation = torch.where(shared > LINEAR_BELOW, root, least + (shared - LINEAR_BELOW) / (2 * least))
    return F.relu(gamma - deviation).mean(-1)


def cross_correlation(covariance: Tensor, margin: Number) -> Tensor:
    """Mean amount by which the absolute correlation of two distinct bits across the views exceeds a margin."""
    bits = covariance.shape[-1]
    shared = covariance.diagonal(dim1=-2, dim2=-1).detach().clamp_min(MIN_SHARED_COVARIANCE).sqrt()
    matrix = (covariance + covariance.mT) / (2 * shared.unsqueeze(-1) * shared.unsqueeze(-2))
    excess = F.relu(matrix.abs() - margin)
    distinct = excess.sum((-2, -1)) - excess.diagonal(dim1=-2, dim2=-1).sum(-1)
    return distinct / (bits * (bits - 1))


def agreement(first: Tensor, second: Tensor) -> Tensor:
    """Mean of 1 − ρ over the bits, ρ the correlation of a bit with itself in the other view.

    A rare bit counts as much as any other; a constant bit agrees in nothing.
    """
    samples = first.shape[-2]
    one, other = (view - view.mean(-2, keepdim=True) for view in (first, second))
    one_variance, other_variance = (view.square().sum(-2) / (samples - 1) + MIN_VARIANCE for view in (one, other))
    return (1 - (one * other).sum(-2) / (samples - 1) / (one_variance * other_variance).sqrt()).mean(-1)


def by_cell(codes: Tensor, cells: int) -> Tensor:
    """Codes (N, K) laid out as (channels, cells) as codes of single cells (N · cells, channels)."""
    return codes if cells == 1 else codes.unflatten(-1, (-1, cells)).transpose(-2, -1).flatten(-3, -2)
