"""The quickest way through a network on the CPU: the C++ kernels where they know it, else parts that fit the cache."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dwmr.fast.lanes import lane_twin
from dwmr.fast.native import library
from dwmr.schemes import Learner

IMAGES_IN_CACHE = 32  # of the 8-puzzle's first and largest layer, 8 MB: what a processor's cache may hold
WORTH_COMPILING = 100  # updates after which compiled kernels have saved the seconds they took to build


def quicken(learner: Learner, updates: int) -> str:
    """Give the learner's networks quicker twins for that many updates to come; in words, which kernels they use."""
    compiled = library(build=updates >= WORTH_COMPILING) is not None
    networks = (learner.model.encoder, learner.target, learner.model.predictor, learner.model.decoder)
    for network in networks:
        twin = (lane_twin(network) if compiled else None) or _in_parts(network)
        if network is not None and twin is not None:
            learner.twins[network] = twin
    return "C++ kernels" if compiled else "torch kernels"


def _in_parts(network: nn.Module | None) -> nn.Module | None:
    return InParts(network) if getattr(network, "per_image", False) and network is not None else None


class InParts(nn.Module):
    """A network that treats each image by itself, a few images at a time: a layer's output is still there for the next."""

    def __init__(self, network: nn.Module, images: int = IMAGES_IN_CACHE) -> None:
        super().__init__()
        self.network, self.images = network, images

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.cat([self.network(part) for part in inputs.split(self.images)])
