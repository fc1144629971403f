"""Convolutions, each perhaps followed by batch normalisation with ReLU, as one chain of C++ kernels on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from dwmr.ops.dispatch import define


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
    def layout(self) -> list[int]:
        """What the kernels must know besides the tensors: see `_Layout`."""
        conv = self.conv
        sides = (conv.kernel_size[0], conv.stride[0], conv.dilation[0], cast(int, conv.padding[0]))
        return [*sides, conv.bias is not None, self.norm is not None, self.residual]


@dataclass(frozen=True)
class _Layout:
    kernel: int
    stride: int
    dilation: int
    padding: int
    biased: int
    normed: int
    residual: int

    @property
    def tensors(self) -> int:
        return 1 + self.biased + 2 * self.normed

    def out(self, side: int) -> int:
        return (side + 2 * self.padding - self.dilation * (self.kernel - 1) - 1) // self.stride + 1


def conv_chain(images: Tensor, links: Sequence[Link]) -> Tensor:
    """Images (N, C, H, W) through all links in training mode, to (N, O · H' · W'); running statistics move on.

    N must be a multiple of the kernels' lanes, see `fits`.
    """
    parameters = [each.unsqueeze(0) for link in links for each in link.tensors]
    layout = [number for link in links for number in link.layout]
    eps = [link.norm.eps if link.norm else 0.0 for link in links]
    out, moments, _ = _chain(images.unsqueeze(0), parameters, layout, eps)
    plane = images.shape[-2:]
    start = 0
    for link, form in zip(links, _layouts(layout), strict=True):
        plane = torch.Size(form.out(side) for side in plane)
        if link.norm is not None:
            width = link.conv.out_channels
            mean, variance = moments.squeeze(0)[start : start + 2 * width].unflatten(0, (2, -1)).unbind(0)
            _track(link.norm, mean.detach(), variance.detach(), len(images) * plane.numel())
            start += 2 * width
    return out.squeeze(0)


@torch.no_grad()
def conv_chain_eval(images: Tensor, links: Sequence[Link]) -> Tensor:
    """`conv_chain` by running statistics, without gradient."""
    parameters = [each.unsqueeze(0) for link in links for each in link.tensors]
    layout = [number for link in links for number in link.layout]
    eps = [link.norm.eps if link.norm else 0.0 for link in links]
    running = [
        cast(Tensor, each).unsqueeze(0)
        for link in links
        if link.norm is not None
        for each in (link.norm.running_mean, link.norm.running_var)
    ]
    return _chain_eval(images.unsqueeze(0), parameters, running, layout, eps).squeeze(0)


def fits(count: int) -> bool:
    """Whether the kernels can take this many images: whole vectors only."""
    from dwmr.ops.native import lanes

    return count % lanes() == 0


def _track(norm: nn.BatchNorm2d, mean: Tensor, variance: Tensor, count: int) -> None:
    momentum = cast(float, norm.momentum)
    for kept, fresh in ((norm.running_mean, mean), (norm.running_var, variance * (count / (count - 1)))):
        cast(Tensor, kept).mul_(1 - momentum).add_(fresh, alpha=momentum)
    if norm.num_batches_tracked is not None:
        norm.num_batches_tracked += 1


def _layouts(layout: Sequence[int]) -> list[_Layout]:
    return [_Layout(*layout[start : start + 7]) for start in range(0, len(layout), 7)]


def _described(
    shape: Sequence[int], weights: Sequence[Sequence[Tensor]], forms: Sequence[_Layout], eps: Sequence[float]
) -> tuple[Any, list[tuple[int, int, int]]]:
    """The links as the C++ kernels take them, without addresses, and the shape of each link's output.

    ``shape`` is the (C, H, W) of an image, ``weights`` the tensors of each link.
    """
    from dwmr.ops.native import Convolution, Step

    steps = (Step * len(forms))()
    inputs, height, width = shape
    shapes = []
    for place, (form, tensors) in enumerate(zip(forms, weights, strict=True)):
        outputs = tensors[0].shape[-4]
        sides = (form.kernel, form.stride, form.dilation, form.padding)
        conv = Convolution(inputs, outputs, height, width, *sides)
        steps[place] = Step(conv, form.normed, form.residual, eps[place])
        inputs, height, width = outputs, form.out(height), form.out(width)
        shapes.append((inputs, height, width))
    return steps, shapes


def _by_link(tensors: Sequence[Tensor], forms: Sequence[_Layout]) -> list[list[Tensor]]:
    rest = iter(tensors)
    return [[next(rest) for _ in range(form.tensors)] for form in forms]


def _set_addresses(step: Any, form: _Layout, tensors: Sequence[Tensor], prefix: str = "") -> None:
    names = ["weight", *(["bias"] if form.biased else []), *(["scale", "shift"] if form.normed else [])]
    for name, tensor in zip(names, tensors, strict=True):
        setattr(step, prefix + name, tensor.data_ptr())


def _prepared(
    images: Tensor, parameters: Sequence[Tensor], layout: Sequence[int], eps: Sequence[float]
) -> tuple[Any, list[_Layout], list[tuple[int, int, int]]]:
    forms = _layouts(layout)
    weights = _by_link(parameters, forms)
    steps, shapes = _described(images.shape[-3:], weights, forms, eps)
    for step, form, tensors in zip(steps, forms, weights, strict=True):
        _set_addresses(step, form, tensors)
    return steps, forms, shapes


def _set_moments(steps: Any, forms: Sequence[_Layout], moments: Tensor) -> None:
    """Where each norm's mean and variance lie in ``moments``."""
    start = 0
    for step, form in zip(steps, forms, strict=True):
        if form.normed:
            width = step.conv.outputs
            step.mean = moments[start:].data_ptr()
            step.variance = moments[start + width :].data_ptr()
            start += 2 * width


def _size(shape: tuple[int, int, int]) -> int:
    return shape[0] * shape[1] * shape[2]


def _forward_run(
    images: Tensor, parameters: Sequence[Tensor], layout: list[int], eps: list[float]
) -> tuple[Tensor, Tensor, Tensor]:
    from dwmr.ops.native import kernels, lanes, reused_memory

    images, parameters = images.contiguous(), [each.contiguous() for each in parameters]
    steps, forms, shapes = _prepared(images, parameters, layout, eps)
    groups = len(images) // lanes()
    moments = images.new_empty(sum(2 * shape[0] for shape, form in zip(shapes, forms, strict=True) if form.normed))
    _set_moments(steps, forms, moments)
    saved = reused_memory(kernels().dwmr_chain_saved(steps, len(steps), groups))
    out = images.new_empty(len(images), _size(shapes[-1]))
    pointers = (images.data_ptr(), groups, saved.data_ptr(), out.data_ptr())
    kernels().dwmr_chain_learn(steps, len(steps), *pointers, torch.get_num_threads())
    return out, moments, saved


def _forward(
    images: Tensor, parameters: list[Tensor], layout: list[int], eps: list[float]
) -> tuple[Tensor, Tensor, Tensor]:
    runs = zip(images, zip(*parameters, strict=True), strict=True)
    out, moments, saved = zip(*(_forward_run(*run, layout, eps) for run in runs), strict=True)
    return _stacked(out), _stacked(moments), _stacked(saved)


def _stacked(parts: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(parts)) if len(parts) > 1 else parts[0].unsqueeze(0)


def _fake(
    images: Tensor, parameters: list[Tensor], layout: list[int], eps: list[float]
) -> tuple[Tensor, Tensor, Tensor]:
    from dwmr.ops.native import kernels, lanes

    forms = _layouts(layout)
    steps, shapes = _described([int(side) for side in images.shape[-3:]], _by_link(parameters, forms), forms, eps)
    runs, count = images.shape[:2]
    saved = kernels().dwmr_chain_saved(steps, len(steps), count // lanes())
    moments = sum(2 * shape[0] for shape, form in zip(shapes, forms, strict=True) if form.normed)
    return (
        images.new_empty(runs, count, _size(shapes[-1])),
        images.new_empty(runs, moments),
        images.new_empty(runs, saved),
    )


def _backward_run(
    gradient: Tensor,
    images: Tensor,
    moments: Tensor,
    saved: Tensor,
    parameters: Sequence[Tensor],
    layout: list[int],
    eps: list[float],
    into_images: bool,
) -> list[Tensor]:
    from dwmr.ops.native import address, kernels, lanes

    images, gradient = images.contiguous(), gradient.contiguous()
    parameters = [each.contiguous() for each in parameters]
    steps, forms, _ = _prepared(images, parameters, layout, eps)
    _set_moments(steps, forms, moments)
    found = [torch.zeros_like(each) for each in parameters]
    for step, form, tensors in zip(steps, forms, _by_link(found, forms), strict=True):
        _set_addresses(step, form, tensors, "d")
    back = torch.empty_like(images) if into_images else None
    pointers = (images.data_ptr(), len(images) // lanes(), saved.data_ptr(), gradient.data_ptr(), address(back))
    kernels().dwmr_chain_back(steps, len(steps), *pointers, torch.get_num_threads())
    return found if back is None else [back, *found]


def _backward(
    gradient: Tensor,
    images: Tensor,
    moments: Tensor,
    saved: Tensor,
    parameters: list[Tensor],
    layout: list[int],
    eps: list[float],
    into_images: bool,
) -> list[Tensor]:
    runs = zip(gradient, images, moments, saved, zip(*parameters, strict=True), strict=True)
    found = [_backward_run(*run, layout, eps, into_images) for run in runs]
    return [_stacked(parts) for parts in zip(*found, strict=True)]


def _fake_backward(
    gradient: Tensor,
    images: Tensor,
    moments: Tensor,
    saved: Tensor,
    parameters: list[Tensor],
    layout: list[int],
    eps: list[float],
    into_images: bool,
) -> list[Tensor]:
    return [torch.empty_like(each) for each in ([images] if into_images else []) + parameters]


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    images, parameters, layout, eps = inputs
    _, moments, saved = output
    ctx.save_for_backward(images, moments, saved, *parameters)
    ctx.form = layout, eps


def _differentiate(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor | None, list[Tensor], None, None]:
    images, moments, saved, *parameters = ctx.saved_tensors
    into_images = ctx.needs_input_grad[0]
    found = _chain_backward(gradient, images, moments, saved, parameters, *ctx.form, into_images)
    return found[0] if into_images else None, found[-len(parameters) :], None, None


def _eval(
    images: Tensor, parameters: list[Tensor], running: list[Tensor], layout: list[int], eps: list[float]
) -> Tensor:
    from dwmr.ops.native import kernels, lanes

    found = []
    for run, weights, statistics in zip(
        images.contiguous(), zip(*parameters, strict=True), zip(*running, strict=True), strict=True
    ):
        owned = [each.contiguous() for each in weights]
        steps, forms, shapes = _prepared(run, owned, layout, eps)
        pairs = iter([each.contiguous() for each in statistics])
        held = []
        for step, form in zip(steps, forms, strict=True):
            if form.normed:
                mean, variance = next(pairs), next(pairs)
                held += [mean, variance]
                step.running_mean, step.running_variance = mean.data_ptr(), variance.data_ptr()
        out = run.new_empty(len(run), _size(shapes[-1]))
        pointers = (run.data_ptr(), len(run) // lanes(), out.data_ptr())
        kernels().dwmr_chain_apply(steps, len(steps), *pointers, torch.get_num_threads())
        found.append(out)
    return torch.stack(found)


def _fake_eval(
    images: Tensor, parameters: list[Tensor], running: list[Tensor], layout: list[int], eps: list[float]
) -> Tensor:
    return _fake(images, parameters, layout, eps)[0]


_IMAGES = "Tensor images, Tensor[] parameters"
_FORM = "int[] layout, float[] eps"
_chain_backward = define(
    "conv_chain_backward",
    _backward,
    _fake_backward,
    schema=(
        "(Tensor gradient, Tensor images, Tensor moments, Tensor saved, Tensor[] parameters, "
        f"{_FORM}, bool into_images) -> Tensor[]"
    ),
)
_chain = define(
    "conv_chain",
    _forward,
    _fake,
    schema=f"({_IMAGES}, {_FORM}) -> (Tensor, Tensor, Tensor)",
    setup=_setup,
    backward=_differentiate,
)
_chain_eval = define("conv_chain_eval", _eval, _fake_eval, schema=f"({_IMAGES}, Tensor[] running, {_FORM}) -> Tensor")
