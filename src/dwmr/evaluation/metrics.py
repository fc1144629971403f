"""Scores of boards read from codes: pure functions of integer arrays, in percent.

Boards are integers (N, cells) in [0, n_classes). F1 is computed per cell and averaged over the cells, as in the paper.
"""

import numpy as np

SCORE_TITLES = {
    "f1": "F1 (all classes)",
    "f1_true_labels": "F1 (occurring classes)",
    "accuracy": "cells correct",
    "board_accuracy": "boards correct",
    "changed_cells_f1": "F1 (changed cells)",
}


def confusion(true: np.ndarray, read: np.ndarray, n_classes: int, counted: np.ndarray | None = None) -> np.ndarray:
    """How often each true label (axis 1) was read as each label (axis 2), per cell: int64 (cells, C, C).

    Only entries where ``counted`` (N, cells) is true are counted, if it is given.
    """
    cells = true.shape[1]
    index = (np.arange(cells) * n_classes + true.astype(np.int64)) * n_classes + read
    chosen = index.ravel() if counted is None else index[counted]
    return np.bincount(chosen, minlength=cells * n_classes**2).reshape(cells, n_classes, n_classes)


def macro_f1(counts: np.ndarray, labels: str) -> float:
    """Macro-F1 from `confusion` counts: the mean over labels, then over cells. Cells without counts are left out.

    The labels are those that occur in a cell as true label (``"true"``), or as true or as read label (``"union"``: the
    paper's score; one false reading of a label that a cell never holds costs a whole class).
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
    """All scores of the boards ``read`` against the boards ``true``, both (N, cells).

    ``changed`` (N, cells) marks the cells that the action changes. ``changed_cells_f1``, over the true labels, counts
    only these; it is None if nothing changes.
    """
    counts, moved = (confusion(true, read, n_classes, counted) for counted in (None, changed))
    return scores_of(counts, moved, (true == read).all(1).mean())


def scores_of(counts: np.ndarray, moved: np.ndarray, boards: float) -> dict[str, float | None]:
    """All scores from the `confusion` counts of all cells and of the changed ones, and the share of correct boards."""
    return {
        "f1": macro_f1(counts, "union"),
        "f1_true_labels": macro_f1(counts, "true"),
        "accuracy": 100 * float(np.trace(counts, axis1=1, axis2=2).sum() / counts.sum()),
        "board_accuracy": 100 * float(boards),
        "changed_cells_f1": macro_f1(moved, "true") if moved.any() else None,
    }
