"""Transitions as a finished encoder sees them: codes in place of images, so that every image is encoded once."""

import dataclasses

import numpy as np
import torch
from torch import Tensor, nn

from dwmr.data.transitions import Transitions
from dwmr.models.world_model import WorldModel


class GivenCodes(nn.Module):
    """An encoder of images that are codes already, as `coded` makes them."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))  # optimizers refuse a network without parameters

    def forward(self, images: Tensor) -> Tensor:
        return self.scale * (2 * images.flatten(-3) - 1)


def coded(model: WorldModel, transitions: Transitions) -> Transitions:
    """The transitions with codes for images, uint8 (N, K, 1, 1): 0 or 255."""

    def images(frames: np.ndarray) -> np.ndarray:
        return 255 * model.encode(frames).cpu().numpy().astype(np.uint8)[:, :, None, None]

    obs, next_obs = images(transitions.obs), images(transitions.next_obs)
    return dataclasses.replace(transitions, obs=obs, next_obs=next_obs)


def normalize_codes(codes: Tensor) -> Tensor:
    """Bytes as `coded` makes them to 0 and 1."""
    return codes.float() / 255
