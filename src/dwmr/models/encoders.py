"""Encoders: images (N, C, H, W) to logits (N, K)."""

import math
from collections.abc import Callable
from functools import partial

from torch import Tensor, nn

from dwmr.errors import InputError
from dwmr.ops import Sequential

ImageShape = tuple[int, int, int]


class ConvEncoder(nn.Module):
    """3×3 convolutions with GroupNorm and ReLU, halved by average pooling after the first few, then two
    linear layers. The paper's encoder of the 8-puzzle, for any image size.
    """

    def __init__(
        self,
        image_shape: ImageShape,
        bits: int,
        *,
        channels: tuple[int, ...] = (8, 16, 32, 32, 16),
        poolings: int = 3,
        hidden: int = 96,
        groups_per_channel: bool = True,
    ) -> None:
        super().__init__()
        depth, height, width = image_shape
        if min(height, width) < 2**poolings:
            raise InputError(f"images of {height}×{width} pixels are too small to be halved {poolings} times")
        layers: list[nn.Module] = []
        for index, out in enumerate(channels):
            layers += [
                nn.Conv2d(depth, out, 3, padding=1, bias=False),
                nn.GroupNorm(out if groups_per_channel else 1, out),
                nn.ReLU(),
            ]
            if index < poolings:
                layers.append(nn.AvgPool2d(2))
                height, width = height // 2, width // 2
            depth = out
        self.features = Sequential(*layers)
        pixels = depth * height * width
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(pixels, hidden), nn.ReLU(), nn.Linear(hidden, bits))

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.features(images))


class PatchEncoder(nn.Module):
    """Each 8×8 patch of the image becomes a few bits: the paper's grid-aligned encoder of IceSlider. The code is laid
    out as (channels, rows, cols) and flattened."""

    def __init__(self, image_shape: ImageShape, bits: int, *, hidden: int = 32) -> None:
        super().__init__()
        depth, height, width = image_shape
        cells = (height // 8) * (width // 8)
        if height % 8 or width % 8 or bits % cells:
            needed = "the patch encoder needs sides divisible by 8 and bits divisible by the patches"
            raise InputError(f"{needed}, got {height}×{width} pixels and {bits} bits")
        self.layout = bits // cells, height // 8, width // 8  # of the code: bits a cell, rows, columns
        self.layers = Sequential(
            nn.Conv2d(depth, hidden, 4, stride=4),
            nn.BatchNorm2d(hidden),
            nn.ReLU(),
            nn.Conv2d(hidden, bits // cells, 2, stride=2),
            nn.Flatten(),
        )

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(images)


class GridEncoder(nn.Module):
    """The cells of a known grid, each encoded by the same network; pixels that they leave over are lines between and
    around them. The code is laid out as (channels, rows, cols) and flattened."""

    def __init__(self, image_shape: ImageShape, bits: int, *, cells: int) -> None:
        super().__init__()
        depth, height, width = image_shape
        pitch, line = divmod(height, cells)
        if height != width or line >= pitch or bits % cells**2:
            needed = f"a grid of {cells}×{cells} cells needs square images and bits divisible by {cells**2}"
            raise InputError(f"{needed}, got {height}×{width} pixels and {bits} bits")
        self.cells, self.pitch, self.line = cells, pitch, line
        self.layout = bits // cells**2, cells, cells  # of the code: bits a cell, rows, columns
        side = pitch - line
        shape = depth, side, side
        self.cell = ConvEncoder(shape, bits // cells**2, channels=(16, 32, 64), poolings=2, hidden=128)

    def forward(self, images: Tensor) -> Tensor:
        side = self.pitch - self.line
        inner = images[..., self.line :, self.line :]
        # (…, N, C, rows, cols, side, side), then cells and images as one axis.
        cut = inner.unfold(-2, side, self.pitch).unfold(-2, side, self.pitch)
        each = cut.movedim(-5, -3).flatten(-6, -4)
        codes = self.cell(each).unflatten(-2, (-1, self.cells**2))
        return codes.transpose(-2, -1).flatten(-2)


GENERIC_CHANNELS = (16, 32, 32, 32, 32, 32, 32, 32)


def generic_poolings(image_shape: ImageShape) -> int:
    """How often to halve an image of any size so that some 8 to 16 positions a side are left."""
    _, height, width = image_shape
    wanted = math.ceil(math.log2(max(height, width) / 16)) if max(height, width) > 16 else 0
    possible = int(math.log2(min(height, width)))
    return max(0, min(wanted, possible, len(GENERIC_CHANNELS) - 1))


def generic_encoder(image_shape: ImageShape, bits: int) -> ConvEncoder:
    """A `ConvEncoder` whose depth follows the image size; one normalisation group, so that brightness and
    colour, which a group per channel would remove, stay visible."""
    poolings = generic_poolings(image_shape)
    channels = (*GENERIC_CHANNELS[: poolings + 1], 16)
    return ConvEncoder(image_shape, bits, channels=channels, poolings=poolings, hidden=128, groups_per_channel=False)


# How many cells an encoder lays its code out over, as (channels, cells).
CELLS: dict[str, Callable[[ImageShape], int]] = {
    "patch": lambda image_shape: (image_shape[1] // 8) * (image_shape[2] // 8),
    "tiles": lambda image_shape: 9,
}

ENCODERS: dict[str, Callable[[ImageShape, int], nn.Module]] = {
    "conv": ConvEncoder,
    "patch": PatchEncoder,
    "generic": generic_encoder,
    "tiles": partial(GridEncoder, cells=3),
}
