"""What a report is made from: a run, its evaluation, and the codes and boards of the test split as plain arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dwmr.data.transitions import Transitions
from dwmr.errors import InputError
from dwmr.evaluation.codes import to_numpy
from dwmr.evaluation.evaluate import Evaluation
from dwmr.models.run_folder import RunInfo
from dwmr.models.world_model import WorldModel


@dataclass(frozen=True)
class Boards:
    """True boards and those that the probe reads, integers (N, cells) each."""

    now: np.ndarray
    then: np.ndarray
    read_now: np.ndarray
    read_then: np.ndarray
    imagined: np.ndarray
    shape: tuple[int, ...]  # (rows, cols) or (cells,)
    grid_probe: bool  # each cell is read from its own bits


class Material:
    """Everything that the sections of a report show.

    codes, next_codes, predicted  bool (N, K): of the frames, of the next frames, and predicted from the former
    boards                        None without labels
    """

    def __init__(
        self,
        model: WorldModel,
        info: RunInfo,
        metrics: Sequence[Mapping[str, Any]],
        evaluation: Evaluation,
        test: Transitions,
        certificate: Mapping[str, Any] | None,
    ) -> None:
        if len(test) != len(evaluation.codes):
            raise InputError(f"the evaluation has {len(evaluation.codes)} transitions, but test has {len(test)}")
        self.model, self.info, self.metrics, self.test = model, info, metrics, test
        self.figures, self.certificate = evaluation.figures, certificate
        self.codes, self.next_codes = to_numpy(evaluation.codes), to_numpy(evaluation.next_codes)
        self.predicted = to_numpy(evaluation.predicted)
        self.boards = _boards(evaluation, test)


def _boards(evaluation: Evaluation, test: Transitions) -> Boards | None:
    probe = evaluation.probe
    labels = test.board_labels("the report")
    if probe is None or labels is None:
        return None
    state, next_state, _ = labels
    return Boards(
        now=state.reshape(len(test), -1),
        then=next_state.reshape(len(test), -1),
        read_now=probe.read(evaluation.codes),
        read_then=probe.read(evaluation.next_codes),
        imagined=probe.read(evaluation.predicted),
        shape=state.shape[1:] or (1,),
        grid_probe=probe.kind == "grid",
    )
