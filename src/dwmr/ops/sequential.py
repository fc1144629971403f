"""A `torch.nn.Sequential` that runs neighbouring layers in fused kernels where these are in use."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from dwmr.ops.conv2d import MAX_CHANNELS
from dwmr.ops.conv_chain import Link, conv_chain, conv_chain_eval
from dwmr.ops.conv_chain import fits as chain_takes
from dwmr.ops.conv_decoder import conv_decoder
from dwmr.ops.conv_features import EPS, conv_features
from dwmr.ops.dispatch import needs_gradient, use_cpu_kernels, use_triton


@runtime_checkable
class LinkedBlock(Protocol):
    """A block of layers that is one link of a chain of convolutions."""

    training: bool

    def link(self) -> Link: ...


class Sequential(nn.Sequential):
    """Layers in sequence, like `torch.nn.Sequential`, with the same names of parameters.

    Inside ``with dwmr.ops.accelerated()``, layers that the kernels know are computed together; which these are depends
    on the layers alone, so a network of your own gains as much as ours. A residual block takes part as a `LinkedBlock`.
    """

    def forward(self, x: Tensor) -> Tensor:
        if any(changed(layer) for layer in self):
            return super().forward(x)
        return self._on_gpu(x) if use_triton(x) else self._on_cpu(x)

    def _on_cpu(self, x: Tensor) -> Tensor:
        layers = list(self)
        if use_cpu_kernels(x, "conv_features") and not needs_gradient(x) and (blocks := feature_blocks(layers)):
            return conv_features(x, *blocks)
        links = chain_links(layers) if use_cpu_kernels(x, "conv_chain") else None
        if links is None or not chain_takes(len(x)):
            return super().forward(x)
        training = {link.norm.training for link in links if link.norm is not None}
        if training <= {True}:
            return conv_chain(x, links)
        return conv_chain_eval(x, links) if training == {False} and not torch.is_grad_enabled() else super().forward(x)

    def _on_gpu(self, x: Tensor) -> Tensor:
        layers = list(self)
        blocks = feature_blocks(layers) if use_triton(x, "conv_features") and _narrow(layers) else None
        if blocks is not None and not needs_gradient(x) and _pools_evenly(x, blocks[1]):
            return conv_features(x, *blocks)
        decoder = decoder_blocks(layers, x.shape[-2:]) if use_triton(x, "conv_decoder") and _narrow(layers) else None
        if decoder is not None:
            return conv_decoder(x, *decoder)
        return super().forward(x)


KNOWN = (nn.Conv2d, nn.ConvTranspose2d, nn.GroupNorm, nn.BatchNorm2d, nn.ReLU, nn.AvgPool2d, nn.Upsample, nn.Flatten)


def changed(layer: nn.Module) -> bool:
    """Whether a layer that the kernels know does something else: by a ``forward`` of its own, or by hooks."""
    own = any(isinstance(layer, known) and type(layer).forward is not known.forward for known in KNOWN)
    return own or bool(layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks)


def feature_blocks(layers: Sequence[nn.Module]) -> tuple[list[Tensor], list[bool]] | None:
    """The arguments of `conv_features` if all layers are such blocks, else None."""
    parameters: list[Tensor] = []
    pools: list[bool] = []
    rest = list(layers)
    while rest:
        match rest:
            case [nn.Conv2d() as conv, nn.GroupNorm() as norm, nn.ReLU(), *rest] if _block(conv, norm):
                pools.append(bool(rest) and _halves(rest[0]))
                rest = rest[1:] if pools[-1] else rest
                parameters += [conv.weight, norm.weight, norm.bias]
            case _:
                return None
    return (parameters, pools) if pools else None


def decoder_blocks(layers: Sequence[nn.Module], plane: Sequence[int]) -> tuple[list[Tensor], list[bool]] | None:
    """The arguments of `conv_decoder` if all layers are such blocks for features of this size, else None."""
    parameters: list[Tensor] = []
    doubles: list[bool] = []
    sides = tuple(plane)
    rest = list(layers)
    while rest:
        twice = tuple(2 * side for side in sides)
        doubled = isinstance(rest[0], nn.Upsample) and rest[0].size == twice and rest[0].mode == "nearest"
        sides = twice if doubled else sides
        match rest[1:] if doubled else rest:
            case [nn.Conv2d() as conv, nn.GroupNorm() as norm, nn.ReLU(), *rest] if _block(conv, norm):
                parameters += [conv.weight, norm.weight, norm.bias]
            case [nn.Conv2d() as conv] if _same_size(conv) and conv.bias is not None:
                return [*parameters, conv.weight, conv.bias], [*doubles, doubled]
            case _:
                return None
        doubles.append(doubled)
    return None


def chain_links(layers: Sequence[nn.Module]) -> list[Link] | None:
    """The links of `conv_chain` if all layers are such links with a flattening at the end, else None."""
    links: list[Link] = []
    rest = list(layers)
    while rest:
        match rest:
            case [nn.Flatten()] if links:
                return links if all(link.fits for link in links) else None
            case [nn.Conv2d() as conv, nn.BatchNorm2d() as norm, nn.ReLU(), *rest]:
                links.append(Link(conv, norm))
            case [nn.Conv2d() as conv, *rest]:
                links.append(Link(conv))
            case [LinkedBlock() as block, *rest]:
                links.append(block.link())
            case _:
                return None
    return None


def _same_size(conv: nn.Conv2d) -> bool:
    sides = (conv.kernel_size, conv.stride, conv.dilation, conv.padding)
    return sides == ((3, 3), (1, 1), (1, 1), (1, 1)) and conv.groups == 1 and conv.padding_mode == "zeros"


def _block(conv: nn.Conv2d, norm: nn.GroupNorm) -> bool:
    by_channel = norm.num_groups == norm.num_channels and norm.affine and norm.eps == EPS
    return _same_size(conv) and conv.bias is None and by_channel


def _halves(layer: nn.Module) -> bool:
    if not isinstance(layer, nn.AvgPool2d) or layer.ceil_mode or layer.divisor_override is not None:
        return False
    return (layer.kernel_size, layer.stride, layer.padding) == (2, 2, 0)


def _pools_evenly(x: Tensor, pools: Sequence[bool]) -> bool:
    return all(side % 2 ** sum(pools) == 0 for side in x.shape[-2:])


def _narrow(layers: Sequence[nn.Module]) -> bool:
    """Whether every convolution, with the four copies that a doubling makes of its outputs, fits the kernels."""
    before: list[nn.Module | None] = [None, *layers]
    return all(
        max(layer.in_channels, (4 if isinstance(previous, nn.Upsample) else 1) * layer.out_channels) <= MAX_CHANNELS
        for previous, layer in zip(before, layers)
        if isinstance(layer, nn.Conv2d)
    )
