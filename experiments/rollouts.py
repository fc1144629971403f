"""How long imagination lasts: the strong models beside the faithful one, from the stored runs.

    python -m experiments.rollouts

Draws docs/images/rollouts.png: along the rollout episodes of the four benchmarks, whole codes that are imagined rightly
and the F1 of what is read from them, after 1 to 1,000 actions; the mean of all runs and, shaded, their
range. Copying keeps the first frame's code, the strong model's, and never looks at the actions; re-encoding looks at
the true frame of that step. Nothing is trained.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from dwmr.plotting.pictures import new_figure
from experiments.reproduce.render import BENCHMARKS

ROOT = Path(__file__).parents[1]
RUNS = ROOT / "experiments" / "results" / "runs"
PICTURE = ROOT / "docs" / "images" / "rollouts.png"
MODELS = {"strong": "#111111", "dwmr": "#d62728"}
FIGURES = {"exact": "whole codes right, %", "f1": "F1, %"}


def figures(benchmark: str, model: str, name: str) -> tuple[list[int], np.ndarray]:
    """The horizons, and one line of figures a run."""
    files = sorted((RUNS / benchmark / model).glob("seed-*.json"))
    found = [json.loads(path.read_text(encoding="utf-8"))["figures"]["rollout"] for path in files]
    return [int(step) for step in found[0]], np.array([[entry[name] for entry in run.values()] for run in found])


def main() -> None:
    figure = new_figure(13, 5.4)
    panels = figure.subplots(len(FIGURES), len(BENCHMARKS), sharex=True, sharey=True, squeeze=False)
    for line, (name, title) in zip(panels, FIGURES.items()):
        for axes, (benchmark, words) in zip(line, BENCHMARKS.items()):
            for model, colour in MODELS.items():
                steps, values = figures(benchmark, model, name)
                axes.plot(steps, values.mean(0), color=colour, label=model, marker="o", markersize=3)
                axes.fill_between(steps, values.min(0), values.max(0), color=colour, alpha=0.12, linewidth=0)
            beside = [("strong, copying" if name == "exact" else "copying", f"copy_{name}", "--")]
            beside += [("strong, re-encoding", "reencode_f1", ":")] if name == "f1" else []
            for label, place, style in beside:
                steps, values = figures(benchmark, "strong", place)
                axes.plot(steps, values.mean(0), color="#888888", linestyle=style, label=label)
            axes.set_xscale("log")
            axes.set_ylim(-3, 103)
            axes.grid(alpha=0.15)
            if name == "exact":
                axes.set_title(words)
            else:
                axes.set_xlabel("actions imagined")
        line[0].set_ylabel(title)
    for line in panels:
        line[0].legend(fontsize="small", frameon=False)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=110, facecolor="white")


if __name__ == "__main__":
    main()
