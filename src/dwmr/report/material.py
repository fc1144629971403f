"""What the sections of a report draw from: codes and boards of the test split as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dwmr.data.transitions import Transitions
from dwmr.errors import InputError
from dwmr.evaluation.codes import to_numpy
from dwmr.evaluation.evaluate import Evaluation


@dataclass(frozen=True)
class Boards:
    """True boards and what the probe reads, integers (N, cells) each."""

    now: np.ndarray
    then: np.ndarray
    read_now: np.ndarray
    read_then: np.ndarray
    imagined: np.ndarray
    shape: tuple[int, ...]  # (rows, cols) or (cells,)
    n_classes: int
    grid_probe: bool  # each cell is read from its own bits


@dataclass(frozen=True)
class Material:
    """Codes bool (N, K) of the frames, of the next frames, and as imagined from the former."""

    actions: np.ndarray
    codes: np.ndarray
    next_codes: np.ndarray
    predicted: np.ndarray
    boards: Boards | None


def gather(evaluation: Evaluation, test: Transitions) -> Material:
    if len(test) != len(evaluation.codes):
        raise InputError(f"the evaluation has {len(evaluation.codes)} transitions, the test split {len(test)}")
    probe = evaluation.probe
    boards = None
    if probe is not None and test.state is not None and test.next_state is not None:
        boards = Boards(
            now=np.asarray(test.state).reshape(len(test), -1),
            then=np.asarray(test.next_state).reshape(len(test), -1),
            read_now=probe.read(evaluation.codes),
            read_then=probe.read(evaluation.next_codes),
            imagined=probe.read(evaluation.predicted),
            shape=test.state.shape[1:],
            n_classes=probe.n_classes,
            grid_probe=probe.kind == "grid",
        )
    return Material(
        actions=np.asarray(test.actions),
        codes=to_numpy(evaluation.codes),
        next_codes=to_numpy(evaluation.next_codes),
        predicted=to_numpy(evaluation.predicted),
        boards=boards,
    )
