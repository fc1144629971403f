"""The faithful DWMR with its first start values: three seeds on each clean benchmark, judged once on the test split.

    python experiments/start_values.py

Every run is kept as it came out. Runs that are in the results file already are not repeated, so a stopped campaign
goes on where it was. The figures are those of ``dwmr evaluate --json``.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import multiprocessing
import platform
import statistics
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import torch

import dwmr
from dwmr.config import NO_CHANGE, Config
from dwmr.data.collect import cached_benchmark
from dwmr.files import atomic_write_json
from dwmr.presets import start_values

PRESETS = ("8puzzle/dwmr", "iceslider/dwmr")
SEEDS = (0, 1, 2)
# As they were before exploration moved them; every factor was 1.
FIRST: dict[str, dict[str, Any]] = {
    "8puzzle/dwmr": {"scheme": "two_step", "lr": 1e-3, "var": 2, "cor": 2, "cos": 2, "loc": 2}
    | {"gamma": 0.4, "low": 3, "high": 10, "tau": 0.9},
    "iceslider/dwmr": {"scheme": "two_step", "lr": 1e-3, "var": 2.3, "cor": 1.9, "cos": 3, "loc": 2}
    | {"gamma": 0.36, "low": 0, "high": 6, "tau": 0.95},
}


def first_start_values(preset: str) -> Config:
    return dataclasses.replace(start_values(preset).replace(**FIRST[preset]), factors=NO_CHANGE)


def one_run(preset: str, seed: int, device: str) -> dict[str, Any]:
    torch.set_num_threads(2)
    splits = dwmr.load_splits(cached_benchmark(preset.split("/")[0]))
    assert splits.test is not None
    started = time.perf_counter()
    config = first_start_values(preset)
    # The reference path, so that the figures do not move when the fast one does.
    run = dwmr.train(config, train=splits.train, val=splits.val, seed=seed, device=device, fast="off", progress=False)
    trained = time.perf_counter()
    figures = dwmr.evaluate(run.model, train=splits.train, test=splits.test, rollout=splits.rollout)
    return {
        "seed": seed,
        "train_seconds": round(trained - started, 1),
        "evaluation_seconds": round(time.perf_counter() - trained, 1),
        "last_epoch": run.metrics[-1],
        "figures": figures,
    }


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean and sample standard deviation of the paper's F1 over the runs."""
    found: dict[str, Any] = {"runs": len(runs)}
    for part in ("encoding", "imagination"):
        values = [run["figures"][part]["f1"] for run in runs]
        found[part] = {
            "f1": values,
            "mean": statistics.mean(values),
            "std": statistics.stdev(values) if len(values) > 1 else None,
        }
    return found


def machine(device: str) -> str:
    cuda = torch.cuda.get_device_name() if device != "cpu" and torch.cuda.is_available() else "CPU"
    return f"{cuda}, Python {platform.python_version()}, torch {torch.__version__}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("experiments/results/start_values.json"))
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side")
    parser.add_argument("--device", default="auto")
    chosen = parser.parse_args()

    results: dict[str, Any] = json.loads(chosen.out.read_text()) if chosen.out.exists() else {}
    missing = [
        (preset, seed)
        for preset in PRESETS
        for seed in SEEDS
        if seed not in [run["seed"] for run in results.get(preset, {}).get("each", [])]
    ]
    for preset in {preset for preset, _ in missing}:
        cached_benchmark(preset.split("/")[0])
    with ProcessPoolExecutor(chosen.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        pending = {pool.submit(one_run, preset, seed, chosen.device): preset for preset, seed in missing}
        for done in as_completed(pending):
            entry = results.setdefault(pending[done], {"each": []})
            entry["each"] = sorted([*entry["each"], done.result()], key=lambda run: run["seed"])
            entry["summary"] = summary(entry["each"])
            results["machine"] = machine(chosen.device)
            results["dwmr"] = dwmr.__version__
            atomic_write_json(chosen.out, results)
            print(pending[done], json.dumps(entry["summary"]), flush=True)


if __name__ == "__main__":
    main()
