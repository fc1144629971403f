"""What an epoch has to say: its record, its failure, a warning, a line, a TensorBoard entry."""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch

from dwmr.errors import InputError, TrainingDiverged
from dwmr.training.epochs import EpochFigures

DEAD_MARGIN = 1e-3  # over an epoch, a bit that is 0 or 1 in all but a thousandth of the frames counts as dead


def figures_of(figures: EpochFigures, names: list[str]) -> dict[str, Any]:
    ones = figures.ones
    dead = ((ones < DEAD_MARGIN) | (ones > 1 - DEAD_MARGIN)).sum()
    return {
        "terms": dict(zip(names, figures.terms.double().mean(0).tolist())),
        "bits": {"dead": int(dead), "ones": float(ones.mean()), "flips": figures.flips},
    }


def failure_of(figures: EpochFigures, names: list[str], epoch: int) -> TrainingDiverged | None:
    """What went wrong in an epoch, if anything did: the first term that was not a finite number."""
    broken = ~torch.isfinite(figures.terms)
    if bool(broken.any()):
        update = int(broken.any(1).nonzero()[0])
        first = " and ".join(repr(names[i]) for i in broken[update].nonzero().flatten().tolist())
        return TrainingDiverged(
            f"the loss term {first} is not a finite number since update {update + 1} of epoch {epoch + 1}; "
            f"what was saved after epoch {epoch} is kept"
        )
    if not figures.finite:
        return TrainingDiverged(
            f"a weight is not a finite number after epoch {epoch + 1}; what was saved after epoch {epoch} is kept"
        )
    return None


def warn_if_collapsed(record: dict[str, Any], bits: int, frames: int) -> None:
    """Warn if the bits that change are too few to tell the frames of an epoch apart, however they are used.

    Many constant bits alone are no collapse: with few levels, the cells that look alike in all of them have constant
    bits in a healthy code too.
    """
    alive = bits - record["bits"]["dead"]
    if alive < bits / 2 and alive < math.log2(frames):
        warnings.warn(
            f"only {alive} of {bits} bits changed in epoch {record['epoch']}, too few for {frames} frames: the code is "
            f"collapsing; stronger var and cor weights, or a smaller lr, may help",
            RuntimeWarning,
            stacklevel=3,
        )


def one_line(record: dict[str, Any]) -> str:
    terms = " ".join(f"{name} {value:.3f}" for name, value in record["terms"].items())
    health = f"dead {record['bits']['dead']} flips {record['bits']['flips']:.1f}"
    exact = f" exact {record['val']['exact_next']:.1f}%" if "val" in record else ""
    return f"{terms} · {health}{exact}"


def tensorboard_writer() -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise InputError("TensorBoard is not installed; pip install 'dwmr[tensorboard]'") from error
    return SummaryWriter


def log_tensorboard(board: Any, record: dict[str, Any]) -> None:
    for group in ("terms", "bits", "val", "hyper"):
        for name, value in record.get(group, {}).items():
            board.add_scalar(f"{group}/{name}", value, record["epoch"])
