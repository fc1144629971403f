"""Figures as tables for the terminal."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from dwmr.config import Config

SCORES = {
    "f1": "F1",
    "f1_true_labels": "F1, true labels",
    "accuracy": "cells right",
    "board_accuracy": "boards right",
    "changed_cells_f1": "F1, changed cells",
}


def evaluation(figures: dict[str, Any]) -> list[Table]:
    """The tables of `dwmr.evaluate`'s figures: those that are there."""
    found = []
    if "encoding" in figures:
        rows = {
            "encoding": figures["encoding"],
            "imagination": figures["imagination"],
            "copy the board": figures["baselines"]["copy"],
            "majority": figures["baselines"]["majority"],
        }
        found.append(_table("Boards read by a linear probe, in percent", SCORES, rows))
    if figures.get("rollout"):
        columns = {"bits": "bits right", "exact": "codes right", "f1": "F1"}
        found.append(_table("Roll-outs, in percent", columns, figures["rollout"], first="steps"))
    health = _table("Code", {"value": ""}, {name: {"value": value} for name, value in figures["codes"].items()})
    return [*found, health]


def presets(configs: dict[str, Config], tuned: dict[str, dict[str, Any]]) -> Table:
    """The presets, with the values that differ most between them, and how many trials they were tuned with."""
    rows = {
        name: {
            "bits": config.bits,
            "epochs": config.epochs,
            "lr": f"{config.hyper.lr:g}",
            "tau": f"{config.hyper.tau:g}",
            "gamma": f"{config.hyper.gamma:g}",
            "window": f"{config.hyper.low:g}–{config.hyper.high:g}",
            "tuned": f"{tuned[name]['provenance']['trials']} trials" if name in tuned else None,
        }
        for name, config in configs.items()
    }
    columns = {name: name for name in ("bits", "epochs", "lr", "tau", "gamma", "window", "tuned")}
    return _table("Presets", columns, rows, first="preset")


def tuning(found: dict[str, Any]) -> list[Table]:
    """How far a tuning campaign is, and what it chose."""
    told = [trial for trial in found["trials"] if trial["state"] != "running"]
    reached = {str(epochs): "epoch " + str(epochs) for epochs in sorted(set(found["stages"].values()))}
    best = sorted(told, key=lambda trial: -max((s["imagination"] for s in trial["scores"].values()), default=0.0))
    best.sort(key=lambda trial: -len(trial["scores"]))
    rows = {
        f"{trial['trial']}{' (start values)' if trial['start'] else ''}": {
            epochs: score["imagination"] for epochs, score in trial["scores"].items()
        }
        for trial in best[:10]
    }
    state = "finished" if found["finished"] else "goes on with the same command"
    title = f"{found['preset']}: {len(told)} trials told, {state}; validation imagination F1"
    shown = [_table(title, reached, rows, first="trial")]
    if found["confirmations"]:
        rows = {
            f"{entry['trial']}{' (start values)' if entry['start'] else ''}": {
                "mean": entry["mean"],
                "std": entry["std"],
            }
            for entry in found["confirmations"]
        }
        shown.append(_table("With fresh seeds", {"mean": "mean", "std": "std"}, rows, first="trial"))
    if found["chosen"]:
        values = {name: {"value": _significant(value)} for name, value in found["chosen"]["values"].items()}
        shown.append(_table(f"Chosen: trial {found['chosen']['trial']}", {"value": ""}, values))
    return shown


def _significant(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def last_epoch(metrics: list[dict[str, Any]]) -> str:
    """One line on how training ended."""
    if not metrics:
        return "no epochs"
    last = metrics[-1]
    terms = ", ".join(f"{name} {value:.3f}" for name, value in last["terms"].items())
    bits = last["bits"]
    exact = f"; next code exact {last['val']['exact_next']:.1f}%" if "val" in last else ""
    return f"{last['epoch']} epochs; {terms}; {bits['flips']:.1f} flips an action, {bits['dead']} dead bits{exact}"


def _table(title: str, columns: dict[str, str], rows: dict[str, dict[str, Any]], first: str = "") -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    table.add_column(first, no_wrap=True)
    for heading in columns.values():
        table.add_column(heading, justify="right")
    for name, row in rows.items():
        table.add_row(name, *(_number(row.get(key)) for key in columns))
    return table


def _number(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.2f}" if isinstance(value, float) else str(value)
