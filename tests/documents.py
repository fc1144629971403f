"""What tests of the documentation share: its pages and the results that they speak of."""

import json
import statistics
from pathlib import Path

ROOT = Path(__file__).parents[1]


def results(name: str) -> dict:
    return json.loads((ROOT / "experiments" / "results" / name).read_text(encoding="utf-8"))


def line_of(page: str, start: str) -> str:
    (found,) = (line for line in page.splitlines() if line.startswith(start))
    return found


def words_of(page: str) -> str:
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


def means(figures: dict, *names: str) -> str:
    return " / ".join(f"{statistics.mean(figures[name]):.1f}" for name in names)
