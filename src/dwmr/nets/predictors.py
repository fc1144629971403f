"""Predictors: codes (N, K) and one-hot actions (N, A) to the logits (N, K) of the next code."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from dwmr.errors import InputError

from .encoders import ImageShape


class MLPPredictor(nn.Module):
    """Three linear layers: the paper's predictor of the 8-puzzle."""

    def __init__(self, image_shape: ImageShape, bits: int, n_actions: int, *, hidden: int = 128) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(bits + n_actions, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, bits),
        )

    def forward(self, codes: Tensor, actions: Tensor) -> Tensor:
        return self.layers(torch.cat([codes, actions], dim=-1))


class ResidualBlock(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, grid: Tensor) -> Tensor:
        return torch.relu(grid + self.norm(self.conv(grid)))


class ConvPredictor(nn.Module):
    """Four residual blocks over the grid of 8×8 patches: the paper's predictor of IceSlider.

    The action is spread over the grid as channels of its own.
    """

    def __init__(self, image_shape: ImageShape, bits: int, n_actions: int, *, blocks: int = 4) -> None:
        super().__init__()
        self.rows, self.cols = image_shape[1] // 8, image_shape[2] // 8
        if self.rows * self.cols == 0 or bits % (self.rows * self.cols):
            raise InputError(
                f"the conv predictor needs bits divisible by the {self.rows}×{self.cols} patches, got {bits} bits"
            )
        depth = bits // (self.rows * self.cols)
        width = depth + n_actions
        self.layers = nn.Sequential(
            nn.Conv2d(width, width, 1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            *(ResidualBlock(width) for _ in range(blocks)),
            nn.Conv2d(width, depth, 1),
            nn.Flatten(),
        )

    def forward(self, codes: Tensor, actions: Tensor) -> Tensor:
        grid = codes.unflatten(-1, (-1, self.rows, self.cols))
        spread = actions[..., None, None].expand(*actions.shape, self.rows, self.cols)
        return self.layers(torch.cat([grid, spread], dim=-3))


def generic_predictor(image_shape: ImageShape, bits: int, n_actions: int) -> MLPPredictor:
    return MLPPredictor(image_shape, bits, n_actions, hidden=256)


PREDICTORS: dict[str, Callable[[ImageShape, int, int], nn.Module]] = {
    "mlp": MLPPredictor,
    "conv": ConvPredictor,
    "generic": generic_predictor,
}
