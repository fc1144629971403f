"""The tables in experiments/results are those of the stored runs."""

import json

import pytest

from experiments.reproduce.catalog import find_table, table_names
from experiments.reproduce.page import STALE, json_files, markdown
from experiments.reproduce.store import read_table
from tests.documents import ROOT

RESULTS = ROOT / "experiments" / "results"


def unmarked(page: str) -> list[str]:
    """A page without its marks of stale runs, which come and go with the code."""
    lines = [line for line in page.splitlines() if not line.startswith(f"- {STALE}")]
    return [line.replace(f" {STALE}", "") for line in lines]


@pytest.mark.parametrize("name", table_names())
def test_the_tables_are_what_the_committed_runs_give(name):
    table = find_table(name)
    results = read_table(RESULTS, table)
    files = json_files(table, results)
    there = [path for path in (RESULTS / f"{name}.json", RESULTS / f"{name}_rows.json") if path.exists()]
    assert {path.name: json.loads(path.read_text(encoding="utf-8")) for path in there} == files
    if not files:  # no runs yet
        assert not (RESULTS / f"{name}.md").exists()
        return
    assert unmarked(markdown(table, results)) == unmarked((RESULTS / f"{name}.md").read_text(encoding="utf-8"))
