"""What a tuning campaign has found: a summary with its provenance, two pictures, and a preset."""

from __future__ import annotations

import datetime
import hashlib
import io
import platform
import statistics
import subprocess
from pathlib import Path
from typing import Any

import optuna
import torch

import dwmr
from dwmr.errors import InputError
from dwmr.files import PNG_MARK, atomic_write_bytes, atomic_write_json
from dwmr.plotting.pictures import new_figure
from dwmr.tuning.halving import best_so_far, chosen, expected_best
from dwmr.tuning.journal import DIVERGED, Journal, is_told, rows_of, score_of
from dwmr.tuning.plan import CONFIRMATION, SEARCH, Plan
from dwmr.tuning.spaces import as_data, options

SCORES = {"imagination": "validation imagination F1", "shared": "dimensions shared by predicted and encoded codes"}

BLUE, ORANGE, GREY = "#3f7fd6", "#e08a2e", "#8a8a8a"
PACKAGE = Path(dwmr.__file__).parent


def summarize(journal: Journal, plan: Plan, *, finished: bool, device: str) -> dict[str, Any]:
    """All trials with their scores at every rung, the confirmations, and what was chosen."""
    trials = _trials(journal, plan)
    confirmations = _confirmations(journal, trials, plan.select)
    winner = chosen({entry["trial"]: entry[plan.select] for entry in confirmations}) if finished else None
    scores = [_last(trial, plan.select) for trial in trials]
    reached = [score for score in scores if score is not None]
    found: dict[str, Any] = {
        "preset": plan.base.name,
        "finished": finished,
        "select": plan.select,
        "stages": plan.stages(),
        "space": as_data(plan.space),
        "chosen": None,
        "confirmations": confirmations,
        "trials": trials,
        "best_of_n": {"in_order": best_so_far(reached), "expected": expected_best(reached)},
        "importance": importance(journal) if finished else None,
        "provenance": _provenance(plan, trials, confirmations, device),
    }
    if winner is not None:
        (values,) = (trial["values"] for trial in trials if trial["trial"] == winner)
        (entry,) = (entry for entry in confirmations if entry["trial"] == winner)
        found["chosen"] = {"trial": winner, "mean": entry["mean"], "std": entry["std"], "values": options(values)}
    return found


def importance(journal: Journal) -> dict[str, float] | None:
    """How much of the variance of the search's scores each dimension explains (fANOVA), the largest first; None
    without scikit-learn, or where too few trials came through."""
    study = journal.stage(SEARCH)
    scores = {score_of(row) for row in rows_of(study)} - {None}
    if len(scores) < 2:
        return None
    try:
        evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
        return {name: round(float(share), 4) for name, share in _ranked(study, evaluator).items()}
    except ImportError:
        return None


def _ranked(study: optuna.Study, evaluator: Any) -> dict[str, float]:
    return optuna.importance.get_param_importances(study, evaluator=evaluator)


def summary_files(storage: Path) -> tuple[Path, Path, Path]:
    """What `save` may write beside the journal: the summary and two pictures."""
    return storage.with_suffix(".json"), storage.with_suffix(".best.png"), storage.with_suffix(".importance.png")


def save(summary: dict[str, Any], storage: Path) -> list[Path]:
    """Write the summary beside the journal, and the pictures of a finished campaign; what was written."""
    path, best, shares = summary_files(storage)
    atomic_write_json(path, summary)
    written = [path]
    if summary["chosen"] is not None:
        written.append(_save_figure(_best_of_n(summary), best))
        if summary["importance"]:
            written.append(_save_figure(_importance(summary), shares))
    return written


def preset_file(name: str, folder: Path | None = None) -> Path:
    """Where `write_preset` puts the tuned values of a preset."""
    return (folder or PACKAGE / "tuned") / f"{name}.json"


def write_preset(summary: dict[str, Any], folder: Path | None = None) -> Path:
    """Make what was chosen the preset of that name: a file in the package, or in another folder of that layout.

    Raises:
        InputError: the campaign is not finished, or every trial of it diverged.
    """
    if summary["chosen"] is None:
        raise InputError(f"{summary['preset']}: nothing is chosen yet, so there is no preset to write")
    path = preset_file(summary["preset"], folder)
    provenance = {**summary["provenance"], **{key: summary["chosen"][key] for key in ("trial", "mean", "std")}}
    atomic_write_json(path, {"values": summary["chosen"]["values"], "provenance": provenance})
    return path


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
        if stage == CONFIRMATION:
            continue
        for row in rows_of(journal.stage(stage)):
            trial = found.get(row.user_attrs.get("of", row.number))
            if trial is None or not is_told(row):
                continue
            trial["seconds"] = round(trial["seconds"] + row.user_attrs["seconds"], 2)
            if DIVERGED in row.user_attrs:
                trial["state"] = f"diverged: {row.user_attrs[DIVERGED]}"
            else:
                trial["state"] = "finished" if epochs == plan.base.epochs else f"stopped after epoch {epochs}"
                trial["scores"][str(epochs)] = row.user_attrs["scores"]
    return list(found.values())


def _confirmations(journal: Journal, trials: list[dict[str, Any]], select: str) -> list[dict[str, Any]]:
    """One entry a trial that was trained again: its score of each seed, None where it diverged."""
    starts = [trial["trial"] for trial in trials if trial["start"]]
    by_trial: dict[int, dict[int, dict[str, float] | None]] = {}
    for row in rows_of(journal.stage(CONFIRMATION)):
        if is_told(row):
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


def _last(trial: dict[str, Any], select: str) -> float | None:
    """A trial's score as far as it was trained."""
    scores = list(trial["scores"].values())
    return scores[-1][select] if scores else None


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
        **code_version(),
        "optuna": optuna.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": torch.cuda.get_device_name(device) if device.startswith("cuda") else "CPU",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def code_version() -> dict[str, str | None]:
    """Which code this is: the version, the commit where the package is under git, a digest of the sources anyway."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + path.read_bytes())
    tracked = _git("ls-files", "--error-unmatch", "__init__.py")
    return {
        "dwmr": dwmr.__version__,
        "commit": _git("rev-parse", "HEAD") if tracked else None,
        "sources": digest.hexdigest()[:16],
    }


def _git(*words: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(PACKAGE), *words], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _best_of_n(summary: dict[str, Any]) -> Any:
    figure = new_figure(6, 3.8)
    axes = figure.add_subplot()
    curves = summary["best_of_n"]
    steps = range(1, len(curves["expected"]) + 1)
    axes.plot(steps, curves["in_order"], color=GREY, drawstyle="steps-post", label="best so far, as searched")
    axes.plot(steps, curves["expected"], color=BLUE, label="best of n, expected")
    for entry in summary["confirmations"]:
        shown = "start values" if entry["start"] else "chosen"
        if entry["start"] or entry["trial"] == summary["chosen"]["trial"]:
            label = f"{shown}, mean of {len(entry['seeds'])} fresh seeds"
            axes.axhline(
                entry["mean"], color=ORANGE, linewidth=1, linestyle="--" if entry["start"] else "-", label=label
            )
    axes.set(xlabel="trials", ylabel=SCORES[summary["select"]], title=summary["preset"])
    figure.legend(frameon=False, fontsize=8, loc="outside lower center", ncols=2)
    return figure


def _importance(summary: dict[str, Any]) -> Any:
    shares = dict(reversed(summary["importance"].items()))
    figure = new_figure(5, 0.8 + 0.25 * len(shares))
    axes = figure.add_subplot()
    axes.barh(list(shares), list(shares.values()), color=BLUE)
    first = summary["stages"][SEARCH]
    axes.set(xlabel=f"share of the variance of the score after epoch {first} (fANOVA)", title=summary["preset"])
    return figure


def _save_figure(figure: Any, path: Path) -> Path:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, metadata=PNG_MARK)
    atomic_write_bytes(path, buffer.getvalue())
    return path
