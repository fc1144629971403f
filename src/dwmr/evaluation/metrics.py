"""Scores of predicted boards: pure functions of integer arrays, in percent.

Boards are integers (N, cells) in [0, n_classes). All the F1 figures are computed for each cell and averaged over
the cells, as in the paper.
"""

from __future__ import annotations

import numpy as np


def confusion(true: np.ndarray, read: np.ndarray, n_classes: int, counted: np.ndarray | None = None) -> np.ndarray:
    """How often each true label (axis 1) was read as each label (axis 2) in each cell: int64 (cells, C, C).

    ``counted`` (N, cells) restricts the count to where it is true.
    """
    cells = true.shape[1]
    index = (np.arange(cells) * n_classes + true.astype(np.int64)) * n_classes + read
    chosen = index.ravel() if counted is None else index[counted]
    return np.bincount(chosen, minlength=cells * n_classes**2).reshape(cells, n_classes, n_classes)


def macro_f1(counts: np.ndarray, labels: str) -> float:
    """Mean over the cells of the mean F1 over labels, from `confusion` counts.

    ``labels="union"``: over the labels that occur in a cell as truth or as reading (the paper's figure; one false
    reading of a label that a cell never holds costs a whole class). ``labels="true"``: over those that occur as
    truth. Cells without any count are left out.
    """
    hits = np.diagonal(counts, axis1=1, axis2=2)
    true, read = counts.sum(2), counts.sum(1)
    f1 = 2 * hits / np.maximum(true + read, 1)
    taken = (true + read > 0) if labels == "union" else (true > 0)
    used = taken.any(1)
    if not used.any():
        return float("nan")
    by_cell = (f1 * taken).sum(1)[used] / taken.sum(1)[used]
    return 100 * float(by_cell.mean())


def board_scores(true: np.ndarray, read: np.ndarray, n_classes: int, changed: np.ndarray) -> dict[str, float | None]:
    """Every score of readings ``read`` of boards ``true``, both (N, cells).

    ``changed`` (N, cells) marks the cells that the action changes; ``changed_cells_f1`` (over the true labels)
    counts these alone, and is None where nothing ever changes.
    """
    counts = confusion(true, read, n_classes)
    right = true == read
    return {
        "f1": macro_f1(counts, "union"),
        "f1_true_labels": macro_f1(counts, "true"),
        "accuracy": 100 * float(right.mean()),
        "board_accuracy": 100 * float(right.all(1).mean()),
        "changed_cells_f1": macro_f1(confusion(true, read, n_classes, changed), "true") if changed.any() else None,
    }
