"""A `torch.nn.Sequential` that runs neighbouring layers in fused kernels where these are in use."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from torch import Tensor, nn

from dwmr.ops.conv_blocks import conv_blocks
from dwmr.ops.conv_blocks import fits as blocks_fit
from dwmr.ops.conv_chain import Link, conv_chain
from dwmr.ops.conv_chain import fits as chain_fits
from dwmr.ops.dispatch import use_cpu_kernels, use_triton


@runtime_checkable
class LinkedBlock(Protocol):
    """A block of layers that is one link of a chain of convolutions."""

    def link(self) -> Link: ...


class Sequential(nn.Sequential):
    """Layers in sequence, like `torch.nn.Sequential`, with the same names of parameters.

    Inside ``with dwmr.ops.accelerated()``, layers that the kernels know are computed together; which these are depends
    on the layers alone, so a network of your own gains as much as ours. A residual block takes part as a `LinkedBlock`.
    """

    def forward(self, x: Tensor) -> Tensor:
        layers = list(self)
        if use_triton(x, "conv_blocks"):
            kernels, fit = conv_blocks, blocks_fit
        elif use_cpu_kernels(x, "conv_chain"):
            kernels, fit = conv_chain, chain_fits
        else:
            return super().forward(x)
        links = None if any(changed(layer) for layer in layers) else links_of(layers)
        if not links or not fit(x, links):
            return super().forward(x)
        x = kernels(x, links)
        return layers[-1](x) if isinstance(layers[-1], nn.Flatten) else x


KNOWN = (nn.Conv2d, nn.ConvTranspose2d, nn.GroupNorm, nn.BatchNorm2d, nn.ReLU, nn.AvgPool2d, nn.Upsample, nn.Flatten)


def changed(layer: nn.Module) -> bool:
    """Whether a layer that the kernels know does something else: by a ``forward`` of its own, or by hooks."""
    own = any(isinstance(layer, known) and type(layer).forward is not known.forward for known in KNOWN)
    return own or bool(layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks)


def links_of(layers: Sequence[nn.Module]) -> list[Link] | None:
    """The layers, but for a flattening at the end, as a chain of links if they are one."""
    links: list[Link] = []
    rest = list(layers)
    while rest:
        doubled = rest[0] if isinstance(rest[0], nn.Upsample) else None
        match rest if doubled is None else rest[1:]:
            case [nn.Conv2d() as conv, (nn.BatchNorm2d() | nn.GroupNorm()) as norm, nn.ReLU(), *rest]:
                pooled = bool(rest) and _halves(rest[0])
                rest = rest[1:] if pooled else rest
                links.append(Link(conv, norm, pooled=pooled, doubled=doubled))
            case [nn.Conv2d() as conv, *rest]:
                links.append(Link(conv, doubled=doubled))
            case [LinkedBlock() as block, *rest] if doubled is None:
                links.append(block.link())
            case [nn.Flatten()] if doubled is None:
                break
            case _:
                return None
    return links


def _halves(layer: nn.Module) -> bool:
    if not isinstance(layer, nn.AvgPool2d) or layer.ceil_mode or layer.divisor_override is not None:
        return False
    return (layer.kernel_size, layer.stride, layer.padding) == (2, 2, 0)
