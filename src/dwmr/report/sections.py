"""The sections of a report, each from the figures it shows. Single transitions are in `cards`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dwmr.evaluation.metrics import SCORE_TITLES
from dwmr.plotting.pictures import BLUE, COLOURS, figure_png, new_figure
from dwmr.report.markup import Markup, element, image, number, section, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLES = {"": ("-", ""), "copy_": ("--", ", copying"), "reencode_": (":", ", re-encoding")}


def board_scores(scores: Mapping[str, Any]) -> Markup:
    copied = scores["baselines"]["copy"]
    how = (
        "Does the code contain the board? A linear classifier (a probe) learns to read the board from the bits. Its "
        "scores on held-out transitions are in percent. “F1” is the paper's score: macro-F1 per cell, averaged over "
        f"the cells. Predicting that nothing changes already gives {number(copied['f1'])}, so compare the last column "
        "too, which counts only the cells that an action changes."
    )
    rows = {
        "encoding: read from the code of the frame": scores["encoding"],
        "imagination: read from the predicted next code": scores["imagination"],
        "baseline: the board does not change": copied,
        "baseline: each cell's most frequent label": scores["baselines"]["majority"],
    }
    cells = [[name, *(number(row[score]) for score in SCORE_TITLES)] for name, row in rows.items()]
    return section("scores", "Board scores", how, table(["", *SCORE_TITLES.values()], cells))


def reliability(certificate: Mapping[str, Any]) -> Markup:
    how = (
        "Eight questions about how reliable the model is, each answered with yes, partly or no from one figure. “Not "
        "tested” means that the data cannot answer the question."
    )
    rows = []
    for each in certificate["verdicts"]:
        figure = "" if each["figure"] is None else f"{number(each['figure'])} {each['unit']}"
        rows.append([f"{each['name']}: {each['question']}", each["answer"], figure, each["remark"]])
    answers = table(["question", "answer", "figure", ""], rows, class_="words")
    return section("trust", "Reliability", how, element("p", certificate["summary"]), answers)


def rollouts(scores: Mapping[str, Mapping[str, float]]) -> Markup:
    how = (
        "How long does imagination stay correct? From the first frame of a held-out episode the model predicts ahead, "
        "given only the actions. After each number of steps its code is compared with that of the frame really seen, "
        "in percent: correct bits, exact codes (all bits correct), and the F1 of the board that the probe reads. "
        "“copying” keeps the first code and imagines nothing; “re-encoding” encodes the frame really seen and is the "
        "best possible result."
    )
    drawing, axes = _plot(7.2, 3)
    steps = [int(step) for step in scores]
    for colour, (name, title) in zip(COLOURS, {"bits": "bits", "exact": "codes", "f1": "F1"}.items()):
        for prefix, (style, reference) in STYLES.items():
            if all(f"{prefix}{name}" in entry for entry in scores.values()):
                values = [entry[f"{prefix}{name}"] for entry in scores.values()]
                axes.plot(steps, values, style, color=colour, marker="o", markersize=3, label=title + reference)
    axes.set_xscale("log")
    axes.set_xticks(steps, [str(step) for step in steps])
    axes.minorticks_off()
    axes.set_ylim(0, 102)
    axes.set_xlabel("imagined steps", fontsize=7)
    drawing.legend(loc="outside right upper", frameon=False, fontsize=7)
    return section("rollouts", "Roll-outs", how, _figure(drawing))


def training(metrics: Sequence[Mapping[str, Any]]) -> Markup:
    if not metrics:
        return section("training", "Training", "This run has no records of its epochs.")
    how = (
        "Each quantity over the epochs, with its last value. Loss terms, before weighting: pred (the predicted next "
        "bits), var (bits that rarely change), cor (correlated pairs), cos (dependent triplets), loc (too few or too "
        "many flips), rec (the decoded image), kl (distance from fair coin flips). Then: bits that never change; "
        "the share of ones; the bits that an action flips; the percentages of exact next codes and of correct next "
        "bits on the validation split, where collisions are not measured."
    )
    plots = []
    for group in ("terms", "bits", "val"):
        for name, last in metrics[-1].get(group, {}).items():
            points = [(record["epoch"], record[group][name]) for record in metrics if name in record.get(group, {})]
            drawing, axes = _plot(2.3, 1.25)
            axes.plot(*zip(*points), color=BLUE, marker="o" if len(points) < 8 else "", markersize=2.5)
            axes.locator_params(axis="x", integer=True)
            plots.append(_figure(drawing, element("b", name), f" {last:.3g}"))
    return section("training", "Training", how, element("div", *plots, class_="small"))


def _plot(width: float, height: float) -> tuple[Figure, Axes]:
    figure = new_figure(width, height)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=7)
    axes.grid(axis="y", alpha=0.3)
    return figure, axes


def _figure(drawing: Figure, *caption: object) -> Markup:
    return element("figure", element("figcaption", *caption), image(figure_png(drawing, dpi=160), "plot"))
