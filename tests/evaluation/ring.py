"""A tiny world: a light on a ring of four places. Action 0 moves it right, action 1 left."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from dwmr import Rollouts, Transitions, WorldModel
from dwmr.evaluation.probes import Probe, fit_probes

PLACES = 4
RIGHT, LEFT = 0, 1


def draw(places: np.ndarray) -> np.ndarray:
    """Images (…, 1, 1, 4): one bright pixel."""
    return (255 * np.eye(PLACES, dtype=np.uint8)[places])[..., None, None, :]


def fit_probe(codes: Tensor, states: np.ndarray, n_classes: int, kind: str = "affine", seed: int = 0) -> Probe:
    """A probe for one model's codes."""
    return fit_probes(codes[None], states, n_classes, kind, seed)[0]


class Lights(nn.Module):
    """The image itself is the code."""

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1) - 0.5


class Turn(nn.Module):
    """The right predictor."""

    def forward(self, codes: Tensor, actions: Tensor) -> Tensor:
        return torch.where(actions[:, :1] > 0, codes.roll(1, -1), codes.roll(-1, -1)) - 0.5


class Stay(nn.Module):
    """A wrong one: nothing ever moves."""

    def forward(self, codes: Tensor, actions: Tensor) -> Tensor:
        return codes - 0.5


def ring_model(predictor: nn.Module | None = None) -> WorldModel:
    return WorldModel(Lights(), predictor or Turn(), image_shape=(1, 1, PLACES), n_actions=2, bits=PLACES)


def walk(actions: np.ndarray) -> np.ndarray:
    """The places (E, T + 1) of walks with the actions (E, T) that begin at place 0."""
    return np.pad(np.cumsum(np.where(actions == RIGHT, 1, -1), axis=1), ((0, 0), (1, 0))) % PLACES


def ring_transitions(episodes: int = 200, steps: int = 40, *, labels: bool = True) -> Transitions:
    """Random walks, enough of them to fit a probe; the board is one cell that holds the place."""
    actions = np.random.default_rng(0).integers(2, size=(episodes, steps))
    places = walk(actions)
    now, then = places[:, :-1].reshape(-1), places[:, 1:].reshape(-1)
    boards = {"state": now[:, None], "next_state": then[:, None], "n_classes": PLACES} if labels else {}
    return Transitions(
        draw(now),
        actions.ravel(),
        draw(then),
        n_actions=2,
        episode=np.repeat(np.arange(episodes), steps),
        **boards,
    )


def ring_rollouts(actions: list[list[int]], horizons: tuple[int, ...], length: list[int] | None = None) -> Rollouts:
    places = walk(np.array(actions))[:, list(horizons)]
    return Rollouts(
        draw(places),
        np.array(actions),
        horizons,
        n_actions=2,
        length=np.array(length or [len(actions[0])] * len(actions)),
        state=places[..., None],
        n_classes=PLACES,
    )
