"""Where the time of a GPU goes: seconds an epoch of many runs as one program, and its kernels.

    python benchmarks/kernels.py 8puzzle/dwmr 8puzzle/dwmr+ae iceslider/dwmr --out benchmarks/results/h200_kernels.json

Per preset: the kernels of one update by torch's profiler, and the seconds that an epoch of one run costs, from
trainings of one and of three epochs on all data.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch

import dwmr
from dwmr.data.collect import cached_world
from dwmr.files import atomic_write_json
from dwmr.provenance import describe_machine

UPDATES = 24


def kernels(config: dwmr.Config, train: dwmr.Transitions, runs: int, most: int) -> dict[str, Any]:
    """Microseconds and launches an update; recording the update, and copies to and from the GPU, are in them."""
    few = train[: UPDATES * config.batch_size]
    seeds = range(runs)
    dwmr.train_many(config, train=few, seeds=seeds, device="cuda", progress=False)  # compiles
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        dwmr.train_many(config, train=few, seeds=seeds, device="cuda", progress=False)
    took: Counter[str] = Counter()
    launches: Counter[str] = Counter()
    for event in profile.events():
        if event.device_type.name == "CUDA":
            took[event.name] += event.device_time
            launches[event.name] += 1
    parts = {
        name[:90]: {"us": round(took[name] / UPDATES, 1), "launches": round(launches[name] / UPDATES, 1)}
        for name, _ in took.most_common(most)
    }
    return {"us": round(took.total() / UPDATES, 1), "kernels": parts}


def seconds_an_epoch(config: dwmr.Config, train: dwmr.Transitions, runs: int) -> float:
    """Of one run of many, without what comes once a training."""
    took = []
    for epochs in (1, 3):
        started = time.perf_counter()
        dwmr.train_many(config.replace(epochs=epochs), train=train, seeds=range(runs), device="cuda", progress=False)
        torch.cuda.synchronize()
        took.append(time.perf_counter() - started)
    return (took[1] - took[0]) / 2 / runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("presets", nargs="+")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--most", type=int, default=20, help="kernels to name")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("there is no GPU here")
    found: dict[str, Any] = {"machine": describe_machine(torch.device("cuda")), "runs": chosen.runs}
    for name in chosen.presets:
        train = dwmr.load_splits(cached_world(name.split("/")[0])).train
        config = dwmr.preset(name, epochs=1)
        update = kernels(config, train, chosen.runs, chosen.most)
        found[name] = {"seconds_an_epoch": round(seconds_an_epoch(config, train, chosen.runs), 4), "update": update}
        print(f"{name}: {found[name]['seconds_an_epoch']} s an epoch of one of {chosen.runs} runs", flush=True)
        for kernel, each in update["kernels"].items():
            print(f"  {each['us']:8.1f} us x {each['launches']:6.1f}  {kernel}", flush=True)
        if chosen.out:
            atomic_write_json(chosen.out, found)


if __name__ == "__main__":
    main()
