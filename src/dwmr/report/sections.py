"""The sections of a report but for the single transitions, each from the figures it shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dwmr.evaluation.metrics import confusion
from dwmr.models.checkpoint import RunInfo
from dwmr.report import figures
from dwmr.report.markup import Markup, Section, element, figure, number, table
from dwmr.report.material import Boards, Material

SCORES = {
    "f1": "F1, the paper's",
    "f1_true_labels": "F1 over true labels",
    "accuracy": "cells right",
    "board_accuracy": "boards right",
    "changed_cells_f1": "F1 of changed cells",
}
CURVES = {
    "terms": {
        "pred": "error of the predicted next bits",
        "var": "bits that hardly vary",
        "cor": "correlation of pairs of bits",
        "cos": "coskewness of triplets of bits",
        "loc": "flips outside the wanted window",
        "rec": "error of the decoded image",
        "kl": "distance of the bits from fair coins",
    },
    "bits": {
        "dead": "bits that never changed",
        "ones": "share of bits that are on",
        "flips": "bits that an action flips",
    },
    "val": {
        "exact_next": "% of validation codes predicted whole",
        "bits_next": "% of validation bits predicted",
    },
}
HEALTH = {
    "bits": "bits of a code",
    "dead": "bits that are the same on every frame and carry nothing; 0 is best",
    "duplicate": "bits that always equal another live bit, or its complement; 0 is best",
    "flips_mean": "bits that an action flips, on average; small but not 0",
    "exact_next": "% of transitions whose whole next code is predicted",
    "bits_next": "% of the bits of the next codes that are predicted; high even if nothing but copying is learned",
    "exact_changed": "% of the codes that change which are predicted whole",
    "same_code": "% of states seen in two frames that get the same code both times; 100 is best",
    "same_bits": "% of the bits that agree between two frames of one state",
    "state_share": "% of a bit's variance that the state decides, not its drawing; 100 is best",
    "state_share_min": "the same of the worst bit",
    "exact_next_repaired": "exact_next of codes mended by other frames of the same states",
    "same_code_repaired": "same_code of codes mended so, from frames that the two do not share",
    "collisions": "% of frames whose code also stands for another board; 0 is best",
    "splits": "% of frames whose board also has another code; 0 is best",
}
# What is drawn over the steps: a caption, what the model imagines, and what to compare it with.
ROLLOUT_PLOTS = (
    (
        "One wrong bit spoils a whole code, so these fall first",
        {"bits": "bits right", "exact": "codes right"},
        {"copy_bits": "bits, copying", "copy_exact": "codes, copying"},
    ),
    (
        "F1 of the board that the probe reads",
        {"f1": "F1"},
        {"copy_f1": "F1, copying", "reencode_f1": "F1, re-encoding"},
    ),
)
MOST_BITS = 256  # a correlation matrix of more bits shows so many of them


def key_figures(scores: Mapping[str, Any]) -> Markup:
    """The four numbers to see first."""
    codes = scores["codes"]
    shown = [("next codes wholly right", f"{number(codes['exact_next'])} %")]
    if "imagination" in scores:
        shown = [
            ("F1, board read from the frame", number(scores["encoding"]["f1"])),
            ("F1, board read one imagined step ahead", number(scores["imagination"]["f1"])),
            *shown,
        ]
    else:
        shown += [
            ("next bits right", f"{number(codes['bits_next'])} %"),
            ("bits an action flips", number(codes["flips_mean"])),
        ]
    shown.append(("dead bits", f"{codes['dead']} of {codes['bits']}"))
    boxes = [element("div", element("b", value), element("span", name)) for name, value in shown]
    return element("div", *boxes, class_="keys")


def board_scores(scores: Mapping[str, Any]) -> Section:
    copied = scores["baselines"]["copy"]
    how = (
        "How well a linear probe reads the board from the bits, in percent; the first column is the paper's figure "
        f"(F1 per cell, averaged over the cells). Copying the board unchanged scores {number(copied['f1'])} there, so "
        "look at the last column too, which counts only the cells that an action changes."
    )
    mended = {}
    if "repair" in scores:
        how += f" Mended codes use more than the frame: {scores['repair']['uses']}."
        mended = {f"{part}, mended codes": scores[f"{part}_repaired"] for part in ("encoding", "imagination")}
    rows = {
        "encoding: board read from the frame's bits": scores["encoding"],
        "imagination: board read from the imagined next bits": scores["imagination"],
        **mended,
        "baseline copy: the board stays as it is": copied,
        "baseline majority: each cell's usual label": scores["baselines"]["majority"],
    }
    cells = [[name, *(number(row[score]) for score in SCORES)] for name, row in rows.items()]
    return Section("scores", "Boards", how, table(["", *SCORES.values()], cells))


def training(metrics: Sequence[Mapping[str, Any]]) -> Section:
    drawn = []
    for group, meanings in CURVES.items():
        for name in metrics[-1].get(group, {}) if metrics else ():
            points = [(record["epoch"], record[group][name]) for record in metrics if name in record.get(group, {})]
            epochs, values = zip(*points)
            caption = (element("b", name), f" {values[-1]:.3g}", Markup("<br>"), meanings.get(name, ""))
            drawn.append(figure(figures.curve(epochs, values), *caption))
    how = "Each quantity over the epochs, with its last value; loss terms are unweighted, and smaller is better."
    content = element("div", *drawn, class_="small")
    return Section("training", "Training", how if drawn else "This run has no records of its epochs.", content)


def bit_statistics(material: Material, n_actions: int) -> Section:
    codes, flipped = material.codes, material.codes != material.next_codes
    imagined = material.codes != material.predicted
    by_action = _mean_by_action(flipped, material.actions, n_actions)
    shown = np.unique(np.linspace(0, codes.shape[1] - 1, MOST_BITS).astype(int))
    some = "" if len(shown) == codes.shape[1] else f" ({len(shown)} of {codes.shape[1]} bits shown)"
    counts = {
        "encoded": by_action.sum(1),
        "imagined": _mean_by_action(imagined, material.actions, n_actions).sum(1),
    }
    how = (
        "Good bits are on in a fair share of the frames, hardly correlate, and flip under some actions but not under "
        "all: each then says something of its own."
    )
    on = figure(figures.sorted_rates(codes.mean(0)), "How often each bit is on; a bar at 0 or 1 is a dead bit")
    flips = figure(figures.flip_counts(counts), "How many bits each action flips, encoded and imagined")
    pairs = figure(
        figures.correlations(_correlations(codes[:, shown])),
        f"|Correlation| of each pair of bits{some}; full colour means that they repeat each other",
    )
    where = figure(figures.flip_rates(by_action), "How often each action flips each bit, as a share", class_="whole")
    content = element("div", element("div", on, flips), pairs, where, class_="pair")
    return Section("bits", "Bits", how, content)


def confusion_matrix(boards: Boards) -> Section:
    counts = confusion(boards.then, boards.imagined, boards.n_classes).sum(0)
    occurring = np.flatnonzero(counts.sum(0) + counts.sum(1))
    how = (
        "What the probe reads from imagined bits, all cells together. A row is a true label: the share of its cells "
        "read as each label, with the count below; a perfect model has 100 % all along the diagonal."
    )
    rows = []
    for true in occurring:
        total = counts[true].sum()
        rows.append([f"true {true}", *(_share(counts[true, read], total) for read in occurring)])
    header = ["", *(f"read {read}" for read in occurring)]
    return Section("confusion", "Labels read from imagined bits", how, table(header, rows, class_="confusion"))


def rollouts(scores: Mapping[str, Mapping[str, float]]) -> Section:
    how = (
        "From the first frame of held-out episodes the model imagines ahead by the actions alone; after so many steps "
        "its bits are compared with the bits of the frame really seen then (%). Broken lines need no imagination: the "
        "first code kept as it is, and the code of the frame seen then, the best that could be read."
    )
    plots: list[Markup] = []
    columns: dict[str, str] = {}
    for caption, imagined, compared in ROLLOUT_PLOTS:
        if all(set(imagined) <= set(entry) for entry in scores.values()):
            names = imagined | compared
            columns |= names
            series = {name: [entry[key] for entry in scores.values()] for key, name in names.items()}
            plot = figures.horizons([int(step) for step in scores], series, dashed=compared.values())
            plots.append(figure(plot, caption))
    rows = [[step, *(number(entry[key]) for key in columns)] for step, entry in scores.items()]
    listed = table(["steps", *columns.values()], rows)
    return Section("rollouts", "Long imagination", how, element("div", *plots, listed, class_="pair"))


def trust(certificate: Mapping[str, Any]) -> Section:
    how = "How far to trust this model: an answer a question, each from one figure; `dwmr certify` gives them all."
    rows = [
        [each["question"], each["answer"], f"{number(each['figure'])} {each['unit']}", each["remark"]]
        for each in certificate["verdicts"]
    ]
    answers = table(["question", "answer", "figure", ""], rows, class_="words")
    return Section("trust", "Trust", how, element("div", element("p", certificate["summary"]), answers))


def code_health(codes: Mapping[str, Any]) -> Section:
    how = "How sound the code is in itself, whatever the probe makes of it; measured on the test split."
    rows = [[name, number(value), HEALTH.get(name, "")] for name, value in codes.items()]
    return Section("health", "Code health", how, table(["figure", "value", "meaning"], rows, class_="words"))


def configuration(info: RunInfo, epochs_done: int) -> Section:
    config = info.config.to_dict()
    hyper, factors = config.pop("hyper"), config.pop("factors")
    facts = {
        "seed": info.seed,
        "epochs done": epochs_done,
        "image": " × ".join(map(str, info.image_shape)),
        "actions": info.n_actions,
        "own parts": ", ".join(info.own_parts) or "none",
        "training data": info.data,
        **{f"{name} version": version for name, version in info.versions.items()},
    }
    how = "Everything that was chosen for this run; a factor multiplies its quantity after every epoch."
    columns = (
        table(["choice", ""], config.items()),
        table(["quantity", "start", "factor"], [[name, hyper[name], factors[name]] for name in hyper]),
        table(["run", ""], facts.items()),
    )
    return Section("configuration", "Configuration", how, element("div", *columns, class_="columns"))


def _mean_by_action(values: np.ndarray, actions: np.ndarray, n_actions: int) -> np.ndarray:
    """Means (A, K) of values (N, K) over the transitions of each action; NaN for an action that never occurs."""
    means = np.full((n_actions, values.shape[1]), np.nan)
    for action in np.unique(actions):
        means[action] = values[actions == action].mean(0)
    return means


def _correlations(codes: np.ndarray) -> np.ndarray:
    """|correlation| (K, K), NaN on the diagonal and for bits that never change."""
    centred = codes - codes.mean(0)
    spread = centred.std(0)
    spread[spread == 0] = np.nan
    matrix = np.abs(centred.T @ centred / len(codes) / np.outer(spread, spread))
    np.fill_diagonal(matrix, np.nan)
    return matrix


def _share(count: int, total: int) -> Markup:
    share = count / total if total else 0.0
    shade = f"background: rgba(var(--blue), {0.75 * share:.3f})"
    return element("div", f"{number(100 * share)} %", element("span", f"{count:,}"), style=shade)
