"""The plots of a report: arrays in, an inline SVG out.

Backgrounds are transparent, and lines and text take the colour of the page's text, so that a figure fits a light page,
a dark page and paper.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from dwmr.plotting.pictures import BLUE, COLOURS, figure_svg, new_figure
from dwmr.report.markup import Markup

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#0c0b0a"  # placeholder that becomes the page's text colour
SMALL = 7  # points
DASHED = (0, (4, 3))


def curve(steps: Sequence[int], values: Sequence[float]) -> Markup:
    """One quantity over the epochs."""
    figure, axes = _plot(2.3, 1.25)
    axes.plot(steps, values, color=BLUE, linewidth=1.4, marker="o" if len(steps) < 8 else "", markersize=2.5)
    axes.locator_params(axis="x", integer=True)
    axes.margins(x=0.04, y=0.12)
    return _inline(figure)


def horizons(steps: Sequence[int], series: Mapping[str, Sequence[float]], dashed: Collection[str] = ()) -> Markup:
    """Percentages over the number of imagined steps, on a logarithmic axis; references are ``dashed``."""
    figure, axes = _plot(4.8, 2.5, xlabel="imagined steps", ylabel="%")
    for place, (name, values) in enumerate(series.items()):
        style = DASHED if name in dashed else "-"
        colour = COLOURS[place % len(COLOURS)]
        axes.plot(steps, values, color=colour, linewidth=1.5, linestyle=style, marker="o", markersize=3, label=name)
    axes.set_xscale("log")
    axes.set_xticks(steps, [str(step) for step in steps])
    axes.minorticks_off()
    axes.set_ylim(0, 102)
    _legend(axes)
    return _inline(figure)


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


def _legend(axes: Axes) -> None:
    """A legend above the plot, where it covers nothing."""
    axes.legend(
        frameon=False,
        fontsize=SMALL,
        labelcolor=INK,
        ncols=3,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        borderaxespad=0.2,
    )


def _inline(figure: Figure) -> Markup:
    """The figure as an element of an HTML page, without what only an SVG file of its own needs."""
    text = figure_svg(figure, background="none")
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", text, flags=re.DOTALL)
    return Markup(re.sub(r' xmlns(:\w+)?="[^"]*"|(?<=<g) id="[^"]*"', "", text))
