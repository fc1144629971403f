"""What tests of the documentation share: its pages and the results that they speak of."""

import json
import statistics
from pathlib import Path

from experiments.reproduce.store import cell_file, read_file

ROOT = Path(__file__).parents[1]


def results(name: str) -> dict:
    return json.loads((ROOT / "experiments" / "results" / name).read_text(encoding="utf-8"))


def runs_of(benchmark: str, row: str) -> list[dict]:
    """The figures of every stored run of a cell."""
    runs = read_file(cell_file(ROOT / "experiments" / "results", f"{benchmark}/{row}"))
    return [run.figures for run in runs if run.figures is not None]


def line_of(page: str, start: str) -> str:
    (found,) = (line for line in page.splitlines() if line.startswith(start))
    return found


def words_of(page: str) -> str:
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


def means(figures: dict, *names: str) -> str:
    return " / ".join(f"{statistics.mean(figures[name]):.1f}" for name in names)
