"""More seeds for what a study confirmed: where a run fails now and then, three do not show how often.

    python experiments/confirm_again.py iceslider/dwmr --write-preset

A finished study's two best confirmed trials and its start values are trained whole with the same fresh seeds and judged
on the validation split. The highest mean imagination F1 is chosen; with --write-preset it becomes the preset. Results
go to ``STUDIES/again/benchmark/model.json``. What is there is not repeated.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import dwmr
from dwmr.data.collect import cached_benchmark
from dwmr.errors import TrainingDiverged
from dwmr.evaluation.evaluate import imagination_scores
from dwmr.files import atomic_write_json
from dwmr.models.world_model import resolve_device
from dwmr.presets import start_values
from dwmr.reproduce.runs import code_words, machine_words
from dwmr.tuning import write_preset
from dwmr.tuning.plan import derived_seed
from dwmr.tuning.spaces import options

BEST = 2  # trials, beside the start values
FIGURES = ("encoding", "imagination", "true_labels", "exact_next")


def candidates(study: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """The values, by option, of the trials that are compared."""
    best = sorted(study["confirmations"], key=lambda entry: -entry["mean"])
    start = next(entry["trial"] for entry in study["confirmations"] if entry["start"])
    wanted = [*[entry["trial"] for entry in best if entry["trial"] != start][:BEST], start]
    values = {trial["trial"]: options(trial["values"]) for trial in study["trials"]}
    return {trial: values[trial] for trial in wanted}


def judged(preset: str, compared: dict[int, dict[str, Any]], seeds: list[int], device: str) -> list[dict[str, Any]]:
    """Every trial with every seed; those of one structure are trained together."""
    data = dwmr.load_splits(cached_benchmark(preset.split("/")[0]))
    assert data.val is not None
    configs = {trial: start_values(preset).replace(**values) for trial, values in compared.items()}
    runs = []
    for structure in dict.fromkeys(config.structure() for config in configs.values()):
        rows = [(trial, seed) for trial in compared if configs[trial].structure() == structure for seed in seeds]
        results = dwmr.train_many(
            [configs[trial] for trial, _ in rows], train=data.train, seeds=[seed for _, seed in rows], device=device
        )
        models = [result.model for result in results if not isinstance(result, TrainingDiverged)]
        scores = iter(imagination_scores(models, train=data.train, test=data.val) if models else [])
        for (trial, seed), result in zip(rows, results):
            if isinstance(result, TrainingDiverged):
                found: dict[str, Any] = {"diverged": str(result)}
            else:
                figures = next(scores)
                found = {name: round(figures[name], 4) for name in FIGURES}
            runs.append({"trial": trial, "seed": seed, **found})
    return runs


def imaginations(runs: list[dict[str, Any]]) -> dict[int, list[float]]:
    """By trial; a run that diverged counts as 0."""
    trials = dict.fromkeys(run["trial"] for run in runs)
    return {trial: [run.get("imagination", 0.0) for run in runs if run["trial"] == trial] for trial in trials}


def chosen(runs: list[dict[str, Any]], compared: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """The trial with the highest mean."""
    scores = imaginations(runs)
    trial = max(scores, key=lambda trial: statistics.mean(scores[trial]))
    mean, std = statistics.mean(scores[trial]), statistics.stdev(scores[trial])
    return {"trial": trial, "mean": mean, "std": std, "values": compared[trial]}


def provenance(study: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """The study's, with these seeds and epochs; what its own seeds had chosen stands beside."""
    own, scores = study["provenance"], imaginations(found["runs"])
    start = next(entry["trial"] for entry in study["confirmations"] if entry["start"])
    epochs = start_values(study["preset"]).epochs
    return own | {
        "confirmed_with_seeds": found["seeds"],
        "start_values": statistics.mean(scores[start]),
        "run_epochs": own["run_epochs"] + len(found["runs"]) * epochs,
        "compared": list(scores),
        "study_confirmed": {
            "with_seeds": own["confirmed_with_seeds"],
            "start_values": own["start_values"],
            **{key: study["chosen"][key] for key in ("trial", "mean", "std")},
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset")
    parser.add_argument("--studies", type=Path, default=Path("experiments/studies"))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--write-preset", action="store_true")
    given = parser.parse_args()
    source, out = given.studies / f"{given.preset}.json", given.studies / "again" / f"{given.preset}.json"
    if not source.exists() or not (study := json.loads(source.read_text()))["finished"]:
        parser.error(f"there is no finished study {source}")
    if given.seeds < 2:
        parser.error("--seeds: a spread takes two at least")
    compared = candidates(study)
    if not out.exists():
        seeds = [derived_seed(study["provenance"]["study_seed"], "again", number) for number in range(given.seeds)]
        runs = judged(given.preset, compared, seeds, given.device)
        machine = machine_words(resolve_device(given.device))
        about = {"preset": given.preset, "seeds": seeds, "machine": machine, "code": code_words()}
        atomic_write_json(out, {**about, "chosen": chosen(runs, compared), "runs": runs})
    found = json.loads(out.read_text())
    for trial, each in imaginations(found["runs"]).items():
        print(f"trial {trial}: {statistics.mean(each):.2f}", flush=True)
    if given.write_preset:
        print(write_preset({**study, "chosen": found["chosen"], "provenance": provenance(study, found)}))


if __name__ == "__main__":
    main()
