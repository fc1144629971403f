"""Tables as text: a grid per benchmark for the terminal and Markdown, the paper's layout for LaTeX.

Our figures stand beside the paper's, with the difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from experiments.reproduce.cells import PARTS, Row, Table
from experiments.reproduce.claims import sentences
from experiments.reproduce.paper import Printed
from experiments.reproduce.store import OTHER_CODE, CellRuns, Results, Summary, summarize

LOWER = "▼"
NOTHING = "—"
STALE = "†"
BENCHMARKS = {
    "8puzzle": "MNIST 8-puzzle, clean",
    "8puzzle-noisy": "MNIST 8-puzzle, noisy",
    "iceslider": "IceSlider, clean",
    "iceslider-noisy": "IceSlider, noisy",
}
FIGURES = {
    "f1": "F1 (the paper's)",
    "f1_true_labels": "F1, true labels",
    "accuracy": "cell accuracy",
    "board_accuracy": "whole boards",
}


@dataclass(frozen=True)
class Grid:
    """Part of a table as text: a title, headings, and lines with as many entries."""

    title: str
    headings: list[str]
    lines: list[list[str]]


@dataclass(frozen=True)
class Comparison:
    """Our figure and the paper's."""

    ours: Summary
    paper: Printed | None

    @property
    def difference(self) -> float | None:
        return None if self.paper is None or self.ours.mean is None else self.ours.mean - self.paper.mean

    @property
    def lower(self) -> bool:
        return self.paper is not None and self.difference is not None and self.difference < -self.paper.std

    @property
    def words(self) -> list[str]:
        """Ours, the paper's, and the difference."""
        paper = NOTHING if self.paper is None else f"{self.paper.mean:g} ± {self.paper.std:g}"
        if self.difference is None:
            return [spread(self.ours), paper, NOTHING]
        sign = f" {LOWER}" if self.lower else ""
        return [spread(self.ours), paper, f"{self.difference:+.1f}".replace("-", "−") + sign]


def compare(table: Table, cell: CellRuns, row: Row, benchmark: str, part: str) -> Comparison:
    printed = table.paper.get(row.name)
    paper = None if printed is None else getattr(printed[benchmark], part)
    return Comparison(summarize(cell.values(part, table.figure)), paper)


def spread(summary: Summary) -> str:
    """``90.1 ± 1.2``, or as much of it as is known."""
    if summary.mean is None:
        return NOTHING
    return f"{summary.mean:.1f}" if summary.std is None else f"{summary.mean:.1f} ± {summary.std:.1f}"


def grids(table: Table, results: Results) -> list[Grid]:
    """A grid per benchmark, a line per row."""
    grid = _wide_grid if table.wide else _grid
    return [grid(table, results, benchmark) for benchmark in table.columns]


def _grid(table: Table, results: Results, benchmark: str) -> Grid:
    headings = ["", "runs"]
    for part in PARTS:
        headings += [part, "paper", "difference"]
    headings += [f"{part}: {FIGURES[name]}" for name in table.beside for part in PARTS]
    lines = []
    for row in table.rows:
        cell = results[row.name, benchmark]
        line = [row.title, _count(cell)]
        for part in PARTS:
            line += compare(table, cell, row, benchmark, part).words
        lines.append(line + [spread(summarize(cell.values(part, name))) for name in table.beside for part in PARTS])
    return Grid(BENCHMARKS.get(benchmark, benchmark), headings, lines)


def _wide_grid(table: Table, results: Results, benchmark: str) -> Grid:
    """A line for each row that has runs. Rows with the same runs are shown once."""
    lines = []
    seen: set[str] = set()
    for row in filter(lambda row: row.exists_for(benchmark), table.rows):
        cell = results[row.name, benchmark]
        if cell.runs and cell.key not in seen:
            seen.add(cell.key)
            figures = [spread(summarize(cell.values(*path))) for path in table.wide.values()]
            lines.append([row.title, row.tier(benchmark), _count(cell), *figures])
    names = [name.replace("_", " ") for name in table.wide]
    return Grid(BENCHMARKS.get(benchmark, benchmark), ["", "tier", "runs", *names], lines)


def _count(cell: CellRuns) -> str:
    count = f"{len(cell.finished)} of {len(cell.runs)}" if cell.diverged else str(len(cell.runs))
    constant = f", {len(cell.constant)} constant" if cell.constant else ""
    return count + constant + (f" {STALE}" if cell.stale else "")


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


def markdown(table: Table, results: Results, plot: str | None) -> str:
    """A table with its notes and claims; ``plot`` is the address of its picture."""
    some = any(cell.runs for cell in results.values())
    parts = [] if some else [f"**{table.title} has not been run yet.**", ""]
    parts += [_legend(table), "", *(f"- {line}" for line in notes(table, results)), ""]
    for grid in grids(table, results):
        rule = ["---"] + ["---:"] * (len(grid.headings) - 1)
        lines = ["| " + " | ".join(line) + " |" for line in [grid.headings, rule, *grid.lines]]
        parts += [f"**{grid.title}**", "", *lines, ""]
    if plot is not None and some:
        beside = ", with the paper's mean and deviation" if table.paper else ""
        parts += [f"![{table.title}: every run as a dot{beside}]({plot})", ""]
    if table.claims:
        parts += ["What the paper says about this table, in our figures:", ""]
        parts += [f"- {sentence}" for sentence in sentences(table, results)]
    return "\n".join(parts) + "\n"


def _legend(table: Table) -> str:
    figures = "" if table.wide else f"{FIGURES[table.figure]}, "
    legend = f"{figures}in percent, on the test split: mean ± sample standard deviation over the runs; "
    if table.wide:
        legend += "encoding and imagination are the paper's F1, true f1 is over the true labels alone."
    else:
        legend += f"{LOWER} marks means that are below the paper's by more than its standard deviation."
    return legend[0].upper() + legend[1:]


def latex(table: Table, results: Results) -> str:
    """The table in the paper's layout (booktabs), with the paper's figure and the difference below each of ours."""
    if table.wide:
        return _wide_latex(table, results)
    count = len(table.columns)
    top = " & ".join(rf"\multicolumn{{2}}{{c}}{{{_tex(BENCHMARKS.get(column, column))}}}" for column in table.columns)
    lines = [
        rf"% {table.title}; {FIGURES[table.figure]}, percent, mean and sample standard deviation, test split",
        rf"\begin{{tabular}}{{l*{{{count * len(PARTS)}}}{{c}}}}",
        r"\toprule",
        rf" & {top} \\",
        "".join(rf"\cmidrule(lr){{{2 * i + 2}-{2 * i + 3}}}" for i in range(count)),
        " & " + " & ".join(["Enc. & Im."] * count) + r" \\",
    ]
    for row in table.rows:
        words = [
            compare(table, results[row.name, column], row, column, part).words
            for column in table.columns
            for part in PARTS
        ]
        titles = (_tex(row.title), r"\quad paper", r"\quad difference")
        lines.append(r"\midrule")
        lines += [" & ".join([title, *map(_tex, line)]) + r" \\" for title, line in zip(titles, zip(*words))]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _wide_latex(table: Table, results: Results) -> str:
    lines = [rf"% {table.title}; percent, mean and sample standard deviation, test split"]
    for grid in grids(table, results):
        rows = [[grid.title, *grid.headings[1:]], *grid.lines]
        first, *rest = (" & ".join(map(_tex, row)) + r" \\" for row in rows)
        begin = rf"\begin{{tabular}}{{ll*{{{len(grid.headings) - 2}}}{{c}}}}"
        lines += [begin, r"\toprule", first, r"\midrule", *rest, r"\bottomrule", r"\end{tabular}", ""]
    return "\n".join(lines)


def _tex(text: str) -> str:
    signs = {"&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "±": r"$\pm$", "−": "$-$", "β": r"$\beta$", NOTHING: "---"}
    signs |= {LOWER: r"$\downarrow$", STALE: r"$\dagger$"}
    for sign, written in signs.items():
        text = text.replace(sign, written)
    return text


def figures_json(table: Table, results: Results) -> dict[str, Any]:
    """Everything a table shows, as data."""
    cells = []
    for (name, benchmark), cell in results.items():
        row = next(row for row in table.rows if row.name == name)
        entry: dict[str, Any] = {
            "row": name,
            "benchmark": benchmark,
            "finished": len(cell.finished),
            "diverged": [run.seed for run in cell.diverged],
            "stale": list(cell.stale),
        }
        for part in PARTS:
            found = compare(table, cell, row, benchmark, part)
            entry[part] = {
                "mean": found.ours.mean,
                "std": found.ours.std,
                "paper": None if found.paper is None else list(found.paper),
                "difference": found.difference,
                "lower": found.lower,
            }
        for figure, path in table.wide.items():
            summary = summarize(cell.values(*path))
            entry[figure] = {"mean": summary.mean, "std": summary.std}
        cells.append(entry)
    return {"table": table.name, "figure": table.figure, "cells": cells, "claims": sentences(table, results)}
