"""Scores of boards, by hand and against scikit-learn."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from dwmr.evaluation.metrics import board_scores, confusion, macro_f1

NOWHERE = np.zeros((4, 1), bool)


def boards(*rows: list[int]) -> np.ndarray:
    return np.array(rows)


def test_confusion_by_hand():
    true, read = boards([0, 1], [0, 1], [1, 1]), boards([0, 1], [1, 0], [1, 1])
    assert confusion(true, read, 2).tolist() == [[[1, 1], [0, 1]], [[0, 0], [1, 2]]]
    counted = np.array([[True, False], [True, False], [False, True]])
    assert confusion(true, read, 2, counted).tolist() == [[[1, 1], [0, 0]], [[0, 0], [0, 1]]]


def test_one_false_reading_of_a_label_that_never_occurs_costs_a_whole_class():
    true, read = boards([0], [0], [0], [0]), boards([0], [0], [0], [1])
    scores = board_scores(true, read, 2, NOWHERE)
    f1_of_0 = 2 * 3 / (4 + 3)
    assert scores["f1"] == pytest.approx(100 * (f1_of_0 + 0) / 2)
    assert scores["f1_true_labels"] == pytest.approx(100 * f1_of_0)
    assert scores["accuracy"] == scores["board_accuracy"] == 75


def test_every_score_by_hand():
    true = boards([0, 0], [0, 1], [1, 1], [1, 0])
    read = boards([0, 0], [1, 1], [1, 1], [1, 1])
    changed = np.array([[False, False], [True, True], [False, False], [False, True]])
    scores = board_scores(true, read, 2, changed)
    first = (2 * 1 / (2 + 1) + 2 * 2 / (2 + 3)) / 2
    second = (2 * 1 / (2 + 1) + 2 * 2 / (2 + 3)) / 2
    assert scores["f1"] == scores["f1_true_labels"] == pytest.approx(100 * (first + second) / 2)
    assert scores["accuracy"] == 75  # six of eight cells
    assert scores["board_accuracy"] == 50
    # Changed: cell 0 once, 0 read as 1; cell 1 twice, 1 read as 1 and 0 read as 1.
    assert scores["changed_cells_f1"] == pytest.approx(100 * (0 + (2 * 1 / (1 + 2) + 0) / 2) / 2)


def test_a_perfect_reading_scores_100_and_none_where_nothing_changes():
    true = boards([0], [1], [1], [2])
    scores = board_scores(true, true, 3, NOWHERE)
    assert scores.pop("changed_cells_f1") is None
    assert set(scores.values()) == {100.0}


def test_without_counts_the_f1_is_nan():
    assert math.isnan(macro_f1(np.zeros((2, 3, 3), int), "union"))


@given(
    pairs=st.lists(st.tuples(*[st.integers(0, 3)] * 4), min_size=1, max_size=12),
)
def test_agrees_with_scikit_learn_cell_by_cell(pairs):
    true, read = np.array(pairs)[:, :2], np.array(pairs)[:, 2:]
    counts = confusion(true, read, 4)
    union = [f1_score(true[:, c], read[:, c], average="macro", zero_division=0) for c in range(2)]
    among_true = [
        f1_score(true[:, c], read[:, c], average="macro", labels=np.unique(true[:, c]), zero_division=0)
        for c in range(2)
    ]
    assert macro_f1(counts, "union") == pytest.approx(100 * np.mean(union))
    assert macro_f1(counts, "true") == pytest.approx(100 * np.mean(among_true))
