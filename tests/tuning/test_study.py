"""The memory of a study: storages, locks, and what is not a study."""

import sys

import pytest

from dwmr.errors import InputError
from dwmr.presets import preset
from dwmr.tuning.spaces import search_space
from dwmr.tuning.study import BATCH, Plan, open_study, rows_of


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [(40, [8, 20, 40]), (20, [4, 10, 20]), (6, [2, 3, 6]), (4, [1, 2, 4]), (2, [1, 2]), (1, [1])],
)
def test_trials_are_compared_at_a_fifth_a_half_and_the_end(epochs, expected):
    base = preset("generic/dwmr", epochs=epochs)
    assert Plan(base, search_space(base), 1, 0, "data", "imagination").rungs() == expected


def test_a_row_without_a_batch_does_not_count(tmp_path):
    study = open_study(tmp_path / "j")
    study.ask({}).set_user_attr(BATCH, 0)
    study.ask({})  # and killed before it was given to a batch
    assert [row.number for row in rows_of(open_study(tmp_path / "j"))] == [0]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_a_database_is_a_storage_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    open_study("sqlite:///study.db").ask({}).set_user_attr(BATCH, 0)
    assert [row.number for row in rows_of(open_study("sqlite:///study.db"))] == [0]
    assert [path.name for path in tmp_path.iterdir()] == ["study.db"]


def test_an_unknown_database_is_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="Optuna cannot open the storage nosuch://x"):
        open_study("nosuch://x")


def test_without_optuna_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    monkeypatch.delitem(sys.modules, "dwmr.tuning")
    with pytest.raises(InputError, match=r"pip install 'dwmr\[tune\]'"):
        __import__("dwmr.tuning")
