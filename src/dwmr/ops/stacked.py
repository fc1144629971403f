"""Networks of several runs as one: the same module, its layers with a leading run axis.

`stack` takes S networks of one architecture and returns a module that runs the architecture's own `forward` on inputs
(S, N, …), each layer replaced by its twin in `dwmr.ops.layers`, which holds the weights of all runs.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn

from dwmr.models.decoders import ConvDecoder
from dwmr.models.encoders import ConvEncoder
from dwmr.ops.layers import (
    WIDEST,
    CannotStack,
    Merged,
    StackedBatchNorm,
    StackedConv,
    StackedConvTranspose,
    StackedDecoding,
    StackedFeatures,
    StackedGroupNorm,
    StackedLayer,
    StackedLayerNorm,
    StackedLinear,
)

log = logging.getLogger("dwmr")

_TWINS: dict[type[nn.Module], type[StackedLayer]] = {
    nn.Linear: StackedLinear,
    nn.Conv2d: StackedConv,
    nn.ConvTranspose2d: StackedConvTranspose,
    nn.BatchNorm2d: StackedBatchNorm,
    nn.GroupNorm: StackedGroupNorm,
    nn.LayerNorm: StackedLayerNorm,
}
_UNCHANGED = (nn.ReLU, nn.GELU, nn.Unflatten)  # they act on the last axes, or on each number
_MERGED = (nn.Flatten, nn.AvgPool2d, nn.Upsample)


class Stacked(nn.Module):
    """S networks of one architecture; ``network`` is the architecture with stacked layers."""

    def __init__(self, networks: Sequence[nn.Module], fused: bool) -> None:
        super().__init__()
        self.runs = len(networks)
        # Which tensor of ``network`` holds which of the original networks' tensors.
        self.sources: dict[str, str] = {}
        self.network = self._stack(list(networks), "network", "", fused)

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.network(*inputs)

    @torch.no_grad()
    def write(self, networks: Sequence[nn.Module]) -> None:
        """Give each run its weights and buffers back."""
        own = {name: tensor.cpu() for name, tensor in self.state_dict().items()}
        states = [network.state_dict() for network in networks]
        for name, source in self.sources.items():
            for run, state in enumerate(states):
                state[source].copy_(own[name][run])

    def _stack(self, modules: list[nn.Module], here: str, there: str, fused: bool) -> nn.Module:
        first = modules[0]
        if fused and isinstance(first, ConvEncoder) and _fits_blocks(first):
            encoder = copy.copy(first)
            encoder._modules = dict(first._modules)
            encoders = cast(list[ConvEncoder], modules)
            fused_features = StackedFeatures([m.features for m in encoders])
            for name, origin in fused_features.origins.items():
                self.sources[f"{here}.features.{name}"] = f"{there}features.{origin}"
            encoder._modules["features"] = fused_features
            encoder.head = cast(
                nn.Sequential, self._stack([m.head for m in encoders], f"{here}.head", f"{there}head.", fused)
            )
            return encoder
        if fused and isinstance(first, ConvDecoder) and _doubles(first):
            decoder = copy.copy(first)
            decoder._modules = dict(first._modules)
            decoders = cast(list[ConvDecoder], modules)
            decoding = StackedDecoding([m.layers for m in decoders])
            for name, origin in decoding.origins.items():
                self.sources[f"{here}.layers.{name}"] = f"{there}layers.{origin}"
            decoder._modules["layers"] = decoding
            decoder._modules["head"] = self._stack([m.head for m in decoders], f"{here}.head", f"{there}head.", fused)
            return decoder
        if type(first) in _TWINS:
            twin = _TWINS[type(first)](modules)
            if isinstance(twin, StackedBatchNorm | StackedConv | StackedConvTranspose):
                twin.fused = fused
            for name in twin.state_dict():
                self.sources[f"{here}.{name}"] = f"{there}{name}"
            return twin
        if isinstance(first, _UNCHANGED):
            return first
        if isinstance(first, _MERGED):
            return Merged(first)
        if not list(first.children()):
            raise CannotStack(f"a layer of type {type(first).__name__}")
        result = copy.copy(first)
        result._parameters, result._buffers = {}, {}
        if [*first.parameters(recurse=False), *first.buffers(recurse=False)]:
            raise CannotStack(f"a module of type {type(first).__name__} with tensors of its own")
        result._modules = {
            name: self._stack([m.get_submodule(name) for m in modules], f"{here}.{name}", f"{there}{name}.", fused)
            for name, _ in first.named_children()
        }
        _join_neighbours(result)
        return result


def _join_neighbours(module: nn.Module) -> None:
    """Layers that follow each other in a module and save passes over the data when they know of each other: a
    convolution's bias goes into the normalisation after it, and a ReLU into the normalisation before it."""
    for (_, one), (name, other) in pairwise(list(module._modules.items())):
        if isinstance(one, StackedConv | StackedConvTranspose) and isinstance(other, StackedBatchNorm):
            bias = one.give_bias()
            if bias is not None:
                other.take_bias(bias)
        if isinstance(one, StackedBatchNorm) and isinstance(other, nn.ReLU) and isinstance(module, nn.Sequential):
            one.relu = True
            module._modules[name] = nn.Identity()


def stack(networks: Sequence[nn.Module], fused: bool = False) -> Stacked:
    """S networks as one; ``fused`` uses the Triton kernels where they fit.

    Raises:
        CannotStack: some layer has no stacked twin.
    """
    return Stacked(networks, fused)


def can_stack(network: nn.Module | None) -> bool:
    """Whether every layer of a network has a stacked twin."""
    try:
        return network is None or bool(stack([network]))
    except CannotStack as reason:
        log.info("a network cannot be stacked: %s", reason)
        return False


def _fits_blocks(encoder: ConvEncoder) -> bool:
    """Whether every block normalises each channel by itself, pools even sizes only, and is narrow enough."""
    return encoder.even and _by_channel(encoder.features) and _width(encoder.features) <= WIDEST


def _doubles(decoder: ConvDecoder) -> bool:
    """Whether every block normalises each channel by itself, every enlargement doubles both sides, and none is too
    wide: the four copies of a doubled image's pixels are made at once."""
    return decoder.even and _by_channel(decoder.layers) and _width(decoder.layers) <= WIDEST


def _by_channel(layers: nn.Sequential) -> bool:
    norms = [layer for layer in layers if isinstance(layer, nn.GroupNorm)]
    return all(norm.num_groups == norm.num_channels for norm in norms)


def _width(layers: nn.Sequential) -> int:
    """The most channels that a convolution's kernel reads or makes."""
    widths = [
        max(layer.in_channels, (4 if isinstance(before, nn.Upsample) else 1) * layer.out_channels)
        for before, layer in pairwise([None, *layers])
        if isinstance(layer, nn.Conv2d)
    ]
    return max(widths)
