"""The plots of a report: arrays in, an inline SVG out.

Backgrounds are transparent, and lines and letters take the colour of the page's text, so one figure suits a light
page, a dark one and paper.
"""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dwmr.plotting.pictures import new_figure, require_matplotlib
from dwmr.report.markup import Markup

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#0c0b0a"  # stands for the page's text colour, which replaces it
BLUE, ORANGE, GREEN, PURPLE = "#3f7fd6", "#e08a2e", "#3f9d6b", "#9a6bc4"
SMALL = 7  # points


def curve(steps: Sequence[int], values: Sequence[float]) -> Markup:
    """One quantity over the epochs."""
    figure, axes = _plot(2.3, 1.25)
    axes.plot(steps, values, color=BLUE, linewidth=1.4, marker="o" if len(steps) < 8 else "", markersize=2.5)
    axes.locator_params(axis="x", integer=True)
    axes.margins(x=0.04, y=0.12)
    return _svg(figure)


def sorted_rates(rates: np.ndarray) -> Markup:
    """How often each of K bits is on, (K,), the rarest bit first."""
    figure, axes = _plot(4.4, 2.3, xlabel="bits, sorted", ylabel="share of frames with the bit on")
    axes.stairs(np.sort(rates), fill=True, color=BLUE, alpha=0.75)
    axes.axhline(0.5, color=INK, linewidth=0.6, linestyle=(0, (4, 3)), alpha=0.6)
    axes.set(xlim=(0, len(rates)), ylim=(0, 1))
    return _svg(figure)


def correlations(matrix: np.ndarray) -> Markup:
    """|correlation| of each pair of K bits, (K, K), NaN where it is not defined."""
    figure, axes = _plot(4.6, 4.1, xlabel="bit", ylabel="bit")
    _heat(figure, axes, matrix, top=1)
    return _svg(figure)


def flip_rates(rates: np.ndarray) -> Markup:
    """How often each of A actions flips each of K bits, (A, K), NaN for actions that never occur."""
    figure, axes = _plot(9.6, 0.8 + 0.16 * len(rates), xlabel="bit", ylabel="action")
    _heat(figure, axes, rates, top=max(float(np.nanmax(rates)), 1e-3))
    axes.set_yticks(_some(len(rates)))
    return _svg(figure)


def flip_counts(counts: Mapping[str, np.ndarray]) -> Markup:
    """Mean number of bits that each of A actions flips, {whose bits: (A,)}."""
    n_actions = len(next(iter(counts.values())))
    figure, axes = _plot(4.4, 2.1, xlabel="action", ylabel="bits flipped, mean")
    width = 0.8 / len(counts)
    for place, (name, colour) in enumerate(zip(counts, (BLUE, ORANGE))):
        left = np.arange(n_actions) + (place + 0.5) * width - 0.4
        axes.bar(left, np.nan_to_num(counts[name]), 0.92 * width, color=colour, label=name)
    axes.set_xticks(_some(n_actions))
    _legend(axes)
    return _svg(figure)


def horizons(steps: Sequence[int], series: Mapping[str, Sequence[float]], dashed: Collection[str] = ()) -> Markup:
    """Percentages against the number of imagined steps, on a logarithmic axis; what to compare with is dashed."""
    figure, axes = _plot(4.8, 2.5, xlabel="imagined steps", ylabel="%")
    for place, (name, values) in enumerate(series.items()):
        style = (0, (4, 3)) if name in dashed else "-"
        colour = (BLUE, ORANGE, GREEN, PURPLE)[place % 4]
        axes.plot(steps, values, color=colour, linewidth=1.5, linestyle=style, marker="o", markersize=3, label=name)
    axes.set_xscale("log")
    axes.set_xticks(steps, [str(step) for step in steps])
    axes.minorticks_off()
    axes.set_ylim(0, 102)
    _legend(axes)
    return _svg(figure)


def _plot(width: float, height: float, xlabel: str = "", ylabel: str = "") -> tuple[Figure, Axes]:
    figure = new_figure(width, height)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set(color=INK, alpha=0.5, linewidth=0.6)
    axes.tick_params(colors=INK, labelsize=SMALL, width=0.6, length=2.5)
    axes.set_xlabel(xlabel, color=INK, fontsize=SMALL)
    axes.set_ylabel(ylabel, color=INK, fontsize=SMALL)
    axes.grid(axis="y", color=INK, alpha=0.12, linewidth=0.5)
    axes.set_axisbelow(True)
    return figure, axes


def _heat(figure: Figure, axes: Axes, matrix: np.ndarray, top: float) -> None:
    """Zero lets the page's background show through, ``top`` is full blue."""
    colors = require_matplotlib().colors
    ends = [colors.to_rgba(BLUE, alpha) for alpha in (0, 1)]
    shades = colors.LinearSegmentedColormap.from_list("shades", ends)
    axes.grid(visible=False)
    # With interpolation "none" the cells stay cells: the SVG holds one pixel for each.
    image = axes.imshow(matrix, cmap=shades, vmin=0, vmax=top, interpolation="none")
    if len(matrix) != matrix.shape[1]:
        axes.set_aspect("auto")
    bar = figure.colorbar(image, ax=axes, pad=0.02, fraction=0.05)
    bar.ax.tick_params(colors=INK, labelsize=SMALL, width=0.6, length=2)
    bar.outline.set(edgecolor=INK, linewidth=0.4, alpha=0.4)


def _some(count: int) -> range:
    """The first ``count`` numbers, or every so many of them where there is no room for all."""
    return range(0, count, -(-count // 20))


def _legend(axes: Axes) -> None:
    """Above the plot, where it hides nothing."""
    axes.legend(
        frameon=False,
        fontsize=SMALL,
        labelcolor=INK,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=3,
        borderaxespad=0.2,
    )


def _svg(figure: Figure) -> Markup:
    """The figure as an element of an HTML page, without what only a file of its own would need."""
    buffer = io.StringIO()
    with require_matplotlib().rc_context({"svg.fonttype": "none", "svg.hashsalt": "dwmr"}):
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    text = re.sub(r"<style.*?</style>", "", text, flags=re.DOTALL)
    return Markup(re.sub(r' xmlns(:\w+)?="[^"]*"|(?<=<g) id="[^"]*"', "", text))
