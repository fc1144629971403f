"""Decoders: codes (N, K) to normalised images (N, C, H, W); linear outputs."""

from collections.abc import Callable

from torch import Tensor, nn

from dwmr.models.encoders import GENERIC_CHANNELS, ImageShape, generic_poolings
from dwmr.ops import Sequential


class ConvDecoder(nn.Module):
    """The mirror of `ConvEncoder`: two linear layers, then 3×3 convolutions between doublings in size."""

    def __init__(
        self,
        image_shape: ImageShape,
        bits: int,
        *,
        channels: tuple[int, ...] = (16, 32, 32, 16, 8),
        poolings: int = 3,
        hidden: int = 96,
        groups_per_channel: bool = True,
    ) -> None:
        super().__init__()
        depth, *size = image_shape
        sizes = [tuple(side // 2**halvings for side in size) for halvings in range(poolings + 1)]
        start, (rows, cols) = channels[0], sizes[-1]
        self.head = nn.Sequential(
            nn.Linear(bits, hidden),
            nn.ReLU(),
            nn.Linear(hidden, start * rows * cols),
            nn.ReLU(),
            nn.Unflatten(-1, (start, rows, cols)),
        )
        layers: list[nn.Module] = []
        outputs = (*channels[1:], depth)
        for index, (before, after) in enumerate(zip(channels, outputs)):
            remaining = len(outputs) - index
            if remaining <= poolings:
                layers.append(nn.Upsample(size=sizes[remaining - 1]))
            last = remaining == 1
            layers.append(nn.Conv2d(before, after, 3, padding=1, bias=last))
            if not last:
                layers += [nn.GroupNorm(after if groups_per_channel else 1, after), nn.ReLU()]
        self.layers = Sequential(*layers)

    def forward(self, codes: Tensor) -> Tensor:
        return self.layers(self.head(codes))


class PatchDecoder(nn.Module):
    """The mirror of `PatchEncoder`: a few bits become an 8×8 patch."""

    def __init__(self, image_shape: ImageShape, bits: int, *, hidden: int = 32) -> None:
        super().__init__()
        depth, rows, cols = image_shape[0], image_shape[1] // 8, image_shape[2] // 8
        self.layers = Sequential(
            nn.Unflatten(-1, (bits // (rows * cols), rows, cols)),
            nn.ConvTranspose2d(bits // (rows * cols), hidden, 2, stride=2),
            nn.BatchNorm2d(hidden),
            nn.ReLU(),
            nn.ConvTranspose2d(hidden, depth, 4, stride=4),
        )

    def forward(self, codes: Tensor) -> Tensor:
        return self.layers(codes)


def generic_decoder(image_shape: ImageShape, bits: int) -> ConvDecoder:
    poolings = generic_poolings(image_shape)
    channels = (16, *reversed(GENERIC_CHANNELS[: poolings + 1]))
    return ConvDecoder(image_shape, bits, channels=channels, poolings=poolings, hidden=128, groups_per_channel=False)


DECODERS: dict[str, Callable[[ImageShape, int], nn.Module]] = {
    "conv": ConvDecoder,
    "patch": PatchDecoder,
    "generic": generic_decoder,
}
