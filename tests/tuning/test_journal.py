"""The journal of a study: whose row is whose, when processes come and go."""

import sys

import pytest

from dwmr.errors import InputError
from dwmr.tuning.journal import Journal, distributions, rows_of
from dwmr.tuning.spaces import Range

SEARCH = "search"


def test_rows_of_a_dead_worker_are_adopted_and_half_asked_ones_given_up(tmp_path):
    space = distributions({"lr": Range(1e-4, 1e-2, log=True)})
    dead, living = Journal(tmp_path / "j"), Journal(tmp_path / "j")
    taken = dead.begin(dead.stage(SEARCH), space)
    dead.stage(SEARCH).ask(space)  # and killed before it was claimed
    stage = living.stage(SEARCH)
    assert living.adopt(rows_of(stage)[:1], 5) == []  # its worker lives
    dead.close(finished=False)
    assert living.adopt(rows_of(stage), 5) == [taken]
    assert [row.number for row in rows_of(stage)] == [taken]
    living.close(finished=True)
    assert [path.name for path in tmp_path.iterdir()] == ["j"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_a_database_is_a_storage_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    journal = Journal("sqlite:///study.db")
    space = distributions({"lr": Range(1e-4, 1e-2, log=True)})
    number = journal.begin(journal.stage(SEARCH), space)
    (row,) = rows_of(journal.stage(SEARCH))
    journal.tell(journal.stage(SEARCH), row, {"imagination": 50.0}, 1.0, "imagination")
    journal.close(finished=True)
    again = Journal("sqlite:///study.db")
    assert [(row.number, row.value) for row in rows_of(again.stage(SEARCH))] == [(number, 50.0)]
    again.close(finished=True)
    assert [path.name for path in tmp_path.iterdir()] == ["study.db"]


def test_an_unknown_database_is_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="Optuna cannot open the storage nosuch://x"):
        Journal("nosuch://x")


def test_without_optuna_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    monkeypatch.delitem(sys.modules, "dwmr.tuning")
    with pytest.raises(InputError, match=r"pip install 'dwmr\[tune\]'"):
        __import__("dwmr.tuning")
