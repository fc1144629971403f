"""No number of docs/results.md can drift from the committed runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dwmr.reproduce.catalog import find_table, table_names
from dwmr.reproduce.page import filled_page
from dwmr.reproduce.render import latex
from dwmr.reproduce.runs import files_of, read_repaired, read_table

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "experiments" / "results"


def test_the_page_is_what_the_committed_runs_give():
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert text == filled_page(text, ROOT / "docs", RESULTS), "run `dwmr reproduce results`"


@pytest.mark.parametrize("name", table_names())
def test_the_page_shows_every_table(name):
    assert f"<!-- end of {name} -->" in (ROOT / "docs" / "results.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", table_names())
def test_the_tables_are_what_the_committed_runs_give(name):
    table = find_table(name)
    results = read_table(RESULTS, table)
    files = files_of(table, results, read_repaired(RESULTS, table))
    there = [path for path in (RESULTS / f"{name}.json", RESULTS / f"{name}_rows.json") if path.exists()]
    assert {path.name: json.loads(path.read_text(encoding="utf-8")) for path in there} == files
    if files:
        assert (RESULTS / f"{name}.tex").read_text(encoding="utf-8") == latex(table, results)
