"""Networks on the CPU by the C++ kernels: twins that share the weights of the networks they stand for.

`lane_twin` turns a network whose layers the kernels know into a copy of it, with those layers replaced; the copy's own
`forward` runs unchanged. Images lie side by side in the lanes of the processor's vectors (see `native/lanes.h`).
Encoders take images as bytes too, and read them by a scale and a shift of each channel.
"""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from dwmr.models.encoders import ConvEncoder, GridEncoder, PatchEncoder
from dwmr.models.predictors import ConvPredictor, ResidualBlock
from dwmr.ops.native import Block, Convolution, Images, Step, library
from dwmr.training.losses import standardize


def lane_twin(network: nn.Module, scale: Tensor | None = None, shift: Tensor | None = None) -> nn.Module | None:
    """A copy of the network on the same weights that runs on the C++ kernels, or None: unknown layers, no kernels.

    With scale and shift, both (C,), the copy of an encoder takes images as bytes: a byte b of channel c is read as
    b · scale[c] + shift[c].
    """
    if library() is None:
        return None
    look = Look(scale, shift)
    if isinstance(network, ConvEncoder):
        return _with(network, "features", LaneFeatures.of(network.features, look))
    if isinstance(network, GridEncoder):
        return _with(network, "cell", lane_twin(network.cell, scale, shift))
    if isinstance(network, PatchEncoder | ConvPredictor):
        return _with(network, "layers", LaneLayers.of(network.layers, look))
    return None


def _with(network: nn.Module, name: str, part: nn.Module | None) -> nn.Module | None:
    if part is None:
        return None
    twin = copy.copy(network)
    twin._modules = {**network._modules, name: part}
    return twin


def _kernels() -> Any:
    loaded = library()
    assert loaded is not None
    return loaded


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


@dataclass(frozen=True)
class Look:
    """How bytes become numbers; without scale and shift only numbers are taken."""

    scale: Tensor | None = None
    shift: Tensor | None = None

    def numbers(self, images: Tensor) -> Tensor:
        """The images for layers of torch."""
        if self.scale is None or self.shift is None or images.dtype != torch.uint8:
            return images
        return images * self.scale[:, None, None] + self.shift[:, None, None]

    def described(self, images: Tensor) -> Any:
        """The images for the kernels."""
        if images.dtype == torch.uint8:
            return ctypes.byref(Images(None, images.data_ptr(), _address(self.scale), _address(self.shift)))
        return ctypes.byref(Images(images.data_ptr(), None, None, None))

    def fits(self, images: Tensor) -> bool:
        return images.dtype == torch.float32 or (images.dtype == torch.uint8 and self.scale is not None)


class Memory:
    """Memory for a pass forward that is used again: to take it fresh from the system costs more than the pass."""

    def __init__(self) -> None:
        self.free: list[Tensor] = []

    def take(self, floats: int) -> Tensor:
        """So many numbers, at a multiple of 64 bytes; zero when they are new."""
        for place, kept in enumerate(self.free):
            if len(kept) == floats:
                return self.free.pop(place)
        whole = torch.zeros(floats + 16)
        return whole[(-whole.data_ptr() // 4) % 16 :][:floats]

    def give_back(self, kept: Tensor) -> None:
        self.free.append(kept)


class LaneFeatures(nn.Module):
    """Blocks of 3×3 convolution, norm per channel, ReLU and perhaps pooling, all in one pass over a few images."""

    def __init__(self, features: nn.Sequential, blocks: list[tuple[nn.Conv2d, nn.GroupNorm, bool]], look: Look) -> None:
        super().__init__()
        self.plain, self.blocks, self.look, self.memory = features, blocks, look, Memory()

    @staticmethod
    def of(features: nn.Sequential, look: Look) -> LaneFeatures | None:
        blocks = []
        layers = list(features)
        while layers:
            match layers:
                case [nn.Conv2d() as conv, nn.GroupNorm() as norm, nn.ReLU(), *rest]:
                    sides = (conv.kernel_size[0], conv.stride[0], conv.dilation[0], conv.padding[0])
                    if not _known(conv) or sides != (3, 1, 1, 1) or conv.bias is not None:
                        return None
                    if norm.num_groups != norm.num_channels or not norm.affine:
                        return None
                    pooled = bool(rest) and isinstance(rest[0], nn.AvgPool2d)
                    if pooled and cast(nn.AvgPool2d, rest[0]).kernel_size != 2:
                        return None
                    blocks.append((conv, norm, pooled))
                    layers = rest[1:] if pooled else rest
                case _:
                    return None
        return LaneFeatures(features, blocks, look) if blocks else None

    def forward(self, images: Tensor) -> Tensor:
        if images.requires_grad or not self.look.fits(images):
            return self.plain(self.look.numbers(images))
        parameters = [p for conv, norm, _ in self.blocks for p in (conv.weight, norm.weight, norm.bias)]
        return cast(Tensor, _Features.apply(self, images.contiguous(), *parameters))

    def described(self, images: Tensor, parameters: Sequence[Tensor]) -> tuple[Any, tuple[int, int, int]]:
        """The blocks as the kernels take them, and the shape of an image's features."""
        height, width = images.shape[-2:]
        described = (Block * len(self.blocks))()
        for k, (conv, norm, pooled) in enumerate(self.blocks):
            addresses = [parameter.data_ptr() for parameter in parameters[3 * k : 3 * k + 3]]
            described[k] = Block(conv.in_channels, conv.out_channels, height, width, pooled, norm.eps, *addresses)
            height, width = (height // 2, width // 2) if pooled else (height, width)
        return described, (self.blocks[-1][0].out_channels, height, width)


class _Features(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, layer: LaneFeatures, images: Tensor, *parameters: Tensor) -> Tensor:
        kernels, threads = _kernels(), torch.get_num_threads()
        described, shape = layer.described(images, parameters)
        keep = any(ctx.needs_input_grad)
        groups = -(-len(images) // kernels.dwmr_lanes()) if keep else threads
        saved = layer.memory.take(kernels.dwmr_features_saved(described, len(described), groups))
        features = torch.empty(len(images), *shape)
        where = (saved.data_ptr(), features.data_ptr(), threads)
        kernels.dwmr_features(described, len(described), layer.look.described(images), len(images), keep, *where)
        if keep:
            ctx.layer, ctx.saved = layer, saved
            ctx.save_for_backward(images, *parameters)
        else:
            layer.memory.give_back(saved)
        return features

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        images, *parameters = ctx.saved_tensors
        described, _ = ctx.layer.described(images, parameters)
        gradients = [torch.zeros_like(parameter) for parameter in parameters]
        for k, block in enumerate(described):
            block.dweight, block.dscale, block.dshift = (each.data_ptr() for each in gradients[3 * k : 3 * k + 3])
        given = upstream[0].contiguous()
        where = (ctx.saved.data_ptr(), given.data_ptr(), torch.get_num_threads())
        _kernels().dwmr_features_back(described, len(described), len(images), *where)
        ctx.layer.memory.give_back(ctx.saved)
        ctx.saved = None
        return None, None, *gradients


@dataclass(frozen=True)
class Link:
    """A convolution, and perhaps the batch norm behind it with ReLU; ``residual`` adds the link's input before that."""

    conv: nn.Conv2d
    norm: nn.BatchNorm2d | None = None
    residual: bool = False

    @property
    def sides(self) -> tuple[int, int, int, int]:
        """Kernel, stride, dilation and padding, each the same in both directions."""
        conv = self.conv
        return conv.kernel_size[0], conv.stride[0], conv.dilation[0], cast(int, conv.padding[0])

    def parameters(self) -> Iterator[Tensor | None]:
        norm = self.norm
        yield from (self.conv.weight, self.conv.bias, norm.weight if norm else None, norm.bias if norm else None)


class LaneLayers(nn.Module):
    """Convolutions, batch norms with ReLU and residual blocks as one chain, flattened at the end."""

    def __init__(self, layers: nn.Sequential, links: list[Link], look: Look) -> None:
        super().__init__()
        self.plain, self.links, self.look, self.memory = layers, links, look, Memory()

    @staticmethod
    def of(layers: nn.Sequential, look: Look) -> LaneLayers | None:
        links: list[Link] = []
        rest = list(layers)
        while rest:
            match rest:
                case [nn.Flatten()] if links:
                    return LaneLayers(layers, links, look)
                case [nn.Conv2d() as conv, nn.BatchNorm2d() as norm, nn.ReLU(), *rest] if _known(conv) and _usual(norm):
                    links.append(Link(conv, norm))
                case [nn.Conv2d() as conv, *rest] if _known(conv):
                    links.append(Link(conv))
                case [ResidualBlock() as block, *rest] if _known(block.conv) and _usual(block.norm):
                    links.append(Link(block.conv, block.norm, residual=True))
                case _:
                    return None
        return None

    def forward(self, images: Tensor) -> Tensor:
        norms = [link.norm for link in self.links if link.norm is not None]
        learning = all(norm.training for norm in norms)
        fits = self.look.fits(images) and not len(images) % _kernels().dwmr_lanes()
        if not fits or (not learning and (torch.is_grad_enabled() or any(norm.training for norm in norms))):
            return self.plain(self.look.numbers(images))
        images = images.contiguous()
        if not learning:
            return self._by_running_moments(images)
        parameters = [parameter for link in self.links for parameter in link.parameters()]
        out, *moments = cast(tuple[Tensor, ...], _Chain.apply(self, images, *parameters))
        planes = [plane for link, plane in zip(self.links, self.planes(images)) if link.norm is not None]
        for norm, mean, variance, plane in zip(norms, moments[::2], moments[1::2], planes):
            _track(norm, mean, variance, len(images) * plane.numel())
        return out

    @torch.no_grad()
    def _by_running_moments(self, images: Tensor) -> Tensor:
        described = self.described(images, [p for link in self.links for p in link.parameters()])
        out = torch.empty(len(images), self.size(images))
        groups = len(images) // _kernels().dwmr_lanes()
        given = (self.look.described(images), groups, out.data_ptr(), torch.get_num_threads())
        _kernels().dwmr_chain_apply(described, len(described), *given)
        return out

    def planes(self, images: Tensor) -> list[torch.Size]:
        """The height and width behind each link."""
        planes, plane = [], images.shape[-2:]
        for link in self.links:
            kernel, stride, dilation, padding = link.sides
            plane = torch.Size((side + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1 for side in plane)
            planes.append(plane)
        return planes

    def size(self, images: Tensor) -> int:
        """Of the output."""
        return self.links[-1].conv.out_channels * self.planes(images)[-1].numel()

    def described(self, images: Tensor, parameters: Sequence[Tensor | None]) -> Any:
        """The links as the kernels take them."""
        described = (Step * len(self.links))()
        before = [images.shape[-2:], *self.planes(images)]
        for k, (link, plane) in enumerate(zip(self.links, before)):
            conv, norm = link.conv, link.norm
            form = Convolution(conv.in_channels, conv.out_channels, *plane, *link.sides)
            running = (None, None) if norm is None else (_address(norm.running_mean), _address(norm.running_var))
            known = [_address(parameter) for parameter in parameters[4 * k : 4 * k + 4]]
            eps = 0.0 if norm is None else norm.eps
            described[k] = Step(form, norm is not None, link.residual, eps, *known, *running)
        return described


@torch.no_grad()
def _track(norm: nn.BatchNorm2d, mean: Tensor, variance: Tensor, count: int) -> None:
    """Move the running statistics on."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    norm.running_mean.lerp_(mean, cast(float, norm.momentum))
    norm.running_var.lerp_(variance * (count / (count - 1)), cast(float, norm.momentum))
    if norm.num_batches_tracked is not None:
        norm.num_batches_tracked += 1


class _Chain(torch.autograd.Function):
    """The links by the batch's own moments, which are returned too: mean and variance of each norm in turn."""

    @staticmethod
    def forward(ctx: Any, layer: LaneLayers, images: Tensor, *parameters: Tensor | None) -> tuple[Tensor, ...]:
        kernels = _kernels()
        described = layer.described(images, parameters)
        groups = len(images) // kernels.dwmr_lanes()
        moments = []
        for link, step in zip(layer.links, described):
            if link.norm is not None:
                mean, variance = torch.empty(link.conv.out_channels), torch.empty(link.conv.out_channels)
                step.mean, step.variance = mean.data_ptr(), variance.data_ptr()
                moments += [mean, variance]
        saved = layer.memory.take(kernels.dwmr_chain_saved(described, len(described), groups))
        out = torch.empty(len(images), layer.size(images))
        given = (layer.look.described(images), groups, saved.data_ptr(), out.data_ptr(), torch.get_num_threads())
        kernels.dwmr_chain_learn(described, len(described), *given)
        ctx.layer, ctx.kept = layer, saved
        ctx.save_for_backward(images, *moments, *parameters)
        ctx.mark_non_differentiable(*moments)
        return out, *moments

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        layer, norms = ctx.layer, sum(link.norm is not None for link in ctx.layer.links)
        images, *rest = ctx.saved_tensors
        moments, parameters = iter(rest[: 2 * norms]), rest[2 * norms :]
        described = layer.described(images, parameters)
        gradients = [None if parameter is None else torch.zeros_like(parameter) for parameter in parameters]
        for k, step in enumerate(described):
            addresses = [_address(each) for each in gradients[4 * k : 4 * k + 4]]
            step.dweight, step.dbias, step.dscale, step.dshift = addresses
            if step.normed:
                step.mean, step.variance = next(moments).data_ptr(), next(moments).data_ptr()
        back = torch.empty_like(images) if ctx.needs_input_grad[1] else None
        given = upstream[0].contiguous()
        groups = len(images) // _kernels().dwmr_lanes()
        where = (ctx.kept.data_ptr(), given.data_ptr(), _address(back), torch.get_num_threads())
        _kernels().dwmr_chain_back(described, len(described), layer.look.described(images), groups, *where)
        layer.memory.give_back(ctx.kept)
        ctx.kept = None
        return None, back, *gradients


def _known(conv: nn.Conv2d) -> bool:
    square = all(len(set(side)) == 1 for side in (conv.kernel_size, conv.stride, conv.dilation, conv.padding))
    return square and conv.groups == 1 and conv.padding_mode == "zeros" and conv.kernel_size[0] <= 8


def _usual(norm: nn.BatchNorm2d) -> bool:
    return norm.affine and norm.track_running_stats and norm.momentum is not None


def coskewness(probs: Tensor) -> Tensor:
    """`dwmr.training.losses.coskewness` over all triplets, for probs float32 (N, K)."""
    samples, bits = probs.shape
    total = cast(Tensor, _DistinctThirdMoments.apply(standardize(probs)))
    return 6 * total / (samples * bits * (bits - 1) * (bits - 2))


class _DistinctThirdMoments(torch.autograd.Function):
    """Σ over i < j < k of |Σ_n x_ni x_nj x_nk|; the gradient is formed along with it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        values = x.contiguous()
        gradient = torch.empty_like(values) if ctx.needs_input_grad[0] else None
        total = _kernels().dwmr_coskewness(values.data_ptr(), *x.shape, _address(gradient), torch.get_num_threads())
        ctx.save_for_backward(gradient)
        return x.new_tensor(total)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Tensor | None:
        (gradient,) = ctx.saved_tensors
        return None if gradient is None else gradient * upstream[0]
