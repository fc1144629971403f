"""No number of docs/results.md can drift from the committed runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.reproduce.catalog import find_table, table_names
from experiments.reproduce.page import filled_page, json_files, read_repaired
from experiments.reproduce.render import STALE, latex
from experiments.reproduce.store import read_table

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "experiments" / "results"


def test_the_page_is_what_the_committed_runs_give():
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert unmarked(text) == unmarked(filled_page(text, ROOT / "docs", RESULTS)), "run `dwmr reproduce results`"


def unmarked(page: str) -> list[str]:
    """A page without its marks of stale runs, which come and go with the code."""
    lines = [line for line in page.splitlines() if not line.startswith(f"- {STALE}")]
    return [line.replace(f" {STALE}", "").replace(r" $\dagger$", "") for line in lines]


@pytest.mark.parametrize("name", table_names())
def test_the_page_shows_every_table(name):
    assert f"<!-- end of {name} -->" in (ROOT / "docs" / "results.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", table_names())
def test_the_tables_are_what_the_committed_runs_give(name):
    table = find_table(name)
    results = read_table(RESULTS, table)
    files = json_files(table, results, read_repaired(RESULTS, table))
    there = [path for path in (RESULTS / f"{name}.json", RESULTS / f"{name}_rows.json") if path.exists()]
    assert {path.name: json.loads(path.read_text(encoding="utf-8")) for path in there} == files
    if files:
        written = (RESULTS / f"{name}.tex").read_text(encoding="utf-8")
        assert unmarked(written) == unmarked(latex(table, results))
