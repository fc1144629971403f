"""The layers of several runs as one: weights with a leading run axis, inputs (S, N, …).

Runs never mix: no layer sums over the run axis. Where no kernel of ours fits, convolutions are matrix products over
patches, which for these small images and channels are quicker than grouped convolutions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from dwmr.ops.precision import quick_products

Sides = tuple[int, int]
WIDEST = 64  # channels for which the kernels of convolutions fit a multiprocessor's memory


class CannotStack(Exception):
    """A layer has no stacked twin; such networks are trained one after another."""


class StackedLayer(nn.Module):
    """A layer of S runs, its tensors named as those of the layer it stands for."""

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        super().__init__()
        first = layers[0]
        for name in dict(first.named_parameters(recurse=False)):
            values = [layer.get_parameter(name) for layer in layers]
            self.register_parameter(name, nn.Parameter(torch.stack([value.detach() for value in values])))
        for name in dict(first.named_buffers(recurse=False)):
            self.register_buffer(name, torch.stack([layer.get_buffer(name) for layer in layers]))


class StackedLinear(StackedLayer):
    weight: Tensor
    bias: Tensor

    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        super().__init__(layers)
        if layers[0].bias is None:
            raise CannotStack("a linear layer without bias")

    def forward(self, x: Tensor) -> Tensor:
        return _Product.apply(x, self.weight, self.bias)


class StackedLayerNorm(StackedLayer):
    weight: Tensor
    bias: Tensor

    def __init__(self, layers: Sequence[nn.LayerNorm]) -> None:
        super().__init__(layers)
        if len(layers[0].normalized_shape) != 1 or layers[0].bias is None:
            raise CannotStack("a LayerNorm over several axes, or without weights")
        self.shape, self.eps = layers[0].normalized_shape, layers[0].eps

    def forward(self, x: Tensor) -> Tensor:
        standard = F.layer_norm(x, self.shape, eps=self.eps)
        return torch.addcmul(self.bias.unsqueeze(1), standard, self.weight.unsqueeze(1))


class StackedConv(StackedLayer):
    """A convolution over disjoint patches (stride = kernel, no padding), or one that keeps the image's size."""

    weight: Tensor

    def __init__(self, layers: Sequence[nn.Conv2d]) -> None:
        super().__init__(layers)
        first = layers[0]
        kernel, stride, padding = first.kernel_size, first.stride, cast(tuple[int, int], first.padding)
        disjoint = stride == kernel and padding == (0, 0)
        same_size = stride == (1, 1) and all(side == 2 * pad + 1 for side, pad in zip(kernel, padding))
        if first.groups != 1 or first.dilation != (1, 1) or first.padding_mode != "zeros":
            raise CannotStack("a convolution with groups, dilation or padding of another kind")
        if not (disjoint or same_size):
            raise CannotStack(f"a convolution with kernel {kernel}, stride {stride}, padding {padding}")
        self.kernel, self.stride, self.padding = kernel, stride, padding
        self.has_bias = first.bias is not None
        self.fused = False

    def forward(self, x: Tensor) -> Tensor:
        if self.fused and self.kernel == (3, 3) and self.padding == (1, 1) and max(self.weight.shape[1:3]) <= WIDEST:
            from dwmr.ops.triton_conv import conv

            last = conv(x.flatten(0, 1).permute(0, 2, 3, 1), self.weight)
            result = last.unflatten(0, x.shape[:2]).permute(0, 1, 4, 2, 3)
        elif self.fused and self.kernel == self.stride and _patches_fit(self.weight, x):
            from dwmr.ops.triton_patch import patch_conv

            result = patch_conv(x, self.weight)
        else:
            result = _Convolution.apply(x, self.weight, self.kernel, self.stride, self.padding)
        return result + _spread(self.get_parameter("bias")) if self.has_bias else result

    def give_bias(self) -> nn.Parameter | None:
        """The bias, which is no longer added here: whoever takes it accounts for it."""
        given = self.get_parameter("bias") if self.has_bias else None
        self.has_bias = False
        return given


class StackedConvTranspose(StackedLayer):
    """A transposed convolution whose patches do not overlap (stride = kernel)."""

    weight: Tensor
    bias: Tensor

    def __init__(self, layers: Sequence[nn.ConvTranspose2d]) -> None:
        super().__init__(layers)
        self.kernel = layers[0].kernel_size[0]
        self.has_bias, self.fused = True, False
        first, square = layers[0], (self.kernel, self.kernel)
        plain = first.padding == (0, 0) == first.output_padding and first.groups == 1 and first.dilation == (1, 1)
        if not first.kernel_size == first.stride == square or first.bias is None or not plain:
            raise CannotStack("a transposed convolution with patches that overlap or are not square")

    def forward(self, x: Tensor) -> Tensor:
        if self.fused and _patches_fit(self.weight):
            from dwmr.ops.triton_patch import patch_transpose

            image = patch_transpose(x, self.weight)
        else:
            runs, count, depth, rows, cols = x.shape
            k = self.kernel
            outputs = self.weight.shape[2]
            columns = x.permute(0, 1, 3, 4, 2).reshape(runs, -1, depth)
            patches = _TallProduct.apply(columns, self.weight.flatten(2)).view(runs, count, rows, cols, outputs, k, k)
            image = patches.permute(0, 1, 4, 2, 5, 3, 6).reshape(runs, count, outputs, rows * k, cols * k)
        return image + _spread(self.bias) if self.has_bias else image

    def give_bias(self) -> nn.Parameter | None:
        self.has_bias = False
        return self.get_parameter("bias")


class StackedBatchNorm(StackedLayer):
    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(self, layers: Sequence[nn.BatchNorm2d]) -> None:
        super().__init__(layers)
        if not (layers[0].affine and layers[0].track_running_stats and layers[0].momentum):
            raise CannotStack("a BatchNorm without weights, running statistics or momentum")
        self.eps, self.momentum = layers[0].eps, layers[0].momentum
        self.fused = self.relu = False
        self.earlier_bias: list[nn.Parameter] = []  # in a list, so that it stays a parameter of its own layer alone

    def forward(self, x: Tensor) -> Tensor:
        if self.fused:
            return self._fused(x)
        if self.training:
            var, mean = torch.var_mean(x, dim=(1, 3, 4), correction=0)
            self._track(mean, var, x[0, :, 0].numel())
            scale, shift = self._map(mean, var)
        else:
            scale, shift = self._running_map()
        y = torch.addcmul(_spread(shift), x, _spread(scale))
        return F.relu(y) if self.relu else y

    def take_bias(self, bias: nn.Parameter) -> None:
        """A bias just before the normalisation moves the mean and nothing else: it is added there, not to the data.
        Its gradient is zero, exactly."""
        self.earlier_bias.append(bias)

    def _map(self, mean: Tensor, var: Tensor) -> tuple[Tensor, Tensor]:
        scale = self.weight * (var + self.eps).rsqrt()
        return scale, self.bias - mean * scale

    def _running_map(self) -> tuple[Tensor, Tensor]:
        mean = self.running_mean
        for bias in self.earlier_bias:
            mean = mean - bias.detach()
        return self._map(mean, self.running_var)

    def _fused(self, x: Tensor) -> Tensor:
        from dwmr.ops.triton_batch_norm import affine, batch_norm

        last = x.permute(0, 1, 3, 4, 2)
        rows = last.flatten(1, 3)
        if self.training:
            y, mean, var = batch_norm(rows, self.weight, self.bias, self.eps, self.relu)
            self._track(mean, var, rows.shape[1])
        else:
            y = affine(rows.contiguous(), *self._running_map(), self.relu)
        return y.view(last.shape).permute(0, 1, 4, 2, 3)

    @torch.no_grad()
    def _track(self, mean: Tensor, var: Tensor, samples: int) -> None:
        for bias in self.earlier_bias:
            mean = mean + bias
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(var * (samples / (samples - 1)), self.momentum)
        self.num_batches_tracked.add_(1)


class StackedGroupNorm(StackedLayer):
    weight: Tensor
    bias: Tensor

    def __init__(self, layers: Sequence[nn.GroupNorm]) -> None:
        super().__init__(layers)
        self.groups, self.eps = layers[0].num_groups, layers[0].eps

    def forward(self, x: Tensor) -> Tensor:
        standard = F.group_norm(x.flatten(0, 1), self.groups, eps=self.eps).view_as(x)
        return torch.addcmul(_spread(self.bias), standard, _spread(self.weight))


class Merged(nn.Module):
    """A layer without weights that wants (N, …): runs and samples are one axis for it."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.flatten(0, 1)).unflatten(0, x.shape[:2])


class StackedFeatures(nn.Module):
    """The convolutional part of S `ConvEncoder`s, in fused kernels."""

    def __init__(self, features: Sequence[nn.Sequential]) -> None:
        super().__init__()
        self.pools: list[bool] = []
        # Each tensor's name here, and in the layers it stands for.
        self.origins: dict[str, str] = {}
        first, place = features[0], 0
        while place < len(first):
            pool = place + 3 < len(first) and isinstance(first[place + 3], nn.AvgPool2d)
            tensors = {"weight": f"{place}.weight", "scale": f"{place + 1}.weight", "shift": f"{place + 1}.bias"}
            for name, origin in tensors.items():
                values = torch.stack([layers.get_parameter(origin).detach() for layers in features])
                self.register_parameter(f"{name}{len(self.pools)}", nn.Parameter(values))
                self.origins[f"{name}{len(self.pools)}"] = origin
            self.pools.append(pool)
            place += 4 if pool else 3

    def forward(self, images: Tensor) -> Tensor:
        from dwmr.ops.triton_encode import Block, conv_features

        get = self.get_parameter
        blocks = [
            Block(get(f"weight{place}"), get(f"scale{place}"), get(f"shift{place}"), pool)
            for place, pool in enumerate(self.pools)
        ]
        return conv_features(images, blocks)


class StackedDecoding(nn.Module):
    """The convolutional part of S `ConvDecoder`s, in fused kernels."""

    def __init__(self, layers: Sequence[nn.Sequential]) -> None:
        super().__init__()
        self.origins: dict[str, str] = {}
        self.doubles: dict[int, bool] = {}  # where the convolutions are, and whether the image is doubled before
        first = layers[0]
        for place, layer in enumerate(first):
            if isinstance(layer, nn.Conv2d):
                self.doubles[place] = place > 0 and isinstance(first[place - 1], nn.Upsample)
                tensors = {"weight": f"{place}.weight"}
                if layer.bias is None:
                    tensors |= {"scale": f"{place + 1}.weight", "shift": f"{place + 1}.bias"}
                else:
                    tensors |= {"bias": f"{place}.bias"}
                for name, origin in tensors.items():
                    values = torch.stack([each.get_parameter(origin).detach() for each in layers])
                    self.register_parameter(f"{name}{place}", nn.Parameter(values))
                    self.origins[f"{name}{place}"] = origin

    def forward(self, x: Tensor) -> Tensor:
        from dwmr.ops.triton_decode import DecodingBlock, decode

        get = self.get_parameter
        *places, last = self.doubles
        blocks = [
            DecodingBlock(get(f"weight{place}"), get(f"scale{place}"), get(f"shift{place}"), self.doubles[place])
            for place in places
        ]
        return decode(x, blocks, get(f"weight{last}"), get(f"bias{last}"), self.doubles[last])


class _Product(torch.autograd.Function):
    """x (S, N, I) with weight (S, O, I) and bias (S, O)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        with quick_products():
            return torch.baddbmm(bias.unsqueeze(1), x, weight.mT)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        (gradient,) = gradients
        with quick_products():
            d_x = torch.bmm(gradient, weight) if ctx.needs_input_grad[0] else None
            return d_x, torch.bmm(gradient.mT, x), gradient.sum(1)


class _TallProduct(torch.autograd.Function):
    """Products (S, M, I) @ (S, I, O) with M in the ten thousands."""

    @staticmethod
    def forward(ctx: Any, tall: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(tall, weight)
        return torch.bmm(tall, weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor]:
        tall, weight = ctx.saved_tensors
        (gradient,) = gradients
        d_tall = torch.bmm(gradient, weight.mT) if ctx.needs_input_grad[0] else None
        return d_tall, _sum_of_products(tall, gradient)


class _Convolution(torch.autograd.Function):
    """x (S, N, C, H, W) with weight (S, O, C, k, k) over patches, the result's memory with channels last."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, kernel: Sides, stride: Sides, padding: Sides) -> Tensor:
        patches = _patches(x, kernel, stride, padding)
        runs, count, rows, cols = patches.shape[:4]
        columns = patches.flatten(1, 3)
        ctx.save_for_backward(columns, weight)
        ctx.form = kernel, stride, padding, x.shape
        result = torch.bmm(columns, weight.flatten(2).mT)
        return result.view(runs, count, rows, cols, -1).permute(0, 1, 4, 2, 3)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        columns, weight = ctx.saved_tensors
        kernel, stride, padding, shape = ctx.form
        (gradient,) = gradients
        runs, count, outputs, rows, cols = gradient.shape
        arrived = gradient.permute(0, 1, 3, 4, 2).reshape(runs, -1, outputs)
        d_weight = _sum_of_products(columns, arrived).mT.reshape(weight.shape)
        if not ctx.needs_input_grad[0]:
            return None, d_weight, None, None, None
        if stride == (1, 1):
            # The gradient of a padded convolution is the convolution of the gradient with the turned kernel.
            turned = weight.flip(-2, -1).transpose(1, 2)
            back = torch.bmm(_patches(gradient, kernel, stride, padding).flatten(1, 3), turned.flatten(2).mT)
            d_x = back.view(runs, count, rows, cols, -1).permute(0, 1, 4, 2, 3)
        else:
            back = torch.bmm(arrived, weight.flatten(2)).view(runs, count, rows, cols, -1, *kernel)
            d_x = back.permute(0, 1, 4, 2, 5, 3, 6).reshape(shape)
        return d_x, d_weight, None, None, None


def _patches_fit(weight: Tensor, image: Tensor | None = None) -> bool:
    """Whether the kernels for patches can take these weights, and an image that is to be cut into patches."""
    from dwmr.ops.triton_patch import fits

    side = weight.shape[-1]
    return fits(weight) and (image is None or not (image.shape[-2] % side or image.shape[-1] % side))


def _patches(x: Tensor, kernel: Sides, stride: Sides, padding: Sides) -> Tensor:
    """(S, N, C, H, W) as (S, N, H', W', C·k·k)."""
    down, across = padding
    x = F.pad(x, (across, across, down, down)) if down or across else x
    return x.unfold(-2, kernel[0], stride[0]).unfold(-2, kernel[1], stride[1]).permute(0, 1, 3, 4, 2, 5, 6).flatten(4)


def _sum_of_products(left: Tensor, right: Tensor) -> Tensor:
    """(S, M, I)ᵀ @ (S, M, O) for M in the ten thousands: in parts that are summed afterwards, since a batched product
    would leave the whole sum to one thread block a run."""
    runs, rows = left.shape[:2]
    parts = math.gcd(rows, 128)
    cut = [each.reshape(runs * parts, rows // parts, -1) for each in (left, right)]
    return torch.bmm(cut[0].mT, cut[1]).unflatten(0, (runs, parts)).sum(1)


def _spread(values: Tensor) -> Tensor:
    """(S, C) against (S, N, C, H, W)."""
    return values[:, None, :, None, None]
