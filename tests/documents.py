"""Read the documentation: its tables, its code blocks, and the result files that they quote."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from experiments.reproduce.store import cell_file, read_file

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "experiments" / "README.md"])
NUMBER = re.compile(r"[−-]?\d[\d,]*\.?\d*")


def results(name: str) -> dict:
    return json.loads((ROOT / "experiments" / "results" / name).read_text(encoding="utf-8"))


def runs_of(benchmark: str, row: str) -> list[dict]:
    """The figures of every stored run of a cell."""
    runs = read_file(cell_file(ROOT / "experiments" / "results", f"{benchmark}/{row}"))
    return [run.figures for run in runs if run.figures is not None]


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def table(page: str, heading: str, *, number: int = 0) -> dict[str, list[str]]:
    """The rows of a Markdown table, by their first cell: the ``number``-th table that begins with this heading cell."""
    parts = read(page).split(f"\n| {heading} |")
    assert len(parts) > number + 1, f"{page} has no table that begins with {heading!r}"
    lines = parts[number + 1].split("\n\n")[0].splitlines()[2:]
    rows = [[cell.strip(" *`") for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return {row[0]: row[1:] for row in rows}


def numbers(text: str) -> list[float]:
    return [float(found.replace(",", "").replace("−", "-")) for found in NUMBER.findall(text)]


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of a page; commands stand in blocks without a language."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [text for named, text in found if named == language]


def commands() -> Iterator[tuple[str, str]]:
    """Every command line of `dwmr` in the documentation, with the name of its page."""
    for page in PAGES:
        for block in blocks(page, ""):
            for line in block.splitlines():
                command = line.removeprefix("$ ").partition("  #")[0].strip()
                if command.startswith("dwmr "):
                    yield page.name, command
