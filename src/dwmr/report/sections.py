"""The sections of a report, each from the figures it shows. Single transitions are in `examples`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dwmr.evaluation.metrics import SCORE_TITLES
from dwmr.models.run_folder import RunInfo
from dwmr.report import figures
from dwmr.report.markup import Markup, Section, element, figure, number, table

CURVES = {
    "terms": {
        "pred": "loss of the predicted next bits",
        "var": "loss for bits that rarely change",
        "cor": "loss for pairs of correlated bits",
        "cos": "loss for triplets of dependent bits",
        "loc": "loss for too few or too many flipped bits",
        "rec": "loss of the decoded image",
        "kl": "distance of the bits from fair coin flips",
    },
    "bits": {
        "dead": "bits that never change",
        "ones": "share of bits that are on",
        "flips": "bits flipped by an action",
    },
    "val": {
        "exact_next": "% of exact next codes on the validation split",
        "bits_next": "% of correct next bits on the validation split",
    },
}
HEALTH = {
    "bits": "bits of a code",
    "dead": "bits that never change and so carry no information; 0 is best",
    "duplicate": "bits that always equal another bit or its complement; 0 is best",
    "flips_mean": "bits flipped by an action, on average; should be small but not 0",
    "exact_next": "% of transitions whose whole next code is predicted correctly",
    "bits_next": "% of bits of the next codes that are predicted correctly; high even for a model that only copies",
    "exact_changed": "exact_next over the transitions that change the code",
    "same_code": "% of states drawn in two frames that get the same code both times; 100 is best",
    "same_bits": "% of bits that agree between two frames of one state",
    "state_share": "% of a bit's variance that comes from the state, not from how it is drawn; 100 is best",
    "state_share_min": "the same for the worst bit",
    "collisions": "% of frames whose code also stands for another board; 0 is best",
    "splits": "% of frames whose board also has another code; 0 is best",
}
# A caption, what the model imagines, and the references to compare it with.
ROLLOUT_PLOTS = (
    (
        "Correct bits and exact codes. A code is exact only if all its bits are correct, so this share falls first.",
        {"bits": "bits", "exact": "codes"},
        {"copy_bits": "bits, copying", "copy_exact": "codes, copying"},
    ),
    (
        "F1 of the board that the probe reads.",
        {"f1": "F1"},
        {"copy_f1": "F1, copying", "reencode_f1": "F1, re-encoding"},
    ),
)


def key_figures(scores: Mapping[str, Any]) -> Markup:
    """The four most important numbers."""
    codes = scores["codes"]
    shown = [("exact next codes", f"{number(codes['exact_next'])} %")]
    if "imagination" in scores:
        shown = [
            ("F1 of the board, from the frame", number(scores["encoding"]["f1"])),
            ("F1 of the board, one step ahead", number(scores["imagination"]["f1"])),
            *shown,
        ]
    else:
        shown += [
            ("correct next bits", f"{number(codes['bits_next'])} %"),
            ("bits flipped by an action", number(codes["flips_mean"])),
        ]
    shown.append(("dead bits", f"{codes['dead']} of {codes['bits']}"))
    boxes = [element("div", element("b", value), element("span", name)) for name, value in shown]
    return element("div", *boxes, class_="keys")


def board_scores(scores: Mapping[str, Any]) -> Section:
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
    return Section("scores", "Board scores", how, table(["", *SCORE_TITLES.values()], cells))


def training(metrics: Sequence[Mapping[str, Any]]) -> Section:
    drawn = []
    for group, meanings in CURVES.items():
        for name in metrics[-1].get(group, {}) if metrics else ():
            points = [(record["epoch"], record[group][name]) for record in metrics if name in record.get(group, {})]
            epochs, values = zip(*points)
            caption = (element("b", name), f" {values[-1]:.3g}", Markup("<br>"), meanings.get(name, ""))
            drawn.append(figure(figures.curve(epochs, values), *caption))
    how = (
        "Each quantity over the epochs; the number is its last value. Loss terms are shown before weighting; lower is "
        "better."
    )
    content = element("div", *drawn, class_="small")
    return Section("training", "Training", how if drawn else "This run has no records of its epochs.", content)


def rollouts(scores: Mapping[str, Mapping[str, float]]) -> Section:
    how = (
        "How long does imagination stay correct? From the first frame of a held-out episode the model predicts ahead, "
        "given only the actions. After each number of steps its code is compared with that of the frame really seen, "
        "in percent. Dashed lines are references that imagine nothing: “copying” keeps the first code, “re-encoding” "
        "encodes the frame really seen and is the best possible result."
    )
    plots: list[Markup] = []
    columns: dict[str, str] = {}
    for caption, imagined, references in ROLLOUT_PLOTS:
        if all(set(imagined) <= set(entry) for entry in scores.values()):
            names = imagined | references
            columns |= names
            series = {name: [entry[key] for entry in scores.values()] for key, name in names.items()}
            plot = figures.horizons([int(step) for step in scores], series, dashed=references.values())
            plots.append(figure(plot, caption))
    rows = [[step, *(number(entry[key]) for key in columns)] for step, entry in scores.items()]
    listed = table(["steps", *columns.values()], rows)
    return Section("rollouts", "Roll-outs", how, element("div", *plots, listed, class_="pair"))


def trust(certificate: Mapping[str, Any]) -> Section:
    how = (
        "Eight yes/no questions about how reliable the model is, each answered from one figure. “Not tested” means "
        "that the data cannot answer the question."
    )
    rows = [
        [
            f"{each['name']}: {each['question']}",
            each["answer"],
            "" if each["figure"] is None else f"{number(each['figure'])} {each['unit']}",
            each["remark"],
        ]
        for each in certificate["verdicts"]
    ]
    answers = table(["question", "answer", "figure", ""], rows, class_="words")
    return Section("trust", "Reliability", how, element("div", element("p", certificate["summary"]), answers))


def code_health(codes: Mapping[str, Any]) -> Section:
    how = "Properties of the code itself, measured on the evaluated transitions; most of them need no labels."
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
        "user-defined parts": ", ".join(info.own_parts) or "none",
        "training data": info.data,
        **{f"{name} version": version for name, version in info.versions.items()},
    }
    how = "All settings of this run. A factor multiplies its quantity after every epoch."
    columns = (
        table(["setting", "value"], config.items()),
        table(["quantity", "start", "factor"], [[name, hyper[name], factors[name]] for name in hyper]),
        table(["run", ""], facts.items()),
    )
    return Section("configuration", "Configuration", how, element("div", *columns, class_="columns"))
