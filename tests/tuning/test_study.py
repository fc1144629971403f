"""The memory of a study: storages, locks, and what is not a study."""

import sys

import pytest

from dwmr.errors import InputError
from dwmr.presets import preset
from dwmr.tuning.spaces import search_space
from dwmr.tuning.study import Plan, open_study, rows_of


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [(40, [8, 20, 40]), (20, [4, 10, 20]), (6, [2, 3, 6]), (4, [1, 2, 4]), (2, [1, 2]), (1, [1])],
)
def test_trials_are_compared_at_a_fifth_a_half_and_the_end(epochs, expected):
    base = preset("generic/dwmr", epochs=epochs)
    assert Plan(base, search_space(base), 1, 0, "data", "imagination").rungs() == expected


def ended(study):
    study.tell(study.ask({}), 1.0)


def test_a_row_that_has_not_ended_does_not_count(tmp_path):
    study = open_study(tmp_path / "j")
    ended(study)
    study.ask({})  # and killed before it ended
    assert [row.number for row in rows_of(open_study(tmp_path / "j"))] == [0]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_a_database_is_a_storage_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ended(open_study("sqlite:///study.db"))
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
