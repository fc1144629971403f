"""Adam over the weights of many runs as one flat tensor (S, P): a few kernels a step, whatever the networks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

BETA_1, BETA_2, EPS = 0.9, 0.999, 1e-8  # torch.optim.Adam's defaults


def flatten(parameters: Sequence[nn.Parameter]) -> Tensor:
    """One tensor (S, P) that from now on holds the parameters (S, …), which become views of it."""
    runs = parameters[0].shape[0]
    flat = torch.cat([parameter.detach().reshape(runs, -1) for parameter in parameters], dim=1)
    start = 0
    for parameter in parameters:
        size = parameter[0].numel()
        parameter.data = flat[:, start : start + size].unflatten(1, parameter.shape[1:])
        start += size
    return flat


class FlatAdam:
    """`torch.optim.Adam` for parameters (S, …), each run with its own learning rate (S,); ``fused`` steps in one Triton
    kernel."""

    def __init__(self, parameters: Sequence[nn.Parameter], lr: Tensor, fused: bool = False) -> None:
        self.parameters, self.lr, self.fused = list(parameters), lr, fused
        self.flat = flatten(self.parameters)
        self.mean, self.square = torch.zeros_like(self.flat), torch.zeros_like(self.flat)
        # Each run counts its own steps; powers of the betas near 1 want more than single precision.
        self.steps = torch.zeros(len(self.flat), dtype=torch.float64, device=self.flat.device)

    def zero_grad(self, set_to_none: bool = True) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        runs = len(self.flat)
        gradients = [
            torch.zeros_like(parameter) if parameter.grad is None else parameter.grad for parameter in self.parameters
        ]
        gradient = torch.cat([each.reshape(runs, -1) for each in gradients], dim=1)
        self.steps += 1
        if self.fused:
            from dwmr.ops.triton_adam import adam

            adam(self.flat, gradient, self.mean, self.square, self.steps, self.lr, (BETA_1, BETA_2), EPS)
            return
        size = (self.lr.double() / (1 - BETA_1**self.steps)).to(self.flat.dtype)
        root = (1 - BETA_2**self.steps).sqrt().to(self.flat.dtype)
        self.mean.lerp_(gradient, 1 - BETA_1)
        self.square.mul_(BETA_2).addcmul_(gradient, gradient, value=1 - BETA_2)
        spread = (self.square.sqrt() / root[:, None]).add_(EPS)
        self.flat.addcmul_(self.mean / spread, -size[:, None])

    def parts(self, flat: Tensor) -> list[Tensor]:
        """A flat tensor (S, P) cut into the shapes of the parameters."""
        sizes = [parameter[0].numel() for parameter in self.parameters]
        return [
            part.unflatten(1, parameter.shape[1:]) for part, parameter in zip(flat.split(sizes, 1), self.parameters)
        ]
