"""A first code from what changes least: slow features of the untrained encoder.

Random layers already tell a rock from an agent, but objects that fall on the same side of every bit's random threshold
may never be told apart again. So the last layer begins with the directions that successive frames have most in common:
noise and handwriting differ between frames, most of the state does not. With C the covariance of the layer's inputs and
S that between a frame and the next, they are the first solutions of S w = λ C w, uncorrelated, slowest first. Each
bit's threshold is the one at which the frames agree best. Nothing but transitions is used.
"""

import math
import statistics

import numpy as np
import torch
from torch import Tensor, nn

from dwmr.data.transitions import Transitions
from dwmr.errors import InputError
from dwmr.models.world_model import WorldModel

TRANSITIONS = 2000  # looked at, evenly over the data
CHUNK = 250
LEAST = 1e-4  # variance of an input direction that counts, of the largest one
LEAST_SPREAD = 0.005  # variance that a bit should have: small differences are no reason for a threshold between them
SHARPNESS = 2.0  # logits of one standard deviation
THRESHOLDS = torch.linspace(-5, 5, 101, dtype=torch.float64)  # in standard deviations


@torch.no_grad()
def init_from_slow_features(model: WorldModel, train: Transitions) -> None:
    """Set the weights of the encoder's last layer, which is linear, or a convolution over disjoint patches."""
    last = _last_layer(model.encoder)
    chosen = np.linspace(0, len(train) - 1, min(TRANSITIONS, len(train))).astype(int)
    set_running_statistics(model, train.obs[chosen])
    now, then = (_inputs(model, last, frames[chosen]) for frames in (train.obs, train.next_obs))
    mean = (now.mean(0) + then.mean(0)) / 2
    directions = _slowest(now - mean, then - mean, last.weight.shape[0])
    thresholds = _best_thresholds((now - mean) @ directions, (then - mean) @ directions)
    weight, bias = SHARPNESS * directions.T, -SHARPNESS * (thresholds + mean @ directions)
    for parameter, values in zip(last.parameters(), (weight, bias)):
        parameter.copy_(values.reshape(parameter.shape))


def _last_layer(encoder: nn.Module) -> nn.Linear | nn.Conv2d:
    layers = [layer for layer in encoder.modules() if isinstance(layer, nn.Linear | nn.Conv2d)]
    if not layers or layers[-1].bias is None:
        raise InputError("init_from_slow_features needs an encoder whose last layer is linear, with a bias")
    last = layers[-1]
    if isinstance(last, nn.Conv2d) and (last.kernel_size != last.stride or last.padding != (0, 0)):
        raise InputError("init_from_slow_features needs a last convolution over disjoint patches")
    return last


def set_running_statistics(model: WorldModel, frames: np.ndarray) -> None:
    """Give batch normalisations the running statistics of these frames: single batches differ, and what two successive
    frames owe to the batch they are in would look slow."""
    momenta = {layer: layer.momentum for layer in model.encoder.modules() if isinstance(layer, nn.BatchNorm2d)}
    for norm in momenta:
        norm.reset_running_stats()
        norm.momentum = None  # the mean of all batches
    if momenta:
        model.encoder.train()
        _through(model, frames)
    for norm, momentum in momenta.items():
        norm.momentum = momentum


def _inputs(model: WorldModel, last: nn.Module, frames: np.ndarray) -> Tensor:
    """What the encoder's last layer sees in these frames, one row for each time that it is applied."""
    seen: list[Tensor] = []

    def keep(layer: nn.Module, given: tuple[Tensor], made: Tensor) -> None:
        rows = given[0]
        if isinstance(last, nn.Conv2d):
            rows = nn.functional.unfold(rows, last.kernel_size, stride=last.stride).mT  # (N, patches, C · rows · cols)
        seen.append(rows.flatten(0, -2).double())

    hook = last.register_forward_hook(keep)
    model.encoder.eval()
    _through(model, frames)
    hook.remove()
    return torch.cat(seen)


def _through(model: WorldModel, frames: np.ndarray) -> None:
    for part in np.array_split(frames, max(1, len(frames) // CHUNK)):
        model.encoder(model.normalize(torch.as_tensor(np.array(part), device=model.device)))


def _slowest(now: Tensor, then: Tensor, count: int) -> Tensor:
    """The ``count`` directions, (D, count), of unit variance and uncorrelated, that now and then share most. Where the
    inputs vary too little for a direction to count, it is zero."""
    total = (now.T @ now + then.T @ then) / (2 * len(now))
    values, vectors = torch.linalg.eigh(total)
    live = values > LEAST * values[-1]
    whiten = vectors[:, live] / values[live].sqrt()
    between = whiten.T @ (now.T @ then) @ whiten / len(now)
    slow = whiten @ torch.linalg.eigh((between + between.T) / 2)[1].flip(1)[:, :count]
    slow = torch.where((now @ slow).pow(3).mean(0) < 0, -slow, slow)  # the rarer side is 1
    return nn.functional.pad(slow, (0, count - slow.shape[1]))


def _best_thresholds(now: Tensor, then: Tensor) -> Tensor:
    """For each direction the threshold at which the probabilities of now and then are most correlated; where a range of
    them is as good, as between two clusters without noise, its middle."""
    found = []
    tried = THRESHOLDS.tolist()
    for one, other in zip(now.T, then.T):
        scores = []
        for threshold in tried:
            pair = torch.stack([one, other]).sub(threshold).mul_(SHARPNESS).sigmoid_()
            (first, both), (_, second) = torch.cov(pair).tolist()
            scores.append(both / (math.sqrt(first * second) + LEAST_SPREAD))
        best = max(scores) - 1e-3
        found.append(statistics.median(threshold for threshold, score in zip(tried, scores) if score > best))
    return torch.tensor(found).to(now)
