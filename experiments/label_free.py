"""What choosing hyperparameters without labels would have cost, read from the studies that chose with them.

    python experiments/label_free.py

At every rung of a finished study both figures are known of the same trials: the validation F1 of imagination, which
needs labels, and `shared`, the independent directions that predicted and encoded next codes have in common, which does
not. The cost is the F1 of the best trial less that of the trial with the largest `shared`. Of strong models there is no
study; there the same is asked of settings that were tried with several seeds each (`exploration.json`).
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from scipy.stats import spearmanr

from dwmr.files import atomic_write_json

LABELS, WITHOUT = "imagination", "shared"
ROUND = (
    "round 14: the preset of then with agreement and rates that fall later (settings by number), six fresh seeds each"
)


def compare(scores: list[dict[str, float]]) -> dict[str, Any]:
    """Both choices among trials that were trained equally long, and how alike the figures rank them."""
    best, chosen = (max(scores, key=lambda score: score[name])[LABELS] for name in (LABELS, WITHOUT))
    alike = spearmanr([score[LABELS] for score in scores], [score[WITHOUT] for score in scores]).statistic
    return {
        "trials": len(scores),
        "best": round(best, 2),
        "chosen_without_labels": round(chosen, 2),
        "cost": round(best - chosen, 2),
        "rank_correlation": round(float(alike), 3),
    }


def of_study(study: dict[str, Any]) -> dict[str, Any]:
    rungs: dict[str, list[dict[str, float]]] = {}
    for trial in study["trials"]:
        for epoch, score in trial["scores"].items():
            rungs.setdefault(epoch, []).append(score)
    found = {f"epoch {epoch}": compare(rungs[epoch]) for epoch in sorted(rungs, key=int)}
    means = [mean(entry["scores"]) for entry in study["confirmations"] if all(entry["scores"])]
    return found | {"confirmed, mean of three seeds": compare(means)}


def mean(scores: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.fmean(score[name] for score in scores) for name in (LABELS, WITHOUT)}


def of_settings(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Both choices among settings, each by its mean over the seeds."""
    by_setting: dict[int, list[dict[str, float]]] = {}
    for run in runs:
        by_setting.setdefault(run["set"], []).append(run["validation"])
    return compare([mean(scores) for scores in by_setting.values()])


def _knows(study: dict[str, Any]) -> bool:
    """The first studies did not record the figure without labels."""
    return all(WITHOUT in score for trial in study["trials"] for score in trial["scores"].values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=Path, default=Path("experiments/studies"))
    parser.add_argument("--exploration", type=Path, default=Path("experiments/results/exploration.json"))
    parser.add_argument("--out", type=Path, default=Path("experiments/results/label_free.json"))
    chosen = parser.parse_args()
    studies = {path: json.loads(path.read_text()) for path in sorted(chosen.studies.glob("*/*.json"))}
    found = {study["preset"]: of_study(study) for study in studies.values() if study["finished"] and _knows(study)}
    strong = "8puzzle-noisy/strong"
    explored = json.loads(chosen.exploration.read_text(encoding="utf-8"))[strong][ROUND]["runs"]
    settings = {strong: of_settings(explored)}
    atomic_write_json(chosen.out, {"studies": found, "settings": settings})
    for name, last in ({name: list(rungs.values())[-1] for name, rungs in found.items()} | settings).items():
        print(f"{name}: {last['chosen_without_labels']} without labels, {last['best']} with them")


if __name__ == "__main__":
    main()
