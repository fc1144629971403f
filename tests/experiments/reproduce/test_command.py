"""`dwmr reproduce` as a user meets it."""

from __future__ import annotations

import json
import sys
import warnings

import pytest

from dwmr.cli import campaigns, main


@pytest.fixture
def cli(monkeypatch, capsys):
    """Run ``dwmr reproduce …``; its exit status, standard output and standard error."""
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["dwmr", "reproduce", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return ended.value.code, said.out, said.err

    return run


def test_a_table_is_made_shown_and_written(cli, tmp_path):
    words = ("table1", "--only", "dwmr,iceslider", "--runs", 2, "--device", "cpu", "--out", tmp_path)
    status, out, err = cli(*words)
    assert status == 0
    assert "iceslider" in out
    assert "DWMR is above the models that only reconstruct: nothing to compare yet" in out
    assert "[1/1] dwmr on iceslider: seed 0" in err
    assert {path.suffix for path in tmp_path.glob("table1.*")} == {".json", ".md"}
    status, out, _ = cli(*words, "--json")
    assert status == 0
    shown = json.loads(out)
    assert shown["complete"] is True
    assert shown["rows"] == json.loads((tmp_path / "table1.json").read_text())
    assert len(shown["rows"]["dwmr"]["iceslider"]["encoding"]) == 2


def test_the_plan_runs_nothing(cli, tmp_path):
    status, out, _ = cli("table2", "--plan", "--device", "cpu", "--out", tmp_path / "new")
    assert status == 0
    assert "two_step_st-no-schedules" in out
    assert "total: unknown" in out
    assert not (tmp_path / "new").exists()
    _, out, _ = cli(
        "table2", "--plan", "--only", "soft", "--runs", 3, "--seed", 5, "--json", "--device", "cpu", "--out", tmp_path
    )
    planned = json.loads(out)
    assert [cell["missing"] for cell in planned["cells"]] == [[5, 6, 7], [5, 6, 7]]


def test_without_a_clone_one_line_says_so(cli, tmp_path, monkeypatch):
    package = tmp_path / "lib" / "python3" / "site-packages" / "dwmr" / "__init__.py"
    monkeypatch.setattr(campaigns.dwmr, "__file__", str(package))
    status, out, err = cli("table1", "--plan")
    assert (status, out) == (2, "")
    assert err.startswith("error: dwmr reproduce needs a clone of the repository")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("table4",), "unknown table 'table4'; did you mean"),
        (("table1", "--only", "dwmrr,8puzzle"), "unknown row or column of table1 'dwmrr'"),
        (("table3", "--only", "dwmr,iceslider"), "unknown row or column of table3 'iceslider'"),
        (("table1", "--runs", "0"), "--runs"),
        (("table1", "--budget", "0"), "--budget"),
        (("table1", "--device", "toaster"), "toaster"),
    ],
    ids=["table", "row", "column", "runs", "budget", "device"],
)
def test_wrong_input_is_one_line(cli, words, message):
    status, _, err = cli(*words)
    assert status == 2
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err


def test_help_has_examples(cli):
    status, out, _ = cli("--help")
    assert status == 0
    assert "$ dwmr reproduce table1 --plan" in out
