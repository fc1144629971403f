"""Convolutions, each perhaps followed by a norm with ReLU, as one chain of C++ kernels on the CPU."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from dwmr.ops.batch_norm import track
from dwmr.ops.dispatch import define
from dwmr.ops.native import Step, call, lanes, reused_memory, stacked

NONE, OF_IMAGE, OF_BATCH, GIVEN = range(4)  # whose moments a norm takes
NUMBERS = 10  # of a link's form


@dataclass(frozen=True)
class Link:
    """A convolution, perhaps with a norm and ReLU after it; ``residual`` adds the link's input before the ReLU.

    ``doubled`` enlarges the input first, ``pooled`` halves the output.
    """

    conv: nn.Conv2d
    norm: nn.BatchNorm2d | nn.GroupNorm | None = None
    residual: bool = False
    pooled: bool = False
    doubled: nn.Upsample | None = None

    @property
    def moments(self) -> int:
        if isinstance(self.norm, nn.BatchNorm2d):
            return OF_BATCH if self.norm.training else GIVEN
        return NONE if self.norm is None else OF_IMAGE

    @property
    def fits(self) -> bool:
        """Whether the CPU kernels know this link."""
        conv, norm = self.conv, self.norm
        square = all(len(set(side)) == 1 for side in (conv.kernel_size, conv.stride, conv.dilation, conv.padding))
        known = square and conv.groups == 1 and conv.padding_mode == "zeros" and conv.kernel_size[0] <= 8
        if isinstance(norm, nn.BatchNorm2d):
            usual = norm.affine and norm.track_running_stats and norm.momentum is not None and not self.pooled
        else:
            usual = not self.residual and (norm is None or (norm.affine and norm.num_groups == norm.num_channels))
        return known and usual and self.doubled is None

    @property
    def tensors(self) -> list[Tensor]:
        """Weight, bias, the norm's scale and shift, and its moments if they are given, as far as there are any."""
        norm = self.norm
        known = [self.conv.weight, self.conv.bias, *((norm.weight, norm.bias) if norm else ())]
        if isinstance(norm, nn.BatchNorm2d) and not norm.training:
            known += [norm.running_mean, norm.running_var]
        return [each for each in known if each is not None]

    @property
    def form(self) -> list[float]:
        """What the kernels must know besides the tensors."""
        conv, eps = self.conv, self.norm.eps if self.norm else 0.0
        sides = (conv.kernel_size[0], conv.stride[0], conv.dilation[0], cast(int, conv.padding[0]))
        return [conv.out_channels, *sides, conv.bias is not None, self.moments, self.residual, self.pooled, eps]

    def sides(self, before: Sequence[int]) -> list[int]:
        """Height and width of the output."""
        _, kernel, stride, dilation, padding, *_ = map(int, self.form)
        side = 2 if self.pooled else 1
        return [((size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1) // side for size in before]


def conv_chain(x: Tensor, links: Sequence[Link]) -> Tensor:
    """Images (N, C, H, W) through all links, to (N, O, H', W'); running statistics move on in training."""
    tensors, form = [each for link in links for each in link.tensors], [each for link in links for each in link.form]
    out, moments, _ = _chain([x, *tensors], [torch.is_grad_enabled(), *form])
    sides = list(x.shape[-2:])
    for link in links:
        sides = link.sides(sides)
        if link.moments == OF_BATCH:
            mean, variance, moments = moments.tensor_split((link.conv.out_channels, 2 * link.conv.out_channels))
            track(cast(nn.BatchNorm2d, link.norm), mean, variance, len(x) * math.prod(sides))
    return out


def fits(x: Tensor, links: Sequence[Link]) -> bool:
    """Whether the kernels can take these: with batch norms several links, as one is no faster than PyTorch, and whole
    vectors of images; by given moments no gradient."""
    norms = {link.moments for link in links}
    if not norms.isdisjoint({OF_BATCH, GIVEN}) and (len(links) == 1 or len(x) % lanes()):
        return False
    return all(link.fits for link in links) and not (GIVEN in norms and torch.is_grad_enabled())


def _named(form: Sequence[float]) -> Iterator[tuple[int, str]]:
    """Of which link each of the tensors is, and what C++ calls it."""
    for place, at in enumerate(range(0, len(form), NUMBERS)):
        biased, norm = form[at + 5 : at + 7]
        names = ["weight", *(["bias"] if biased else []), *(["scale", "shift"] if norm else [])]
        yield from ((place, name) for name in names + (["mean", "variance"] if norm == GIVEN else []))


def _described(images: Tensor, form: Sequence[float]) -> tuple[Any, int, int]:
    """The links as the C++ kernels take them, but for addresses, with one more for the shape (C, H, W) of the outputs;
    how many numbers the moments of all batch norms in training are, and how many a group of images leaves behind."""
    steps = (Step * (len(form) // NUMBERS + 1))()
    steps[0].conv.inputs, steps[0].conv.height, steps[0].conv.width = map(int, images.shape[-3:])
    for step, at in zip(steps, range(0, len(form), NUMBERS)):
        numbers = map(int, form[at : at + NUMBERS - 1])
        conv = step.conv
        conv.outputs, conv.kernel, conv.stride, conv.dilation, conv.padding, _, *rest = numbers
        step.norm, step.residual, step.pooled = rest
        step.epsilon = form[at + NUMBERS - 1]
    moments = sum(2 * step.conv.outputs for step in steps if step.norm == OF_BATCH)
    return steps, moments, call("chain_plan", steps, len(steps) - 1)


def _set_addresses(
    steps: Any, form: Sequence[float], tensors: Sequence[Tensor], moments: Tensor, gradients: Sequence[Tensor] = ()
) -> None:
    for prefix, some in (("", tensors), ("d", gradients)):
        for (place, name), tensor in zip(_named(form), some):
            setattr(steps[place], prefix + name, tensor.data_ptr())
    for step in steps:
        if step.norm == OF_BATCH:
            mean, variance, moments = moments.tensor_split((step.conv.outputs, 2 * step.conv.outputs))
            step.mean, step.variance = mean.data_ptr(), variance.data_ptr()


def _forward(inputs: Sequence[Tensor], form: Sequence[float]) -> list[Tensor]:
    """The outputs (S, N, O, H', W'), the moments of all batch norms, and what the backward pass needs: ``form`` begins
    with whether there will be one."""
    differentiable, *form = form
    found = []
    for images, *tensors in zip(*(each.contiguous() for each in inputs), strict=True):
        steps, size, room = _described(images, form)
        last = steps[len(steps) - 1].conv
        out = images.new_empty(len(images), last.inputs, last.height, last.width)
        moments = images.new_empty(size)
        _set_addresses(steps, form, tensors, moments)
        rooms, threads = -(-len(images) // lanes()), torch.get_num_threads()
        if not differentiable and not len(moments):
            rooms = min(rooms, threads)
        saved = reused_memory(rooms * room)
        call("chain", steps, len(steps) - 1, images, len(images), saved, rooms, out, threads)
        found.append((out, moments, saved if differentiable else images.new_empty(0)))
    return stacked(found)


def _backward(
    gradient: Tensor, inputs: Sequence[Tensor], saved: Sequence[Tensor], form: Sequence[float], into_images: bool
) -> list[Tensor]:
    """The gradients of the images, if asked for, and of the other tensors."""
    _, *form = form
    found = []
    runs = zip(gradient.contiguous(), *saved, *(each.contiguous() for each in inputs), strict=True)
    for arrived, moments, kept, images, *tensors in runs:
        steps, *_ = _described(images, form)
        of_images = torch.empty_like(images) if into_images else None
        of_tensors = [torch.zeros_like(each) for each in tensors]
        _set_addresses(steps, form, tensors, moments, of_tensors)
        threads = torch.get_num_threads()
        call("chain_back", steps, len(steps) - 1, len(images), kept, arrived, of_images, threads)
        found.append(of_tensors if of_images is None else [of_images, *of_tensors])
    return stacked(found)


def _fake(inputs: Sequence[Tensor], form: Sequence[float]) -> list[Tensor]:
    differentiable, *form = form
    images = inputs[0]
    runs, count = images.shape[:2]
    steps, moments, room = _described(images, form)
    last = steps[len(steps) - 1].conv
    saved = -(-count // lanes()) * room if differentiable else 0
    return [
        images.new_empty(runs, *shape)
        for shape in ((count, last.inputs, last.height, last.width), (moments,), (saved,))
    ]


_chain = define("conv_chain", _forward, _backward, _fake)
