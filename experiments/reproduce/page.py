"""The files of a table: JSON, Markdown, LaTeX and a plot."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from dwmr.errors import InputError
from dwmr.files import atomic_write_json, atomic_write_text, check_output
from experiments.reproduce.cells import PARTS, Table
from experiments.reproduce.plots import save_plot
from experiments.reproduce.render import latex, markdown
from experiments.reproduce.store import Results, read_table

log = logging.getLogger("dwmr")
Figures = dict[str, dict[str, list[float | None]]]  # by benchmark and name: a figure of each finished run


def check_tables(table: Table, out: Path) -> None:
    """Refuse to write a table over files that do not come from the runs stored beside them."""
    own = any(cell.runs or cell.stale for cell in read_table(out, table).values())
    for end in (".json", "_rows.json", ".svg", ".tex", ".md"):
        check_output(out / f"{table.name}{end}", overwrite=own or None, written=own)


def write_table(table: Table, out: Path) -> Results:
    """Write a table's files from the stored runs."""
    results = read_table(out, table)
    files = json_files(table, results)
    if not files:
        return results
    plot = out / f"{table.name}.svg"
    try:
        save_plot(table, results, plot)
    except InputError as error:
        log.info("no plot of %s: %s", table.name, error)
    for name, content in files.items():
        atomic_write_json(out / name, content)
    atomic_write_text(out / f"{table.name}.tex", latex(table, results))
    atomic_write_text(out / f"{table.name}.md", f"# {table.title}\n\n{markdown(table, results, plot.name)}")
    return results


def json_files(table: Table, results: Results) -> dict[str, dict[str, Any]]:
    """The content of a table's JSON files, by name: {row: {benchmark: {"encoding": [of each run], …}}}.

    If the table has a headline row, its figures stand alone in ``NAME.json``, and all rows are in ``NAME_rows.json``.
    Cells of a wide table that are the same runs as an earlier cell are left out.
    """
    paths = table.wide or {part: (part, table.figure) for part in PARTS}
    rows: dict[str, Figures] = {}
    seen: set[str] = set()
    for (row, benchmark), cell in results.items():
        if cell.runs and not (table.wide and cell.key in seen):
            seen.add(cell.key)
            rows.setdefault(row, {})[benchmark] = {name: cell.listed(*path) for name, path in paths.items()}
    if table.headline is None:
        return {f"{table.name}.json": rows} if rows else {}
    files: dict[str, dict[str, Any]] = {
        f"{table.name}.json": rows.get(table.headline, {}),
        f"{table.name}_rows.json": rows,
    }
    return {name: content for name, content in files.items() if content}
