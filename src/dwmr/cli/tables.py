"""Tables for the terminal."""

from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from dwmr.config import Config
from dwmr.evaluation.metrics import SCORE_TITLES

ROLLOUT = {
    "bits": "bits",
    "copy_bits": "bits, copy",
    "exact": "codes",
    "copy_exact": "codes, copy",
    "f1": "F1",
    "copy_f1": "F1, copy",
    "reencode_f1": "F1, real frame",
}
PLANS = {
    "tasks": "solved",
    "interval": "95%\ninterval",
    "length_over_optimal": "actions /\nshortest",
    "plan_found_but_wrong": "wrong\nplans",
    "exhausted": "no\nplan",
    "seconds_median": "median\nseconds",
}


def evaluation(figures: dict[str, Any]) -> list[Table]:
    """The figures of `dwmr.evaluate` as tables. Exactness stands beside collisions: a constant code is exact too."""
    found = []
    parts = ("encoding", "imagination")
    if "encoding" in figures:
        rows = _with_groups({name: figures[name] for name in parts} | figures["baselines"])
        found.append(_table("Board predicted from the bits by a linear probe, in percent", SCORE_TITLES, rows))
    if "intervals" in figures:
        intervals = figures["intervals"]
        title = f"95% confidence intervals, from resampling {intervals['units']} levels or episodes"
        found.append(_table(title, SCORE_TITLES, _with_groups({name: intervals[name] for name in parts})))
    codes = figures["codes"]
    collisions = _number(codes["collisions"]) if "collisions" in codes else "not measured, no labels"
    if figures.get("rollout"):
        title = f"Roll-outs: correct bits, exact codes (collisions: {collisions}) and F1, in percent"
        found.append(_table(title, ROLLOUT, figures["rollout"], first="steps"))
    health = {name: {"value": value} for name, value in (codes | {"collisions": collisions}).items()}
    return [*found, _table("Code", {"value": ""}, health)]


def certificate(found: dict[str, Any]) -> Table:
    """The answers of `dwmr.certify`, with the figure and a remark for each."""
    answers = []
    for each in found["verdicts"]:
        figure = "" if each["figure"] is None else f"{_number(each['figure'])} {each['unit']}"
        answers.append([each["answer"], figure, f"{each['name']}: {each['question']}\n  {each['remark']}"])
    return text_table("Reliability", ["answer", "value", "question"], answers, texts=3)


def presets(configs: dict[str, Config], tuned: dict[str, dict[str, Any]]) -> Table:
    """The presets with a few of their values, and the number of trials they were tuned with."""
    columns = ("bits", "epochs", "lr", "tau")
    lines = []
    for name, config in configs.items():
        values = config.flat()
        trials = str(tuned[name]["provenance"]["trials"]) if name in tuned else "–"
        lines.append([name, *(_significant(values[column]) for column in columns), trials])
    return text_table("Presets", ["preset", *columns, "tuned"], lines)


def planning(entries: dict[str, dict[str, Any]], kinds: Sequence[str]) -> list[Table]:
    """What planners and controls made of each kind of tasks; the first kind's figures are the entry's own."""
    shown = []
    for place, kind in enumerate(kinds):
        figures = {name: entry if place == 0 else entry[kind] for name, entry in entries.items()}
        rows = {name: {**each, "tasks": f"{each['solved']}/{each['of']}"} for name, each in figures.items()}
        shown.append(_table(f"Tasks solved in the real world: {kind}", PLANS, rows))
    return shown


def tuning(found: dict[str, Any]) -> str:
    """A finished study in one line; its JSON has the rest."""
    score, chosen = found["provenance"]["score"].split(" at ")[0], found["chosen"]
    best = f"chosen: trial {chosen['trial']}, {chosen['mean']:.2f} ± {chosen['std']:.2f}" if chosen else "none chosen"
    return f"{found['preset']}: {len(found['trials'])} trials done; scores are {score}; {best} with new seeds"


def _significant(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def last_epoch(metrics: list[dict[str, Any]]) -> str:
    """The last epoch of a training, in one line."""
    if not metrics:
        return "no epochs"
    last, bits = metrics[-1], metrics[-1]["bits"]
    epochs = "1 epoch" if last["epoch"] == 1 else f"{last['epoch']} epochs"
    terms = ", ".join(f"{name} {value:.3f}" for name, value in last["terms"].items())
    line = f"{epochs}; {terms}; {bits['flips']:.1f} bits flipped per action, {bits['dead']} dead bits"
    if "val" in last:
        line += f"; next code exact in {last['val']['exact_next']:.1f}% of validation transitions"
        line += " (run `dwmr evaluate` to check for collisions)"
    return line


def _table(title: str, columns: dict[str, str], rows: dict[str, dict[str, Any]], first: str = "") -> Table:
    """A table of figures: a column per key, a line per row."""
    lines = [[name, *(_number(row.get(key)) for key in columns)] for name, row in rows.items()]
    return text_table(title, [first, *columns.values()], lines)


def text_table(title: str, headings: Sequence[str], lines: Sequence[Sequence[str]], texts: int = 1) -> Table:
    """A table of strings; the first ``texts`` columns are left-aligned, the others right-aligned."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, show_header=any(headings))
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="left" if place < texts else "right", no_wrap=place < min(texts, 2))
    for line in lines:
        table.add_row(*line)
    return table


def _with_groups(rows: dict[str, Any]) -> dict[str, Any]:
    """Scores by row, and below each those of its named groups of labels."""
    shown = {}
    for row, scores in rows.items():
        if set(scores) - {"groups"}:
            shown[row] = scores
        shown |= {f"{row}: {group}": each for group, each in scores.get("groups", {}).items()}
    return shown


def _number(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, list):  # an interval
        return "–".join(dict.fromkeys(f"{end:.1f}" for end in value))
    return f"{value:.2f}" if isinstance(value, float) else str(value)
