"""What `dwmr distil` makes of strong models: the same runs judged before and after, on the test split.

    python experiments/distilled.py --out experiments/results/distilled.json

Models are cells of the strong table, ROW,COLUMN as for `dwmr reproduce strong --only`. Rounds and epochs were chosen on
the validation split (docs/log.md). What is in the results file already is not repeated.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import dwmr
from dwmr.data.collect import cached_benchmark
from dwmr.evaluation import examine_many
from dwmr.files import atomic_write_json
from dwmr.reproduce.runs import machine_words
from dwmr.reproduce.strong import STRONG, WIDE
from dwmr.world_model import WorldModel

CELLS = ["strong-late-looks,8puzzle-noisy", "strong,8puzzle-noisy", "strong,iceslider-noisy", "strong,8puzzle"]


def figures(models: list[WorldModel], data: dwmr.Splits, split: str) -> dict[str, list[float]]:
    """Every figure of the strong table, one value a model."""
    judged = data.test if split == "test" else data.val
    assert judged is not None
    found = [each.figures for each in examine_many(models, train=data.train, test=judged, rollout=data.rollout)]

    def value(entry: Any, path: tuple[str, ...]) -> Any:
        for name in path:
            entry = entry[name]
        return entry

    return {name: [value(entry, path) for entry in found] for name, path in WIDE.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", action="append", metavar="ROW,COLUMN", help=f"instead of {' and '.join(CELLS)}")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--split", choices=("test", "val"), default="test")
    parser.add_argument("--device", default="auto")
    chosen = parser.parse_args()
    for cell in STRONG.choose(chosen.only or CELLS):
        name = f"{cell.benchmark}/{cell.row.name}"
        results = json.loads(chosen.out.read_text()) if chosen.out.exists() else {}
        if name in results:
            continue
        config, seeds = cell.config, list(range(chosen.runs))
        data = dwmr.load_splits(cached_benchmark(cell.benchmark))
        runs = dwmr.train_many(config, train=data.train, seeds=seeds, device=chosen.device)
        seeds = [run.seed for run in runs if isinstance(run, dwmr.Run)]
        teachers = [run.model for run in runs if isinstance(run, dwmr.Run)]
        started, taught = time.perf_counter(), []
        for seed, model in zip(seeds, teachers):
            taught.append(dwmr.distil(model, data.train, rounds=chosen.rounds, epochs=chosen.epochs, seed=seed))
            print(name, seed, json.dumps(taught[-1].rounds[-1]), flush=True)
        results[name] = {
            "seeds": seeds,
            "rounds": chosen.rounds,
            "epochs": chosen.epochs,
            "split": chosen.split,
            "seconds_a_run": (time.perf_counter() - started) / len(teachers),
            "machine": machine_words(teachers[0].device),
            "before": figures(teachers, data, chosen.split),
            "after": figures([each.model for each in taught], data, chosen.split),
        }
        atomic_write_json(chosen.out, results)


if __name__ == "__main__":
    main()
