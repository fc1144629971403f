"""A table as a picture: every run as a dot, with the paper's mean and standard deviation."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from dwmr.files import atomic_write_bytes
from dwmr.plotting.pictures import new_figure, require_matplotlib
from experiments.reproduce.cells import PARTS, Table
from experiments.reproduce.render import BENCHMARKS, FIGURES
from experiments.reproduce.store import Results

COLOURS = {"encoding": "#3f7fd6", "imagination": "#e08a2e"}
INK = "#333333"
OFFSETS = {"encoding": -0.18, "imagination": 0.18}  # from the middle of a row
SPREAD = 0.11  # half the height that the dots of a part take, so that equal figures do not hide each other


def save_plot(table: Table, results: Results, path: Path) -> None:
    """Write an SVG, the same bytes for the same runs. Raises `InputError` if matplotlib is not installed."""
    matplotlib = require_matplotlib()
    figure = new_figure(3.0 + 2.4 * len(table.columns), 0.9 + 0.42 * len(table.rows))
    panels = figure.subplots(1, len(table.columns), sharey=True, squeeze=False)[0]
    for axes, benchmark in zip(panels, table.columns):
        for number, row in enumerate(table.rows):
            for part in PARTS if row.exists_for(benchmark) else ():
                level = number + OFFSETS[part]
                values = results[row.name, benchmark].values(part, table.figure)
                heights = level + SPREAD * (
                    np.linspace(-1, 1, len(values)) if len(values) > 1 else np.zeros(len(values))
                )
                axes.plot(values, heights, "o", color=COLOURS[part], markersize=3, alpha=0.75, mew=0, zorder=3)
                if row.name in table.paper:
                    printed = getattr(table.paper[row.name][benchmark], part)
                    style = {"fmt": "|", "color": INK, "markersize": 9, "linewidth": 0.8, "capsize": 2, "alpha": 0.7}
                    axes.errorbar(printed.mean, level, xerr=printed.std, **style)
        axes.set_title(BENCHMARKS.get(benchmark, benchmark), fontsize=8, color=INK)
        axes.set_xlim(-2, 102)
        axes.set_xlabel(f"{FIGURES[table.figure]}, %", fontsize=7, color=INK)
        axes.grid(axis="x", color=INK, alpha=0.12, linewidth=0.5)
        axes.set_axisbelow(True)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(labelsize=7, length=0, colors=INK)
    panels[0].set_yticks(range(len(table.rows)), [row.title for row in table.rows])
    panels[0].set_ylim(len(table.rows) - 0.5, -0.5)
    line = matplotlib.lines.Line2D
    shown = [line([], [], marker="o", linestyle="", color=COLOURS[part], markersize=4, label=part) for part in PARTS]
    if table.paper:
        label = "the paper's mean ± deviation"
        shown.append(line([], [], marker="|", color=INK, markersize=9, linewidth=0.8, label=label))
    figure.legend(handles=shown, loc="outside lower center", ncols=3, frameon=False, fontsize=7, labelcolor=INK)
    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "dwmr"}):
        figure.savefig(buffer, format="svg", facecolor="white", metadata={"Date": None})
    atomic_write_bytes(path, buffer.getvalue())
