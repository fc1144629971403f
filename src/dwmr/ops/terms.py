"""Which loss terms have a faster twin on a device."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util

import torch
from torch import Tensor

from dwmr.config import Hyper
from dwmr.ops import coskewness as symmetric
from dwmr.ops import lanes
from dwmr.training import losses
from dwmr.training.objectives import Codes, Objective
from dwmr.training.objectives import coskewness as plain_coskewness


@functools.cache
def has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def fast_objective(objective: Objective, device: torch.device, compiled: bool = False) -> Objective:
    """The same objective, the paper's coskewness computed the quickest way there is on the device.

    ``compiled``: the C++ kernels may be used on the CPU.
    """
    if objective.terms.get("cos") is not plain_coskewness:
        return objective
    if device.type == "cuda" and not has_triton():
        return objective
    on_cpu = _compiled if compiled else _by_symmetry
    fast = _by_triton if device.type == "cuda" else on_cpu
    return dataclasses.replace(objective, terms={**objective.terms, "cos": fast})


def _by_symmetry(codes: Codes, hyper: Hyper) -> Tensor:
    if codes.triplets is not None:
        return losses.coskewness(codes.probs, codes.triplets)
    return symmetric.coskewness(codes.probs)


def _compiled(codes: Codes, hyper: Hyper) -> Tensor:
    if codes.triplets is not None or codes.probs.dtype != torch.float32:
        return _by_symmetry(codes, hyper)
    return lanes.coskewness(codes.probs)


def _by_triton(codes: Codes, hyper: Hyper) -> Tensor:
    from dwmr.ops import triton_coskewness

    too_many = codes.probs.shape[-2] > triton_coskewness.MAX_SAMPLES
    if codes.triplets is not None or too_many or codes.probs.dtype != torch.float32:
        return losses.coskewness(codes.probs, codes.triplets)
    return triton_coskewness.coskewness(codes.probs)
