"""The result of a study: every trial, the confirmations, the choice, and its provenance."""

from __future__ import annotations

import datetime
import statistics
from typing import Any

import optuna
import torch

from dwmr.provenance import describe_code, describe_machine
from dwmr.tuning.halving import chosen
from dwmr.tuning.journal import DIVERGED, Journal, is_done, rows_of
from dwmr.tuning.spaces import as_data, options
from dwmr.tuning.stages import CONFIRMATION, SEARCH, Plan

SCORES = {"imagination": "validation imagination F1", "shared": "dimensions shared by predicted and encoded codes"}


def summarize(journal: Journal, plan: Plan, *, finished: bool, device: str) -> dict[str, Any]:
    """All trials with their scores at every stage, the confirmations, and what was chosen."""
    trials = _trials(journal, plan)
    confirmations = _confirmations(journal, trials, plan.select)
    winner = chosen({entry["trial"]: entry[plan.select] for entry in confirmations}) if finished else None
    found: dict[str, Any] = {
        "preset": plan.base.name,
        "finished": finished,
        "select": plan.select,
        "stages": plan.stages(),
        "space": as_data(plan.space),
        "chosen": None,
        "confirmations": confirmations,
        "trials": trials,
        "provenance": _provenance(plan, trials, confirmations, device),
    }
    if winner is not None:
        (values,) = (trial["values"] for trial in trials if trial["trial"] == winner)
        (entry,) = (entry for entry in confirmations if entry["trial"] == winner)
        found["chosen"] = {"trial": winner, "mean": entry["mean"], "std": entry["std"], "values": options(values)}
    return found


def _trials(journal: Journal, plan: Plan) -> list[dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {
        row.number: {
            "trial": row.number,
            "start": bool(row.user_attrs.get("start")),
            "values": row.params,
            "seed": plan.trial_seed(row.number),
            "state": "running",
            "seconds": 0.0,
            "scores": {},
        }
        for row in rows_of(journal.stage(SEARCH))
        if row.params
    }
    for stage, epochs in plan.stages().items():
        for row in rows_of(journal.stage(stage)) if stage != CONFIRMATION else []:
            trial = found.get(row.user_attrs.get("of", row.number))
            if trial is None or not is_done(row):
                continue
            trial["seconds"] = round(trial["seconds"] + row.user_attrs["seconds"], 2)
            if DIVERGED in row.user_attrs:
                trial["state"] = f"diverged: {row.user_attrs[DIVERGED]}"
            else:
                trial["state"] = "finished" if epochs == plan.base.epochs else f"stopped after epoch {epochs}"
                trial["scores"][str(epochs)] = row.user_attrs["scores"]
    return list(found.values())


def _confirmations(journal: Journal, trials: list[dict[str, Any]], select: str) -> list[dict[str, Any]]:
    """An entry for each trial that was trained again: its score for each seed, None where it diverged."""
    starts = [trial["trial"] for trial in trials if trial["start"]]
    by_trial: dict[int, dict[int, dict[str, float] | None]] = {}
    for row in filter(is_done, rows_of(journal.stage(CONFIRMATION))):
        by_trial.setdefault(row.user_attrs["of"], {})[row.user_attrs["seed"]] = row.user_attrs.get("scores")
    found = []
    for number, scores in by_trial.items():
        values = [None if score is None else score[select] for score in scores.values()]
        counted = [value or 0.0 for value in values]  # a seed that diverged counts as 0
        found.append(
            {
                "trial": number,
                "start": number in starts,
                "seeds": list(scores),
                select: values,
                "mean": statistics.mean(counted),
                "std": statistics.stdev(counted) if len(counted) > 1 else None,
                "scores": list(scores.values()),
            }
        )
    return sorted(found, key=lambda entry: -entry["mean"])


def _provenance(plan: Plan, trials: list[Any], confirmations: list[Any], device: str) -> dict[str, Any]:
    run_epochs = sum(max(map(int, trial["scores"]), default=0) for trial in trials)
    run_epochs += sum(len(entry["seeds"]) * plan.base.epochs for entry in confirmations)
    return {
        "trials": len(trials),
        "study_seed": plan.seed,
        "confirmed_with_seeds": plan.fresh_seeds(),
        "start_values": next((entry["mean"] for entry in confirmations if entry["start"]), None),
        "score": f"{SCORES[plan.select]} at the last epoch, mean over the seeds",
        "run_epochs": run_epochs,
        "data": plan.data,
        **describe_code(),
        "optuna": optuna.__version__,
        "machine": describe_machine(torch.device(device)),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
