"""Networks on the CPU by the C++ kernels: twins that share the weights of the networks they stand for.

`lane_twin` turns a network whose layers the kernels know into a copy of it, with those layers replaced; the copy's own
`forward` runs unchanged. Images lie side by side in the lanes of the processor's vectors (see `native/lanes.h`).
"""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from dwmr.fast.native import Block, Convolution, library
from dwmr.losses import standardize
from dwmr.nets.encoders import ConvEncoder, PatchEncoder
from dwmr.nets.predictors import ConvPredictor, ResidualBlock

Step = Callable[[Tensor], Tensor]


def lane_twin(network: nn.Module) -> nn.Module | None:
    """A copy of the network on the same weights that runs on the C++ kernels, or None: unknown layers, no kernels."""
    if library() is None:
        return None
    if isinstance(network, ConvEncoder):
        return _with(network, "features", LaneFeatures.of(network.features))
    if isinstance(network, PatchEncoder | ConvPredictor):
        return _with(network, "layers", LaneLayers.of(network.layers))
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


class LaneFeatures(nn.Module):
    """Blocks of 3×3 convolution, norm per channel, ReLU and perhaps pooling, all in one pass over a few images."""

    def __init__(self, features: nn.Sequential, blocks: list[tuple[nn.Conv2d, nn.GroupNorm, bool]]) -> None:
        super().__init__()
        self.plain, self.blocks = features, blocks
        self.kept: list[Tensor] = []  # memory for a forward pass, used again: fresh memory costs more than the pass

    @staticmethod
    def of(features: nn.Sequential) -> LaneFeatures | None:
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
        return LaneFeatures(features, blocks) if blocks else None

    def forward(self, images: Tensor) -> Tensor:
        if images.requires_grad or images.dtype != torch.float32:
            return self.plain(images)
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

    def memory(self, described: Any, groups: int) -> Tensor:
        floats = _kernels().dwmr_features_saved(described, len(described), groups)
        for place, kept in enumerate(self.kept):
            if len(kept) == floats:
                return self.kept.pop(place)
        whole = torch.zeros(floats + 16)
        return whole[(-whole.data_ptr() // 4) % 16 :][:floats]  # to a multiple of 64 bytes


class _Features(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, layer: LaneFeatures, images: Tensor, *parameters: Tensor) -> Tensor:
        kernels, threads = _kernels(), torch.get_num_threads()
        described, shape = layer.described(images, parameters)
        keep = any(ctx.needs_input_grad)
        saved = layer.memory(described, -(-len(images) // kernels.dwmr_lanes()) if keep else threads)
        features = images.new_empty(len(images), *shape)
        where = (saved.data_ptr(), features.data_ptr(), threads)
        kernels.dwmr_features(described, len(described), images.data_ptr(), len(images), keep, *where)
        if keep:
            ctx.layer, ctx.saved = layer, saved
            ctx.save_for_backward(images, *parameters)
        else:
            layer.kept.append(saved)
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
        ctx.layer.kept.append(ctx.saved)
        ctx.saved = None
        return None, None, *gradients


class LaneLayers(nn.Module):
    """Convolutions, batch norms with ReLU, residual blocks, flattened at the end."""

    def __init__(self, layers: nn.Sequential, steps: list[Step], norms: list[nn.BatchNorm2d]) -> None:
        super().__init__()
        self.plain, self.steps, self.norms = layers, steps, norms

    @staticmethod
    def of(layers: nn.Sequential) -> LaneLayers | None:
        steps: list[Step] = []
        norms: list[nn.BatchNorm2d] = []
        rest = list(layers)
        while rest:
            match rest:
                case [nn.Flatten()] if steps and isinstance(layers[0], nn.Conv2d):
                    return LaneLayers(layers, steps, norms)
                case [nn.Conv2d() as conv, *rest] if _known(conv):
                    steps.append(_convolution(conv))
                case [nn.BatchNorm2d() as norm, nn.ReLU(), *rest] if _usual(norm):
                    steps.append(_rectified(norm))
                    norms.append(norm)
                case [ResidualBlock() as block, *rest] if _known(block.conv) and _usual(block.norm):
                    steps.append(_residual(block))
                    norms.append(block.norm)
                case _:
                    return None
        return None

    def forward(self, images: Tensor) -> Tensor:
        learning = torch.is_grad_enabled() and not all(norm.training for norm in self.norms)
        if learning or len(images) % _kernels().dwmr_lanes() or images.dtype != torch.float32:
            return self.plain(images)
        values = images.contiguous()  # the first step, a convolution, takes images as they come
        for step in self.steps:
            values = step(values)
        return cast(Tensor, _FromLanes.apply(values)).flatten(1)


def _known(conv: nn.Conv2d) -> bool:
    square = all(len(set(side)) == 1 for side in (conv.kernel_size, conv.stride, conv.dilation, conv.padding))
    return square and conv.groups == 1 and conv.padding_mode == "zeros" and conv.kernel_size[0] <= 8


def _usual(norm: nn.BatchNorm2d) -> bool:
    return norm.affine and norm.track_running_stats and norm.momentum is not None


def _convolution(conv: nn.Conv2d) -> Step:
    sides = (conv.kernel_size[0], conv.stride[0], conv.dilation[0], cast(int, conv.padding[0]))
    return lambda values: cast(Tensor, _Convolve.apply(values, conv.weight, conv.bias, sides))


def _rectified(norm: nn.BatchNorm2d) -> Step:
    return lambda values: _normalise(norm, values, None)


def _residual(block: ResidualBlock) -> Step:
    convolution = _convolution(block.conv)
    return lambda values: _normalise(block.norm, convolution(values), values)


def _normalise(norm: nn.BatchNorm2d, values: Tensor, residual: Tensor | None) -> Tensor:
    """ReLU(norm(values) + residual); in training the running statistics move on."""
    mean, variance = norm.running_mean, norm.running_var
    assert mean is not None
    assert variance is not None
    if not norm.training:
        gain = norm.weight * torch.rsqrt(variance + norm.eps)
        return _rectify(values, residual, gain, norm.bias - mean * gain)
    out, mean_now, variance_now = cast(
        tuple[Tensor, Tensor, Tensor], _Rectify.apply(values, residual, norm.weight, norm.bias, norm.eps)
    )
    with torch.no_grad():
        count = values.numel() // values.shape[1]
        mean.lerp_(mean_now, cast(float, norm.momentum))
        variance.lerp_(variance_now * (count / (count - 1)), cast(float, norm.momentum))
        if norm.num_batches_tracked is not None:
            norm.num_batches_tracked += 1
    return out


def _rectify(values: Tensor, residual: Tensor | None, gain: Tensor, level: Tensor) -> Tensor:
    out = torch.empty_like(values)
    _kernels().dwmr_rectify(
        values.data_ptr(), _address(residual), *_sizes(values), _address(gain), _address(level), *_to(out)
    )
    return out


def _sizes(values: Tensor) -> tuple[int, int, int]:
    """Groups, channels, pixels."""
    return values.shape[0], values.shape[1], values.shape[2] * values.shape[3]


def _to(out: Tensor) -> tuple[int, int]:
    return out.data_ptr(), torch.get_num_threads()


class _FromLanes(torch.autograd.Function):
    """Lanes (groups, C, H, W, lanes) to images (N, C, H, W)."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        return _out_of_lanes(values)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Tensor:
        return _into_lanes(upstream[0].contiguous())


def _into_lanes(images: Tensor) -> Tensor:
    lanes = _kernels().dwmr_lanes()
    out = images.new_empty(len(images) // lanes, *images.shape[1:], lanes)
    _kernels().dwmr_to_lanes(images.data_ptr(), len(out), images[0].numel(), *_to(out))
    return out


def _out_of_lanes(values: Tensor) -> Tensor:
    out = values.new_empty(len(values) * values.shape[-1], *values.shape[1:-1])
    _kernels().dwmr_from_lanes(values.data_ptr(), len(values), out[0].numel(), *_to(out))
    return out


class _Convolve(torch.autograd.Function):
    """A convolution of lanes (groups, C, H, W, lanes), or of images (N, C, H, W); the output is in lanes."""

    @staticmethod
    def forward(
        ctx: Any, values: Tensor, weight: Tensor, bias: Tensor | None, sides: tuple[int, int, int, int]
    ) -> Tensor:
        kernel, stride, dilation, padding = sides
        ctx.images = values.ndim == 4
        lanes = _kernels().dwmr_lanes()
        groups = len(values) // lanes if ctx.images else len(values)
        inputs, height, width = values.shape[1:4]
        ctx.described = Convolution(inputs, len(weight), height, width, *sides)
        rows, cols = ((side + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1 for side in (height, width))
        out = values.new_empty(groups, len(weight), rows, cols, lanes)
        given = (values.data_ptr(), ctx.images, groups, weight.data_ptr(), _address(bias))
        _kernels().dwmr_convolve(ctypes.byref(ctx.described), *given, *_to(out))
        ctx.save_for_backward(values, weight)
        ctx.has_bias = bias is not None
        return out

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        values, weight = ctx.saved_tensors
        given = upstream[0].contiguous()
        back = torch.empty_like(values) if ctx.needs_input_grad[0] else None
        dweight = torch.zeros_like(weight)
        dbias = weight.new_zeros(len(weight)) if ctx.has_bias else None
        inputs = (values.data_ptr(), ctx.images, given.data_ptr(), len(given), weight.data_ptr())
        outputs = (_address(back), dweight.data_ptr(), _address(dbias), torch.get_num_threads())
        _kernels().dwmr_convolve_back(ctypes.byref(ctx.described), *inputs, *outputs)
        return back, dweight, dbias, None


class _Rectify(torch.autograd.Function):
    """ReLU(batch norm + residual) by the batch's own moments, which are returned too."""

    @staticmethod
    def forward(
        ctx: Any, values: Tensor, residual: Tensor | None, scale: Tensor, shift: Tensor, epsilon: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        mean, variance = torch.empty_like(scale), torch.empty_like(scale)
        _kernels().dwmr_moments(values.data_ptr(), *_sizes(values), mean.data_ptr(), *_to(variance))
        rate = torch.rsqrt(variance + epsilon)
        gain = scale * rate
        out = _rectify(values, residual, gain, shift - mean * gain)
        ctx.save_for_backward(values, None if residual is None else out, mean, rate, scale, shift)
        ctx.mark_non_differentiable(mean, variance)
        return out, mean, variance

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        values, out, mean, rate, scale, shift = ctx.saved_tensors
        given = upstream[0].contiguous()
        back = torch.empty_like(values)
        beside = None if out is None else torch.empty_like(values)
        dscale, dshift = torch.empty_like(scale), torch.empty_like(scale)
        inputs = (values.data_ptr(), _address(out), given.data_ptr(), *_sizes(values))
        known = tuple(each.data_ptr() for each in (mean, rate, scale, shift))
        outputs = (back.data_ptr(), _address(beside), dscale.data_ptr(), *_to(dshift))
        _kernels().dwmr_rectify_back(*inputs, *known, *outputs)
        return back, beside, dscale, dshift, None


def coskewness(probs: Tensor) -> Tensor:
    """`dwmr.losses.coskewness` over all triplets, for probs float32 (N, K)."""
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
