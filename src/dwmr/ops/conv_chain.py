"""Convolutions, each perhaps followed by batch normalisation with ReLU, as one chain of C++ kernels on the CPU."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from dwmr.ops.batch_norm import track
from dwmr.ops.dispatch import define

Shapes = Sequence[tuple[int, int, int]]


@dataclass(frozen=True)
class Link:
    """A convolution, perhaps with batch norm and ReLU after it; ``residual`` adds the link's input before the ReLU."""

    conv: nn.Conv2d
    norm: nn.BatchNorm2d | None = None
    residual: bool = False

    @property
    def fits(self) -> bool:
        conv, norm = self.conv, self.norm
        square = all(len(set(side)) == 1 for side in (conv.kernel_size, conv.stride, conv.dilation, conv.padding))
        known = square and conv.groups == 1 and conv.padding_mode == "zeros" and conv.kernel_size[0] <= 8
        usual = norm is None or (norm.affine and norm.track_running_stats and norm.momentum is not None)
        return known and usual

    @property
    def tensors(self) -> list[Tensor]:
        """Weight, bias, and the norm's scale and shift, as far as there are any."""
        norm = self.norm
        known = (self.conv.weight, self.conv.bias, norm.weight if norm else None, norm.bias if norm else None)
        return [each for each in known if each is not None]

    @property
    def form(self) -> list[float]:
        """What the kernels must know besides the tensors: see `_Form`."""
        conv, norm = self.conv, self.norm
        sides = (conv.kernel_size[0], conv.stride[0], conv.dilation[0], cast(int, conv.padding[0]))
        return [norm.eps if norm else 0.0, *sides, conv.bias is not None, norm is not None, self.residual]


@dataclass(frozen=True)
class _Form:
    eps: float
    kernel: int
    stride: int
    dilation: int
    padding: int
    biased: int
    normed: int
    residual: int

    @property
    def names(self) -> list[str]:
        """What the tensors of a link are called in C++."""
        return ["weight", *(["bias"] if self.biased else []), *(["scale", "shift"] if self.normed else [])]

    def out(self, side: int) -> int:
        return (side + 2 * self.padding - self.dilation * (self.kernel - 1) - 1) // self.stride + 1


def conv_chain(images: Tensor, links: Sequence[Link]) -> Tensor:
    """Images (N, C, H, W) through all links in training mode, to (N, O · H' · W'); running statistics move on.

    N must be a multiple of the kernels' lanes, see `fits`.
    """
    form = [number for link in links for number in link.form]
    parameters = [each for link in links for each in link.tensors]
    out, moments, _ = _chain([images, *parameters], form)
    _, forms, shapes = _described(images, parameters, form)
    parts = iter(_by_norm(moments, forms, shapes))
    for link, (_, height, width) in zip(links, shapes, strict=True):
        if link.norm is not None:
            track(link.norm, next(parts), next(parts), len(images) * height * width)
    return out


@torch.no_grad()
def conv_chain_eval(images: Tensor, links: Sequence[Link]) -> Tensor:
    """`conv_chain` by running statistics, without gradient."""
    norms = [link.norm for link in links if link.norm is not None]
    running = [cast(Tensor, each) for norm in norms for each in (norm.running_mean, norm.running_var)]
    form = [number for link in links for number in link.form]
    return _chain_eval([images, *(each for link in links for each in link.tensors), *running], form)[0]


def fits(count: int) -> bool:
    """Whether the kernels can take this many images: whole vectors only."""
    from dwmr.ops.native import lanes

    return count % lanes() == 0


def _described(images: Tensor, parameters: Sequence[Tensor], form: Sequence[float]) -> tuple[Any, list[_Form], Shapes]:
    """The links as the C++ kernels take them, but for addresses, and the shape of each link's output."""
    from dwmr.ops.native import Convolution, Step

    forms = [_Form(form[at], *map(int, form[at + 1 : at + 8])) for at in range(0, len(form), 8)]
    steps = (Step * len(forms))()
    inputs, height, width = (int(side) for side in images.shape[-3:])
    shapes, first = [], 0
    for place, each in enumerate(forms):
        outputs = parameters[first].shape[-4]
        sides = (each.kernel, each.stride, each.dilation, each.padding)
        steps[place] = Step(Convolution(inputs, outputs, height, width, *sides), each.normed, each.residual, each.eps)
        inputs, height, width = outputs, each.out(height), each.out(width)
        shapes.append((inputs, height, width))
        first += len(each.names)
    return steps, forms, shapes


def _set_addresses(steps: Any, forms: Sequence[_Form], tensors: Sequence[Tensor], prefix: str = "") -> None:
    rest = iter(tensors)
    for step, form in zip(steps, forms, strict=True):
        for name in form.names:
            setattr(step, prefix + name, next(rest).data_ptr())


def _set_moments(steps: Any, moments: Sequence[Tensor], mean: str = "mean", variance: str = "variance") -> None:
    """Where the means and variances of the norms lie, in turn."""
    rest = iter(moments)
    for step in steps:
        if step.normed:
            setattr(step, mean, next(rest).data_ptr())
            setattr(step, variance, next(rest).data_ptr())


def _by_norm(moments: Tensor, forms: Sequence[_Form], shapes: Shapes) -> Sequence[Tensor]:
    """Mean and variance of each norm, which lie one after the other."""
    return moments.split([shape[0] for shape, form in zip(shapes, forms, strict=True) for _ in range(2 * form.normed)])


def _fake(inputs: Sequence[Tensor], form: Sequence[float]) -> list[Tensor]:
    from dwmr.ops.native import kernels, lanes

    images, *parameters = inputs
    steps, forms, shapes = _described(images, parameters, form)
    runs, count = images.shape[:2]
    saved = kernels().dwmr_chain_saved(steps, len(steps), count // lanes())
    moments = sum(2 * shape[0] * form.normed for shape, form in zip(shapes, forms, strict=True))
    return [images.new_empty(runs, *size) for size in ((count, math.prod(shapes[-1])), (moments,), (saved,))]


def _forward(inputs: Sequence[Tensor], form: Sequence[float]) -> list[Tensor]:
    """The outputs (S, N, K), the moments of all norms, and what the backward pass needs."""
    from dwmr.ops.native import kernels, lanes, reused_memory, stacked

    found = []
    for images, *parameters in zip(*(each.contiguous() for each in inputs), strict=True):
        steps, forms, shapes = _described(images, parameters, form)
        _set_addresses(steps, forms, parameters)
        moments = images.new_empty(sum(2 * shape[0] * form.normed for shape, form in zip(shapes, forms, strict=True)))
        _set_moments(steps, _by_norm(moments, forms, shapes))
        groups = len(images) // lanes()
        saved = reused_memory(kernels().dwmr_chain_saved(steps, len(steps), groups))
        out = images.new_empty(len(images), math.prod(shapes[-1]))
        pointers = (images.data_ptr(), groups, saved.data_ptr(), out.data_ptr())
        kernels().dwmr_chain_learn(steps, len(steps), *pointers, torch.get_num_threads())
        found.append((out, moments, saved))
    return stacked(found)


def _backward(
    gradient: Tensor, inputs: Sequence[Tensor], saved: Sequence[Tensor], form: Sequence[float], into_images: bool
) -> list[Tensor]:
    from dwmr.ops.native import kernels, lanes, stacked

    found = []
    runs = zip(gradient.contiguous(), *saved, *(each.contiguous() for each in inputs), strict=True)
    for arrived, moments, kept, images, *parameters in runs:
        steps, forms, shapes = _described(images, parameters, form)
        _set_addresses(steps, forms, parameters)
        _set_moments(steps, _by_norm(moments, forms, shapes))
        of_parameters = [torch.zeros_like(each) for each in parameters]
        _set_addresses(steps, forms, of_parameters, "d")
        of_images = [torch.empty_like(images)] if into_images else []
        pointers = [images.data_ptr(), len(images) // lanes(), kept.data_ptr(), arrived.data_ptr()]
        pointers.append(of_images[0].data_ptr() if into_images else None)
        kernels().dwmr_chain_back(steps, len(steps), *pointers, torch.get_num_threads())
        found.append([*of_images, *of_parameters])
    return stacked(found)


def _eval(inputs: Sequence[Tensor], form: Sequence[float]) -> list[Tensor]:
    from dwmr.ops.native import kernels, lanes, stacked

    found = []
    for images, *rest in zip(*(each.contiguous() for each in inputs), strict=True):
        steps, forms, shapes = _described(images, rest, form)
        _set_addresses(steps, forms, rest)
        _set_moments(steps, rest[sum(len(form.names) for form in forms) :], "running_mean", "running_variance")
        out = images.new_empty(len(images), math.prod(shapes[-1]))
        pointers = (images.data_ptr(), len(images) // lanes(), out.data_ptr())
        kernels().dwmr_chain_apply(steps, len(steps), *pointers, torch.get_num_threads())
        found.append([out])
    return stacked(found)


_chain = define("conv_chain", lambda images: (_forward, _backward), _fake)
_chain_eval = define("conv_chain_eval", lambda images: (_eval, None), lambda inputs, form: _fake(inputs, form)[:1])
