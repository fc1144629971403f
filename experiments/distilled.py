"""What `dwmr distil` makes of strong models: the same runs judged before and after, on the test split.

    python -m experiments.distilled

Models are cells of the strong table, ROW,COLUMN as for `dwmr reproduce strong --only`. Rounds and epochs were chosen on
the validation split (docs/log.md). Runs that are in the results file already are not repeated.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import dwmr
from dwmr.data.collect import cached_benchmark
from dwmr.evaluation.evaluate import evaluate_many
from dwmr.files import atomic_write_json
from dwmr.models.world_model import WorldModel
from dwmr.provenance import describe_machine
from experiments.reproduce.strong import STRONG, WIDE

CELLS = ["strong-late-looks,8puzzle-noisy", "strong,8puzzle-noisy", "strong-narrow-margin,iceslider-noisy"]
CELLS += ["strong,iceslider-noisy", "strong,8puzzle"]


def figures(models: list[WorldModel], data: dwmr.Splits, split: str) -> list[dict[str, float]]:
    """Every figure of the strong table, for each model."""
    judged = data.test if split == "test" else data.val
    assert judged is not None
    found = [each.figures for each in evaluate_many(models, train=data.train, test=judged, rollout=data.rollout)]

    def value(entry: Any, path: tuple[str, ...]) -> Any:
        for name in path:
            entry = entry[name]
        return entry

    return [{name: value(entry, path) for name, path in WIDE.items()} for entry in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("experiments/results/distilled.json"))
    parser.add_argument("--only", action="append", metavar="ROW,COLUMN", help=f"instead of {' and '.join(CELLS)}")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--split", choices=("test", "val"), default="test")
    parser.add_argument("--device", default="auto")
    chosen = parser.parse_args()
    for cell in STRONG.choose(chosen.only or CELLS):
        results = json.loads(chosen.out.read_text()) if chosen.out.exists() else {}
        manner = {name: getattr(chosen, name) for name in ("rounds", "epochs", "split")}
        entry = results.setdefault(f"{cell.benchmark}/{cell.row.name}", {**manner, "runs": {}})
        if any(entry[name] != value for name, value in manner.items()):
            parser.error(f"{chosen.out} has runs of {cell.title} with other rounds, epochs or split")
        missing = [seed for seed in range(chosen.runs) if str(seed) not in entry["runs"]]
        if not missing:
            continue
        data = dwmr.load_splits(cached_benchmark(cell.benchmark))
        for run in dwmr.train_many(cell.config, train=data.train, seeds=missing, device=chosen.device):
            if not isinstance(run, dwmr.Run):
                continue
            started = time.perf_counter()
            taught = dwmr.distil(run.model, data.train, rounds=chosen.rounds, epochs=chosen.epochs, seed=run.seed)
            seconds = time.perf_counter() - started
            before, after = figures([run.model, taught.model], data, chosen.split)
            machine = describe_machine(run.model.device)
            entry["runs"][str(run.seed)] = {"before": before, "after": after, "seconds": seconds, "machine": machine}
            atomic_write_json(chosen.out, results)
            print(cell.title, run.seed, json.dumps(taught.rounds[-1]), flush=True)


if __name__ == "__main__":
    main()
