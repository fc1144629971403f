"""Tables as text: one grid a benchmark for the terminal and Markdown, the paper's layout for LaTeX.

Pure functions of stored runs. Ours stand beside the paper's, with the difference; `LOWER` marks where our mean is
lower than the paper's less one of its standard deviations.
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
    """A part of a table, all in words: a title, headings, and lines of as many entries."""

    title: str
    headings: list[str]
    lines: list[list[str]]


def grids(table: Table, results: Results) -> list[Grid]:
    """A grid for each benchmark: a line a row, ours beside the paper's."""
    return [_grid(table, results, benchmark) for benchmark in table.columns]


def markdown(table: Table, results: Results, plot: str | None) -> str:
    """A table with all that is to be said of it; ``plot`` is the address of its picture."""
    some = any(runs.runs for runs in results.values())
    parts = [] if some else [f"**{table.title} has not been run yet.**", ""]
    parts += [_legend(table), "", *(f"- {line}" for line in notes(table, results)), ""]
    for grid in grids(table, results):
        parts += [f"**{grid.title}**", "", *_markdown_grid(grid), ""]
    if plot is not None and some:
        beside = ", the paper's mean and deviation beside them" if table.paper else ""
        parts += [f"![{table.title}: every run as a dot{beside}]({plot})", ""]
    if table.claims:
        parts += ["What the paper says of this table, in our figures:", ""]
        parts += [f"- {sentence}" for sentence in sentences(table, results)]
    return "\n".join(parts) + "\n"


def latex(table: Table, results: Results) -> str:
    """The table in the paper's layout, booktabs; under each of our lines the paper's and the difference."""
    if table.wide:
        return _wide_latex(table, results)
    columns = len(table.columns) * len(PARTS)
    top = " & ".join(rf"\multicolumn{{2}}{{c}}{{{_tex(BENCHMARKS.get(column, column))}}}" for column in table.columns)
    rules = "".join(rf"\cmidrule(lr){{{2 * i + 2}-{2 * i + 3}}}" for i in range(len(table.columns)))
    lines = [
        rf"% {table.title}; {FIGURES[table.figure]}, percent, mean and sample standard deviation, test split",
        rf"\begin{{tabular}}{{l*{{{columns}}}{{c}}}}",
        r"\toprule",
        rf" & {top} \\",
        rules,
        " & " + " & ".join(["Enc. & Im."] * len(table.columns)) + r" \\",
    ]
    for row in table.rows:
        compared = [
            compare(table, results[row.name, column], row, column, part) for column in table.columns for part in PARTS
        ]
        lines += [
            r"\midrule",
            " & ".join([_tex(row.title), *(_tex(spread(each.ours)) for each in compared)]) + r" \\",
            " & ".join([r"\quad paper", *(_tex(_spread_printed(each.paper)) for each in compared)]) + r" \\",
            " & ".join([r"\quad difference", *(_tex(each.words) for each in compared)]) + r" \\",
        ]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


@dataclass(frozen=True)
class Comparison:
    """A figure of ours beside the paper's."""

    ours: Summary
    paper: Printed | None

    @property
    def difference(self) -> float | None:
        return None if self.paper is None or self.ours.mean is None else self.ours.mean - self.paper.mean

    @property
    def lower(self) -> bool:
        return self.paper is not None and self.difference is not None and self.difference < -self.paper.std

    @property
    def words(self) -> str:
        if self.difference is None:
            return NOTHING
        return f"{self.difference:+.1f}".replace("-", "−") + (f" {LOWER}" if self.lower else "")


def compare(table: Table, runs: CellRuns, row: Row, benchmark: str, part: str) -> Comparison:
    printed = table.paper.get(row.name)
    return Comparison(
        summarize(runs.values(part, table.figure)), None if printed is None else getattr(printed[benchmark], part)
    )


def spread(summary: Summary) -> str:
    """``90.1 ± 1.2``, less what is not known."""
    if summary.mean is None:
        return NOTHING
    return f"{summary.mean:.1f}" if summary.std is None else f"{summary.mean:.1f} ± {summary.std:.1f}"


def _wide_grid(table: Table, results: Results, benchmark: str) -> Grid:
    """A line for each row that has runs; rows that are the same here stand where they stand first."""
    lines = []
    seen: set[str] = set()
    for row in table.rows:
        runs = results[row.name, benchmark] if row.stands(benchmark) else None
        if runs is not None and runs.runs and runs.key not in seen:
            figures = [spread(summarize(runs.values(*place))) for place in table.wide.values()]
            lines.append([row.title, row.tier(benchmark), _count(runs), *figures])
            seen.add(runs.key)
    words = [name.replace("_", " ") for name in table.wide]
    return Grid(BENCHMARKS.get(benchmark, benchmark), ["", "tier", "runs", *words], lines)


def _wide_latex(table: Table, results: Results) -> str:
    lines = [rf"% {table.title}; percent, mean and sample standard deviation, test split"]
    for grid in grids(table, results):
        lines += [
            rf"\begin{{tabular}}{{ll*{{{len(grid.headings) - 2}}}{{c}}}}",
            r"\toprule",
            " & ".join(_tex(word) for word in [grid.title, *grid.headings[1:]]) + r" \\",
            r"\midrule",
            *(" & ".join(_tex(word) for word in line) + r" \\" for line in grid.lines),
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    return "\n".join(lines)


def _grid(table: Table, results: Results, benchmark: str) -> Grid:
    if table.wide:
        return _wide_grid(table, results, benchmark)
    headings = ["", "runs"]
    for part in PARTS:
        headings += [part, "paper", "difference"]
    headings += [f"{part}: {FIGURES[name]}" for name in table.beside for part in PARTS]
    lines = []
    for row in table.rows:
        runs = results[row.name, benchmark]
        line = [row.title, _count(runs)]
        for part in PARTS:
            compared = compare(table, runs, row, benchmark, part)
            line += [spread(compared.ours), _spread_printed(compared.paper), compared.words]
        line += [spread(summarize(runs.values(part, name))) for name in table.beside for part in PARTS]
        lines.append(line)
    return Grid(BENCHMARKS.get(benchmark, benchmark), headings, lines)


def _count(runs: CellRuns) -> str:
    count = f"{len(runs.finished)} of {len(runs.runs)}" if runs.diverged else str(len(runs.runs))
    constant = f", {len(runs.constant)} constant" if runs.constant else ""
    return count + constant + (f" {STALE}" if runs.stale else "")


def _spread_printed(printed: Printed | None) -> str:
    return NOTHING if printed is None else f"{printed.mean:g} ± {printed.std:g}"


def _legend(table: Table) -> str:
    if table.wide:
        return (
            "In percent, on the test split: mean ± sample standard deviation over the runs; encoding and imagination "
            "are the paper's F1, true f1 is over the true labels alone."
        )
    return (
        f"{FIGURES[table.figure]}, in percent, on the test split: mean ± sample standard deviation over the runs; "
        f"{LOWER} marks where our mean is lower than the paper's less one of its standard deviations."
    )


def notes(table: Table, results: Results) -> list[str]:
    """What a reader must know beside the figures: what is missing, what diverged, what it took."""
    said = list(table.remarks)
    absent = sum(not runs.runs for runs in results.values())
    if 0 < absent < len(results):
        said.append(f"{absent} of {len(results)} cells have not been run yet.")
    if any(runs.constant for runs in results.values()):
        said.append(
            "Constant are runs whose code never changes: it is always right about the next one, and says nothing."
        )
    fallen = sum(len(runs.diverged) for runs in results.values())
    if fallen:
        said.append(f"Of the runs {fallen} diverged; means are over the finished ones (the column runs counts both).")
    reasons = {(runs.key, seed): why for runs in results.values() for seed, why in runs.stale.items()}
    if reasons:
        code = sum(why == OTHER_CODE for why in reasons.values())
        said.append(
            f"{STALE} {len(reasons)} runs are stale: {code} were made with older code, "
            f"{len(reasons) - code} with other values than the presets have now."
        )
    return [*said, *_took(results)]


def _took(results: Results) -> list[str]:
    each = {(runs.key, run.seed): run for runs in results.values() for run in runs.runs}  # rows may share runs
    words = []
    for machine in sorted({run.machine for run in each.values()}):
        took = [run.took for run in each.values() if run.machine == machine]
        minutes = f"{sum(took) / 60:.1f} minutes to load, train and evaluate"
        words.append(f"{len(took)} runs: {minutes}, added up where several were made side by side ({machine}).")
    return words


def figures_json(table: Table, results: Results) -> dict[str, Any]:
    """Everything a table shows, as data."""
    cells = []
    for row in table.rows:
        for benchmark in filter(row.stands, table.columns):
            runs = results[row.name, benchmark]
            entry: dict[str, Any] = {
                "row": row.name,
                "benchmark": benchmark,
                "finished": len(runs.finished),
                "diverged": [run.seed for run in runs.diverged],
                "stale": list(runs.stale),
            }
            for part in PARTS:
                compared = compare(table, runs, row, benchmark, part)
                entry[part] = {
                    "mean": compared.ours.mean,
                    "std": compared.ours.std,
                    "paper": None if compared.paper is None else list(compared.paper),
                    "difference": compared.difference,
                    "lower": compared.lower,
                }
            for name, place in table.wide.items():
                summary = summarize(runs.values(*place))
                entry[name] = {"mean": summary.mean, "std": summary.std}
            cells.append(entry)
    return {"table": table.name, "figure": table.figure, "cells": cells, "claims": sentences(table, results)}


def _markdown_grid(grid: Grid) -> list[str]:
    rule = ["---"] + ["---:"] * (len(grid.headings) - 1)
    return ["| " + " | ".join(line) + " |" for line in [grid.headings, rule, *grid.lines]]


def _tex(text: str) -> str:
    signs = {"&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "±": r"$\pm$", "−": "$-$", "β": r"$\beta$", NOTHING: "---"}
    for sign, written in signs.items():
        text = text.replace(sign, written)
    return text.replace(LOWER, r"$\downarrow$").replace(STALE, r"$\dagger$")
