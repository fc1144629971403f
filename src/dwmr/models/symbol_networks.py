"""Networks for images that are drawn cell by cell: the code has the same few bits for every cell of a regular grid.

A `dwmr.data.cell_grid.CellGrid` says where the cells are, and is part of a run's configuration. `SymbolEncoder`
compares each cell with the symbols that were found in the training images; `SymbolReader` reads symbols that are drawn
anew each time, and has to learn it. The decoder draws the symbols.

Parts of images that are no cells of a grid (`dwmr.data.image_parts.PartLayout`) serve as cells too. Then the places of
their pixels are stored with the weights, and each part has looks of its own for the symbols.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dwmr.data.cell_grid import CellGrid
from dwmr.data.image_parts import PartLayout
from dwmr.errors import InputError
from dwmr.models.encoders import ImageShape

MAX_ONE_HOT = 17  # with more symbols than that a cell holds the symbol's number in binary
SURE = 3.0  # logit of a bit that stays as it is, before anything is learned
READER_SIDE = 32  # cells with longer sides are read with less resolution
DROPPED = 0.25  # share of a reader's hidden units left out while it learns
MAX_MIXING = 4_000_000  # parameters of the predictor's mixing of cells, one per action and pair of cells


Layout = CellGrid | PartLayout


def bits_per_cell(symbols: int) -> int:
    """How many bits a cell needs for so many symbols."""
    return symbols - 1 if symbols <= MAX_ONE_HOT else math.ceil(math.log2(symbols))


def symbol_codes(symbols: int) -> Tensor:
    """The bits of each symbol, bool (symbols, bits): with few symbols a bit for each but the first, else numbers."""
    numbers = torch.arange(symbols)
    if symbols <= MAX_ONE_HOT:
        return F.one_hot(numbers, symbols)[:, 1:].bool()
    return (numbers[:, None] >> torch.arange(bits_per_cell(symbols)) & 1).bool()


class SymbolEncoder(nn.Module):
    """Each cell becomes the bits of the symbol that it resembles most, by squared distance.

    ``prototypes`` holds what the symbols look like, (symbols, C · pixels), or for parts (parts, symbols, C · pixels). A
    bit's logit is how much nearer the nearest symbol with that bit is than the nearest without. The code is laid out as
    (bits of a cell, rows, cols) and flattened.
    """

    codes: Tensor
    places: Tensor
    inside: Tensor

    def __init__(self, image_shape: ImageShape, bits: int, grid: Layout, symbols: int) -> None:
        super().__init__()
        self.layout = bits_per_cell(symbols), grid.rows, grid.cols
        _check_bits(bits, self.layout, symbols)
        _register_pixels(self, grid, image_shape)
        self.register_buffer("codes", symbol_codes(symbols), persistent=False)
        self.prototypes = nn.Parameter(torch.randn(_looks_shape(grid, symbols, image_shape[0] * self.places.shape[1])))

    def forward(self, images: Tensor) -> Tensor:
        patches = _cut(images, self.places, self.inside).flatten(-2).transpose(-3, -2)  # (cells, N, C · pixels)
        centre = self.prototypes.mean(-2, keepdim=True)  # keeps the sums small, so that close symbols can be told apart
        symbols = self.prototypes - centre
        nearness = (patches - centre) @ symbols.transpose(-2, -1) - symbols.square().sum(-1).unsqueeze(-2) / 2
        return _bit_logits(nearness.transpose(-3, -2), self.codes)


class SymbolReader(nn.Module):
    """Each cell becomes the bits of the symbol that a small convolutional network reads in it, all cells by the same.

    It first reads every cell alone, then again, knowing how many of each symbol there seem to be in the image. The code
    is laid out as that of `SymbolEncoder`.
    """

    codes: Tensor
    places: Tensor
    inside: Tensor
    mean: Tensor
    scale: Tensor

    def __init__(
        self, image_shape: ImageShape, bits: int, grid: CellGrid, symbols: int, *, hidden: int = 128, context: int = 64
    ) -> None:
        super().__init__()
        self.layout = bits_per_cell(symbols), grid.rows, grid.cols
        _check_bits(bits, self.layout, symbols)
        _register_pixels(self, grid, image_shape)
        self.register_buffer("codes", symbol_codes(symbols), persistent=False)
        self.register_buffer("mean", torch.zeros(image_shape[0]))  # of the training images' cells
        self.register_buffer("scale", torch.ones(()))
        self.patch = grid.patch
        size, stride = (4, 2) if min(grid.patch) >= 8 else (3, 1)
        features = nn.Sequential(
            nn.AvgPool2d(max(1, math.ceil(max(grid.patch) / READER_SIDE)), ceil_mode=True),
            nn.Conv2d(image_shape[0], 16, size, stride, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, size, stride, padding=1),
            nn.ReLU(),
            nn.Flatten(),
        )
        found = features(torch.zeros(1, image_shape[0], *grid.patch)).shape[1]
        self.features = nn.Sequential(*features, nn.Linear(found, hidden), nn.ReLU(), nn.Dropout(DROPPED))
        self.alone = nn.Linear(hidden, symbols)
        self.cell, self.others = nn.Linear(hidden, context), nn.Linear(symbols, context)
        self.again = nn.Linear(context, symbols)
        for parameter in self.again.parameters():
            nn.init.zeros_(parameter)

    def forward(self, images: Tensor) -> Tensor:
        return _bit_logits(self.symbols(images), self.codes)

    def symbols(self, images: Tensor) -> Tensor:
        """The logit of each symbol in each cell, (N, cells, symbols)."""
        patches = _cut(images, self.places, self.inside).unflatten(-1, self.patch)  # (N, cells, C, height, width)
        patches = (patches - self.mean[:, None, None]) / self.scale
        hidden = self.features(patches.flatten(0, 1)).unflatten(0, patches.shape[:2])
        alone = self.alone(hidden)
        seen = self.others(alone.softmax(-1).sum(-2, keepdim=True))
        return alone + self.again(torch.relu(self.cell(hidden) + seen))


class SymbolDecoder(nn.Module):
    """Draws in each cell the symbol whose bits are nearest to those of the code."""

    codes: Tensor
    places: Tensor
    inside: Tensor

    def __init__(self, image_shape: ImageShape, bits: int, grid: Layout, symbols: int) -> None:
        super().__init__()
        self.depth = bits_per_cell(symbols)
        _register_pixels(self, grid, image_shape)
        self.register_buffer("codes", symbol_codes(symbols).float(), persistent=False)
        self.prototypes = nn.Parameter(torch.zeros(_looks_shape(grid, symbols, image_shape[0] * self.places.shape[1])))
        self.rest = nn.Parameter(torch.zeros(image_shape))  # pixels that belong to no cell

    def forward(self, codes: Tensor) -> Tensor:
        cells = codes.unflatten(-1, (self.depth, -1)).transpose(-2, -1)  # (N, cells, bits)
        symbols = (cells @ (2 * self.codes - 1).T - self.codes.sum(-1)).argmax(-1)
        looks = self.prototypes.expand(symbols.shape[-1], -1, -1)
        patches = looks[torch.arange(len(looks), device=codes.device), symbols]  # (N, cells, C · pixels)
        images = self.rest.flatten(1).expand(len(codes), -1, -1).clone()
        inside = self.inside.flatten()
        drawn = patches.unflatten(-1, (len(self.rest), -1)).transpose(1, 2).flatten(2)[..., inside]
        images[:, :, self.places.flatten()[inside]] = drawn
        return images.unflatten(-1, self.rest.shape[1:])


class CellBlock(nn.Module):
    """What a cell sees of the others, added to what it is: its neighbours, its row and its column, and the largest
    value of every channel anywhere."""

    def __init__(self, grid: Layout, n_actions: int, channels: int) -> None:
        super().__init__()
        narrow = channels // 4
        self.near = nn.Conv2d(channels, channels, 3, padding=1)
        self.narrow = nn.Conv2d(channels, 2 * narrow, 1)
        self.row = nn.Conv2d(narrow, narrow, (1, 2 * grid.cols - 1), padding=(0, grid.cols - 1))
        self.column = nn.Conv2d(narrow, narrow, (2 * grid.rows - 1, 1), padding=(grid.rows - 1, 0))
        self.lines = nn.Conv2d(2 * narrow, channels, 1)
        self.anywhere = nn.Linear(channels, channels)
        self.action = nn.Linear(n_actions, channels, bias=False)
        self.last = nn.Conv2d(channels, channels, 1)
        for parameter in self.last.parameters():
            nn.init.zeros_(parameter)

    def forward(self, cells: Tensor, actions: Tensor) -> Tensor:
        normed = _normed(cells)
        row, column = self.narrow(normed).chunk(2, dim=-3)
        lines = self.lines(torch.relu(torch.cat([self.row(row), self.column(column)], dim=-3)))
        everywhere = self.anywhere(normed.amax((-2, -1))) + self.action(actions)
        return cells + self.last(torch.relu(self.near(normed) + lines + everywhere[..., None, None]))


class CellPredictor(nn.Module):
    """Predicts every cell's next bits from the cell, its neighbours, its row and column, and the action, by a rule that
    is the same everywhere."""

    def __init__(
        self,
        image_shape: ImageShape,
        bits: int,
        n_actions: int,
        grid: Layout,
        symbols: int = 0,
        *,
        channels: int = 48,
        blocks: int = 3,
    ) -> None:
        super().__init__()
        if bits % grid.count:
            raise InputError(f"{grid.rows}×{grid.cols} cells need bits divisible by {grid.count}, got {bits}")
        self.layout = bits // grid.count, grid.rows, grid.cols
        self.first = nn.Conv2d(self.layout[0], channels, 1)
        self.action = nn.Linear(n_actions, channels, bias=False)
        self.blocks = nn.ModuleList(CellBlock(grid, n_actions, channels) for _ in range(blocks))
        self.last = nn.Conv2d(channels, self.layout[0], 1)
        self.numbers_per_code = channels * grid.count

    def forward(self, codes: Tensor, actions: Tensor) -> Tensor:
        signs = (2 * codes - 1).unflatten(-1, self.layout)
        cells = self.first(signs) + self.action(actions)[..., None, None]
        return self.changed(cells, signs, actions)

    def changed(self, cells: Tensor, stay: Tensor, actions: Tensor) -> Tensor:
        """The logits, from the cells before the blocks and from what the bits are if nothing else happens."""
        for block in self.blocks:
            cells = block(cells, actions)
        return (self.last(torch.relu(cells)) + SURE * stay).flatten(-3)


class PlacePredictor(CellPredictor):
    """The same, and weights for what an action does to each place of the grid: a plane of its own, and a mixing of all
    cells, which can carry the content of any cell to any other."""

    def __init__(
        self, image_shape: ImageShape, bits: int, n_actions: int, grid: Layout, symbols: int = 0, *, carried: int = 16
    ) -> None:
        super().__init__(image_shape, bits, n_actions, grid, symbols)
        depth, channels = self.layout[0], self.first.out_channels
        if n_actions * grid.count**2 > MAX_MIXING:
            raise InputError(f"{grid.count} cells are too many to mix them for each of {n_actions} actions")
        self.place = nn.Parameter(torch.zeros(n_actions, channels, grid.rows, grid.cols))
        self.carried, self.arrived = nn.Conv2d(depth, carried, 1), nn.Conv2d(carried, channels, 1)
        self.mixing = nn.Parameter(0.01 * torch.randn(n_actions, grid.count, grid.count))
        self.moving = nn.Parameter(torch.eye(grid.count).repeat(n_actions, 1, 1))
        self.numbers_per_code = max(channels, grid.count) * grid.count

    def forward(self, codes: Tensor, actions: Tensor) -> Tensor:
        signs = (2 * codes - 1).unflatten(-1, self.layout)
        place = torch.einsum("na,acrs->ncrs", actions, self.place)
        arrived = self.arrived(_mixed(self.carried(signs), actions, self.mixing))
        cells = self.first(signs) + self.action(actions)[..., None, None] + place + arrived
        return self.changed(cells, _mixed(signs, actions, self.moving), actions)


CELL_NETWORKS: dict[str, dict[str, Callable[..., nn.Module]]] = {
    "encoder": {"symbols": SymbolEncoder, "reader": SymbolReader},
    "predictor": {"cells": CellPredictor, "places": PlacePredictor},
    "decoder": {"symbols": SymbolDecoder},
}
"""Networks that are also given the `Layout` and the number of symbols of the configuration, by role and name."""


def parse_layout(text: str) -> Layout:
    """The layout that a configuration describes: cells of a grid, or parts."""
    return CellGrid.parse(text) if "+" in text or "-" in text else PartLayout.parse(text)


def _check_bits(bits: int, layout: tuple[int, int, int], symbols: int) -> None:
    if bits != math.prod(layout):
        _, rows, cols = layout
        raise InputError(f"{symbols} symbols in {rows}×{cols} cells need {math.prod(layout)} bits, got {bits}")


def _cut(images: Tensor, places: Tensor, inside: Tensor) -> Tensor:
    """The cells of images (N, C, H, W), (N, cells, C, pixels)."""
    return (images.flatten(-2)[..., places] * inside.to(images.dtype)).transpose(-3, -2)


def _bit_logits(symbols: Tensor, codes: Tensor) -> Tensor:
    """From how likely each symbol is in each cell, (N, cells, symbols), the logits of the code (N, bits · cells): the
    likeliest symbol with a bit less the likeliest without."""
    never = torch.finfo(symbols.dtype).min / 4

    def likeliest(among: Tensor) -> Tensor:
        return symbols.masked_fill(~among, never).amax(-1)

    return torch.stack([likeliest(having) - likeliest(~having) for having in codes.T], dim=-2).flatten(-2)


def _normed(cells: Tensor) -> Tensor:
    """Each cell's channels with mean 0 and variance 1."""
    variance, mean = torch.var_mean(cells, dim=-3, keepdim=True, correction=0)
    return (cells - mean) * torch.rsqrt(variance + 1e-5)


def _mixed(cells: Tensor, actions: Tensor, weights: Tensor) -> Tensor:
    """Cells (N, C, rows, cols), each replaced by a sum of all, with weights (A, cells, cells) of the action."""
    chosen = torch.einsum("na,auv->nuv", actions, weights)
    return (cells.flatten(-2) @ chosen.transpose(-2, -1)).view_as(cells)


def _register_pixels(network: nn.Module, grid: Layout, image_shape: ImageShape) -> None:
    """Give a network the buffers ``places``, of each cell's pixels in a flattened channel, and ``inside``, which of
    them are there, both (cells, pixels)."""
    stored = isinstance(grid, PartLayout)
    if isinstance(grid, PartLayout):
        places = torch.zeros(grid.count, grid.pixels, dtype=torch.int64)
        inside = places.bool()
    else:
        places, inside = (torch.from_numpy(each.reshape(grid.count, -1)) for each in grid.pixels(image_shape))
    network.register_buffer("places", places, persistent=stored)
    network.register_buffer("inside", inside, persistent=stored)


def _looks_shape(grid: Layout, symbols: int, pixels: int) -> tuple[int, ...]:
    return (grid.count, symbols, pixels) if isinstance(grid, PartLayout) else (symbols, pixels)
