"""A table as text, with our figures beside the paper's, and its files: JSON and Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from dwmr.files import atomic_write_json, atomic_write_text, check_output
from experiments.reproduce.cells import Claim, Row, Table
from experiments.reproduce.paper import Printed
from experiments.reproduce.store import OTHER_CODE, CellRuns, Results, read_table

LOWER = "▼"
NOTHING = "—"
STALE = "†"

Figures = dict[str, dict[str, list[float | None]]]  # by benchmark and name: a figure of each finished run
Grid = list[list[str]]  # headings, and lines with as many entries


def grids(table: Table, results: Results) -> dict[str, Grid]:
    """What is shown of a table, by title: a grid for each benchmark, or for each row of a table by column. The paper's
    tables show every row, others what has runs of its own."""
    if not table.by_column:
        found = {benchmark: _rows(table, results, benchmark) for benchmark in table.columns}
    else:
        found = {row.title: _columns(table, results, row) for row in table.rows}
    return {title: lines for title, lines in found.items() if len(lines) > 1}


def _columns(table: Table, results: Results, row: Row) -> Grid:
    """A row of a table, a line for each column."""
    cells = {name: results[row.name, name] for name in table.columns}
    lines = [
        [name, _count(cell), *(spread(cell.values(*table.figures[figure])) for figure in table.shown)]
        for name, cell in cells.items()
        if cell.runs
    ]
    return [["", "runs", *table.shown.values()], *lines]


def _rows(table: Table, results: Results, benchmark: str) -> Grid:
    """A table on one benchmark."""
    names = [name.replace("_", " ") for name in table.figures]
    if table.paper:
        headings = ["", "runs", *(heading for name in names for heading in (name, "paper", "difference"))]
    else:
        headings = ["", "tier", "runs", *names]
    lines = [headings + list(table.beside)]
    seen: set[str] = set()
    for row in filter(lambda row: row.exists_for(benchmark), table.rows):
        cell = results[row.name, benchmark]
        if table.paper or (cell.runs and cell.key not in seen):
            seen.add(cell.key)
            lines.append(_line(table, row, benchmark, cell))
    return lines


def _line(table: Table, row: Row, benchmark: str, cell: CellRuns) -> list[str]:
    line = [row.title, _count(cell)] if table.paper else [row.title, row.tier(benchmark), _count(cell)]
    for name, path in table.figures.items():
        values = cell.values(*path)
        line += _compared(values, table.printed(row.name, benchmark, name)) if table.paper else [spread(values)]
    return line + [spread(cell.values(*path)) for path in table.beside.values()]


def _count(cell: CellRuns) -> str:
    count = f"{len(cell.finished)} of {len(cell.runs)}" if cell.diverged else str(len(cell.runs))
    constant = f", {len(cell.constant)} constant" if cell.constant else ""
    return count + constant + (f" {STALE}" if cell.stale else "")


def _compared(values: Sequence[float], paper: Printed | None) -> list[str]:
    """Our figure, the paper's, and the difference."""
    theirs = NOTHING if paper is None else f"{paper.mean:g} ± {paper.std:g}"
    if paper is None or not values:
        return [spread(values), theirs, NOTHING]
    difference = fmean(values) - paper.mean
    mark = f" {LOWER}" if difference < -paper.std else ""
    return [spread(values), theirs, f"{difference:+.1f}".replace("-", "−") + mark]


def spread(values: Sequence[Any]) -> str:
    """Mean and sample standard deviation, ``90.1 ± 1.2``, or as much of it as is known. Words are counted."""
    if not values:
        return NOTHING
    if isinstance(values[0], str):
        return ", ".join(f"{count} {word}" for word, count in Counter(values).most_common())
    return f"{fmean(values):.1f}" + (f" ± {stdev(values):.1f}" if len(values) > 1 else "")


def notes(table: Table, results: Results) -> list[str]:
    """What a reader must know beside the figures."""
    said = list(table.remarks)
    absent = sum(not cell.runs for cell in results.values())
    if 0 < absent < len(results):
        said.append(f"{absent} of {len(results)} cells have not been run yet.")
    if any(cell.constant for cell in results.values()):
        said.append("Constant are runs whose code never changes: it predicts the next code and says nothing.")
    diverged = sum(len(cell.diverged) for cell in results.values())
    if diverged:
        said.append(f"{diverged} runs diverged; means are over the finished runs (the column runs has both numbers).")
    reasons = {(cell.key, seed): why for cell in results.values() for seed, why in cell.stale.items()}
    if reasons:
        code = sum(why == OTHER_CODE for why in reasons.values())
        said.append(
            f"{STALE} {len(reasons)} runs are stale: {code} were made with older code, "
            f"{len(reasons) - code} with other values than the presets have now."
        )
    each = {(cell.key, run.seed): run for cell in results.values() for run in cell.runs}  # rows may share runs
    for machine in sorted({run.machine for run in each.values()}):
        took = [run.took for run in each.values() if run.machine == machine]
        said.append(
            f"{len(took)} runs on {machine}: {sum(took) / 60:.1f} minutes of loading, training and evaluation in total."
        )
    return said


def verdict(table: Table, claim: Claim, results: Results) -> str:
    """In how many comparisons a claim holds. Rows that are the same runs are not compared."""
    ours, theirs = [], []
    for better, worse in claim.pairs:
        for benchmark in claim.columns or table.columns:
            high, low = results[better, benchmark], results[worse, benchmark]
            for part in claim.parts:
                path = table.figures[part]
                if high.key != low.key and high.values(*path) and low.values(*path):
                    ours.append(fmean(high.values(*path)) >= fmean(low.values(*path)))
                first, second = (table.printed(row, benchmark, part) for row in (better, worse))
                if first is not None and second is not None:
                    theirs.append(first.mean >= second.mean)
    found = f"in {sum(ours)} of {len(ours)} comparisons" if ours else "nothing to compare yet"
    return (
        f"{claim.text[0].upper()}{claim.text[1:]}: {found}; in the paper's figures in {sum(theirs)} of {len(theirs)}."
    )


def markdown(table: Table, results: Results) -> str:
    """A table with its notes, and what the paper says about it."""
    legend = "In percent, on the test split: mean ± sample standard deviation over the runs."
    if table.paper:
        legend += f" {LOWER} marks means that are below the paper's by more than its standard deviation."
    parts = [f"# {table.title}", "", legend, "", *(f"- {line}" for line in notes(table, results)), ""]
    for title, (headings, *lines) in grids(table, results).items():
        rule = ["---"] + ["---:"] * (len(headings) - 1)
        shown = ["| " + " | ".join(line) + " |" for line in [headings, rule, *lines]]
        parts += [f"**{title}**", "", *shown, ""]
    if table.claims:
        parts += ["What the paper says about this table, in our figures:", ""]
        parts += [f"- {verdict(table, claim, results)}" for claim in table.claims]
    return "\n".join(parts).rstrip() + "\n"


def check_tables(table: Table, out: Path) -> None:
    """Refuse to write a table over files that do not come from the runs stored beside them."""
    own = any(cell.runs or cell.stale for cell in read_table(out, table).values())
    for end in (".json", "_rows.json", ".md"):
        check_output(out / f"{table.name}{end}", overwrite=own or None, written=own)


def write_table(table: Table, out: Path) -> Results:
    """Write a table's files from the stored runs."""
    results = read_table(out, table)
    files = json_files(table, results)
    for name, content in files.items():
        atomic_write_json(out / name, content)
    if files:
        atomic_write_text(out / f"{table.name}.md", markdown(table, results))
    return results


def rows_json(table: Table, results: Results) -> dict[str, Figures]:
    """{row: {benchmark: {"encoding": [of each run], …}}}. Beyond the paper, runs that two rows share stand once."""
    rows: dict[str, Figures] = {}
    seen: set[str] = set()
    for (row, benchmark), cell in results.items():
        if cell.runs and (table.paper or cell.key not in seen):
            seen.add(cell.key)
            figures = {name: cell.listed(*path) for name, path in table.figures.items()}
            rows.setdefault(row, {})[benchmark] = figures
    return rows


def json_files(table: Table, results: Results) -> dict[str, dict[str, Any]]:
    """The content of a table's JSON files, by name.

    If the table has a headline row, its figures stand alone in ``NAME.json``, and all rows are in ``NAME_rows.json``.
    """
    rows = rows_json(table, results)
    if table.by_column:
        names = [name for name in table.columns if any(name in of_row for of_row in rows.values())]
        columns = {name: {row: of_row[name] for row, of_row in rows.items() if name in of_row} for name in names}
        return {f"{table.name}.json": columns} if columns else {}
    if table.headline is None:
        return {f"{table.name}.json": rows} if rows else {}
    headline: dict[str, Any] = rows.get(table.headline, {})
    files: dict[str, dict[str, Any]] = {f"{table.name}.json": headline, f"{table.name}_rows.json": rows}
    return {name: content for name, content in files.items() if content}
