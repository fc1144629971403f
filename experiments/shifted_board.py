"""What the grid prior is worth: strong models on boards that lie a few pixels off the grid they assume.

    python experiments/shifted_board.py

All frames of the benchmark, of training too, are moved down and right by so many pixels; what leaves the image is
lost, black comes in. For each distance the model with the grid encoder and the one without it are trained and judged on
the validation split. Distances that are in the results file already are not repeated.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import dwmr
from dwmr.data.collect import cached_benchmark
from dwmr.data.transitions import Transitions
from dwmr.evaluation.evaluate import imagination_scores
from dwmr.files import atomic_write_json
from dwmr.reproduce.catalog import find_table

ROWS = {"grid": "strong-grid", "no grid": "strong"}


def shifted(transitions: Transitions, pixels: int) -> Transitions:
    """The same transitions, every frame moved down and right."""
    return replace(transitions, obs=_moved(transitions.obs, pixels), next_obs=_moved(transitions.next_obs, pixels))


def _moved(images: np.ndarray, pixels: int) -> np.ndarray:
    result = np.zeros_like(images)
    if pixels == 0:
        result[:] = images
    else:
        result[..., pixels:, pixels:] = images[..., :-pixels, :-pixels]
    return result


def figures(benchmark: str, row: str, pixels: int, seeds: list[int], device: str) -> dict[str, Any]:
    data = dwmr.load_splits(cached_benchmark(benchmark))
    assert data.val is not None
    train, val = shifted(data.train, pixels), shifted(data.val, pixels)
    (cell,) = find_table("strong").choose([f"{ROWS[row]},{benchmark}"])
    runs = dwmr.train_many(cell.config, train=train, seeds=seeds, device=device)
    models = [run.model for run in runs if isinstance(run, dwmr.Run)]
    scores = imagination_scores(models, train=train, test=val) if models else []
    return {"epochs": cell.config.epochs, "seeds": seeds, "diverged": len(runs) - len(models), "validation": scores}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("experiments/results/shifted_board.json"))
    parser.add_argument("--benchmark", default="8puzzle")
    parser.add_argument("--pixels", default="0,2,4,7,14", help="distances, separated by commas")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="auto")
    chosen = parser.parse_args()
    results: dict[str, Any] = json.loads(chosen.out.read_text()) if chosen.out.exists() else {}
    for row in ROWS:
        for pixels in map(int, chosen.pixels.split(",")):
            entry = results.setdefault(chosen.benchmark, {}).setdefault(row, {})
            if str(pixels) not in entry:
                seeds = list(range(chosen.seeds))
                entry[str(pixels)] = figures(chosen.benchmark, row, pixels, seeds, chosen.device)
                atomic_write_json(chosen.out, results)
                print(row, pixels, json.dumps(entry[str(pixels)]), flush=True)


if __name__ == "__main__":
    main()
