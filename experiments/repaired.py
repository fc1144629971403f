"""What repair at inference adds to the strong models on noisy frames: plain and repaired figures, test split.

    python -m experiments.repaired

For every run the figures of ``dwmr evaluate --repair``. Runs that are in the results file are not repeated. With
--models FOLDER, the models that `dwmr reproduce … --models FOLDER` kept are used.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import dwmr
from dwmr.data.collect import cached_world
from dwmr.evaluation.evaluate import evaluate_many
from dwmr.files import atomic_write_json
from dwmr.models.world_model import WorldModel
from dwmr.provenance import describe_machine
from experiments.reproduce.campaign import kept_or_trained

PRESETS = ("iceslider-noisy/strong", "8puzzle-noisy/strong")
BOARDS = {"": "f1", "true_f1_": "f1_true_labels", "board_": "board_accuracy"}  # named as in strong.json
CODES = ("exact_next", "same_code")


def figures(model: WorldModel, data: dwmr.Splits) -> dict[str, Any]:
    """Every figure, plain and repaired."""
    assert data.test is not None
    (judged,) = evaluate_many([model], train=data.train, test=data.test, repair=True)
    found = judged.figures
    both: dict[str, Any] = {"uses": found["repair"]["uses"]}
    for part in ("encoding", "imagination"):
        for ending in ("", "_repaired"):
            both |= {f"{name}{part}{ending}": found[part + ending][place] for name, place in BOARDS.items()}
    for name in CODES:
        both |= {name + ending: found["codes"][name + ending] for ending in ("", "_repaired")}
    return both


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("experiments/results/repaired.json"))
    parser.add_argument("--presets", default=",".join(PRESETS))
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--models", type=Path, help="run folders that `dwmr reproduce --models` kept")
    parser.add_argument("--device", default="auto")
    given = parser.parse_args()
    for preset in given.presets.split(","):
        data = dwmr.load_splits(cached_world(preset.split("/")[0]))
        for seed in range(given.runs):
            results = json.loads(given.out.read_text()) if given.out.exists() else {}
            entry = results.setdefault(preset, {"config": dwmr.preset(preset).to_dict(), "runs": {}})
            if entry["config"] != dwmr.preset(preset).to_dict():
                parser.error(f"{given.out} has runs of {preset} with other values; give them another name there")
            if str(seed) in entry["runs"]:
                continue
            model = kept_or_trained(preset, seed, data.train, given.device, given.models)
            found = figures(model, data) | {"machine": describe_machine(model.device)}
            entry["runs"][str(seed)] = found
            atomic_write_json(given.out, results)
            print(preset, seed, json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
