"""The quickest way through a network on the CPU: the C++ kernels where they know it, else parts that fit the cache."""

from __future__ import annotations

import contextlib
import ctypes

import torch
from torch import Tensor, nn

from dwmr.ops.lanes import lane_twin
from dwmr.ops.native import library
from dwmr.ops.terms import fast_objective
from dwmr.training.objectives import OBJECTIVES, Objective
from dwmr.training.schemes import Learner

IMAGES_IN_CACHE = 32  # of the 8-puzzle's first and largest layer, 8 MB: what a processor's cache may hold
KEPT_MEMORY = 512 * 2**20  # bytes
WORTH_COMPILING = 100  # updates after which compiled kernels have saved the seconds they took to build


def quicken(learner: Learner, objective: Objective, updates: int) -> str:
    """Give a learner quicker twins of its networks and terms; in words, which kernels they use.

    ``updates`` is the length of the whole run, so that a resumed run goes on with the kernels it began with.
    """
    _keep_freed_memory()
    compiled = updates >= WORTH_COMPILING and library() is not None
    learner.objective = fast_objective(objective, torch.device("cpu"), compiled)
    model = learner.model
    look = (1 / (255 * model.std), -model.mean / model.std)  # `WorldModel.normalize`
    encoders = {network: lane_twin(network, *look) for network in (model.encoder, learner.target) if compiled}
    others = [model.predictor, *([model.decoder] if model.decoder else [])]
    twins = encoders | {network: lane_twin(network) for network in others if compiled}
    for network in (model.encoder, learner.target, *others):
        twin = twins.get(network) or _in_parts(network)
        if twin is not None:
            learner.twins[network] = twin
    # A decoder's output is compared with the normalised images, and terms of one's own may look at them.
    learner.takes_bytes = (
        bool(encoders) and all(encoders.values()) and model.decoder is None and objective in OBJECTIVES.values()
    )
    return "C++ kernels" if compiled else "torch kernels"


def _keep_freed_memory() -> None:
    """Let the C library use freed memory again: to take it anew from the system, page by page, is a tenth of an update.

    Only glibc knows these settings; elsewhere nothing happens."""
    trim_threshold, map_threshold = -1, -3
    with contextlib.suppress(AttributeError, OSError, TypeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(trim_threshold, KEPT_MEMORY)
        libc.mallopt(map_threshold, 32 * 2**20)


def _in_parts(network: nn.Module) -> nn.Module | None:
    return InParts(network) if getattr(network, "per_image", False) else None


class InParts(nn.Module):
    """A network that treats each image by itself, a few images at a time: what a layer wrote is still in the cache."""

    def __init__(self, network: nn.Module, images: int = IMAGES_IN_CACHE) -> None:
        super().__init__()
        self.network, self.images = network, images

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.cat([self.network(part) for part in inputs.split(self.images)])
