"""Predictors: codes (N, K) and one-hot actions (N, A) to the logits (N, K) of the next code."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from dwmr.errors import InputError
from dwmr.models.encoders import ImageShape
from dwmr.ops import Sequential
from dwmr.ops.conv_chain import Link


class MLPPredictor(nn.Module):
    """Three linear layers: the paper's predictor of the 8-puzzle."""

    def __init__(self, image_shape: ImageShape, bits: int, n_actions: int, *, hidden: int = 128) -> None:
        super().__init__()
        self.layers = Sequential(
            nn.Linear(bits + n_actions, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, bits),
        )

    def forward(self, codes: Tensor, actions: Tensor) -> Tensor:
        return self.layers(torch.cat([codes, actions], dim=-1))

    def all_actions(self, codes: Tensor) -> Tensor:
        """Codes (N, K) to the logits (N, A, K) of the next codes for every action. A predictor may have this method to
        make planning faster: here the first layer reads each code once. Sums have another order than in `forward`."""
        first, _, second, _, last = self.layers
        (weight, bias), bits = first.parameters(), codes.shape[-1]
        hidden = (codes @ weight[:, :bits].T).unsqueeze(1) + (weight[:, bits:].T + bias)
        hidden = second(hidden.flatten(0, 1).relu_()).relu_()
        return last(hidden).unflatten(0, (len(codes), -1))


class ResidualBlock(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, grid: Tensor) -> Tensor:
        return torch.relu(grid + self.norm(self.conv(grid)))

    def link(self) -> Link:
        """This block for the fused kernels of `dwmr.ops.Sequential`."""
        return Link(self.conv, self.norm, residual=True)


class ConvPredictor(nn.Module):
    """Four residual blocks over the grid of 8×8 patches: the paper's predictor of IceSlider. The action is spread over
    the grid as channels of its own."""

    def __init__(self, image_shape: ImageShape, bits: int, n_actions: int, *, blocks: int = 4) -> None:
        super().__init__()
        self.rows, self.cols = image_shape[1] // 8, image_shape[2] // 8
        depth = _bits_a_cell(bits, self.rows, self.cols)
        width = depth + n_actions
        self.layers = Sequential(
            nn.Conv2d(width, width, 1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            *(ResidualBlock(width) for _ in range(blocks)),
            nn.Conv2d(width, depth, 1),
            nn.Flatten(),
        )

    def forward(self, codes: Tensor, actions: Tensor) -> Tensor:
        return self.layers(_with_actions(codes, actions, (self.rows, self.cols)))


class ResidualPredictor(nn.Module):
    """A wide network with skips around pairs of layers, for codes without a layout."""

    def __init__(self, image_shape: ImageShape, bits: int, n_actions: int) -> None:
        super().__init__()
        width, blocks = 512, 3
        self.first = nn.Linear(bits + n_actions, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
            for _ in range(blocks)
        )
        self.last = nn.Linear(width, bits)

    def forward(self, codes: Tensor, actions: Tensor) -> Tensor:
        hidden = self.first(torch.cat([2 * codes - 1, actions], dim=-1))
        for block in self.blocks:
            hidden = hidden + block(hidden)
        return self.last(hidden)


class DoubleBlock(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, grid: Tensor) -> Tensor:
        return torch.relu(grid + self.layers(grid))


class FarPredictor(nn.Module):
    """Residual blocks over a grid of cells, enough of them that a cell's next bits can depend on every other cell.

    After the first block each cell is also told the largest value of every channel over the grid: whether something is
    to be seen anywhere. What an agent uncovers as it leaves a cell may hang on just that.
    """

    def __init__(self, image_shape: ImageShape, bits: int, n_actions: int, *, cells: int, channels: int = 32) -> None:
        super().__init__()
        self.cells, depth = cells, _bits_a_cell(bits, cells, cells)
        blocks = cells // 2  # each sees two cells farther
        self.first = Sequential(nn.Conv2d(depth + n_actions, channels, 1), DoubleBlock(channels))
        self.anywhere = nn.Conv2d(channels, channels, 1)
        self.rest = Sequential(
            *(DoubleBlock(channels) for _ in range(blocks - 1)),
            nn.Conv2d(channels, depth, 1),
            nn.Flatten(),
        )

    def forward(self, codes: Tensor, actions: Tensor) -> Tensor:
        near = self.first(_with_actions(2 * codes - 1, actions, (self.cells, self.cells)))
        return self.rest(near + self.anywhere(near.amax((-2, -1), keepdim=True)))


class LineBlock(nn.Module):
    def __init__(self, channels: int, cells: int) -> None:
        super().__init__()
        reach, wide = cells - 1, 2 * cells - 1
        self.within = Sequential(nn.Conv2d(channels, channels, 1), nn.BatchNorm2d(channels), nn.ReLU())
        self.along_row = nn.Conv2d(channels, channels, (1, wide), padding=(0, reach), bias=False)
        self.along_column = nn.Conv2d(channels, channels, (wide, 1), padding=(reach, 0), bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, grid: Tensor) -> Tensor:
        inner = self.within(grid)
        return torch.relu(grid + self.norm(self.along_row(inner) + self.along_column(inner)))


class LinePredictor(nn.Module):
    """Over a grid of cells, for what acts along lines: in each block a cell sees all of its row and of its column at
    once, and how far away a thing is has its own weights."""

    def __init__(self, image_shape: ImageShape, bits: int, n_actions: int, *, cells: int) -> None:
        super().__init__()
        self.cells, depth, channels, blocks = cells, _bits_a_cell(bits, cells, cells), 32, 3
        self.layers = Sequential(
            nn.Conv2d(depth + n_actions, channels, 1),
            *(LineBlock(channels, cells) for _ in range(blocks)),
            nn.Conv2d(channels, depth, 1),
            nn.Flatten(),
        )

    def forward(self, codes: Tensor, actions: Tensor) -> Tensor:
        return self.layers(_with_actions(2 * codes - 1, actions, (self.cells, self.cells)))


def _bits_a_cell(bits: int, rows: int, cols: int) -> int:
    if rows * cols == 0 or bits % (rows * cols):
        raise InputError(f"a grid of {rows}×{cols} cells needs bits divisible by {rows * cols}, got {bits}")
    return bits // (rows * cols)


def _with_actions(values: Tensor, actions: Tensor, cells: tuple[int, int]) -> Tensor:
    """Values (…, K) as rows and columns of cells, and with them the actions (…, A), which every cell is told:
    (…, K / cells + A, rows, columns)."""
    grid = values.unflatten(-1, (-1, *cells))
    return torch.cat([grid, actions[..., None, None].expand(*actions.shape, *cells)], dim=-3)


PREDICTORS: dict[str, Callable[[ImageShape, int, int], nn.Module]] = {
    "mlp": MLPPredictor,
    "conv": ConvPredictor,
    "generic": partial(MLPPredictor, hidden=256),
    "residual": ResidualPredictor,
    "far": partial(FarPredictor, cells=8),
    "lines": partial(LinePredictor, cells=8),
    "tiles": partial(FarPredictor, cells=3, channels=64),
}
