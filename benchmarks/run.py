"""Training speed on this machine: the naive loop, the plain path and the fast path, side by side.

    python benchmarks/run.py --out benchmarks/results/h200.json      # on a GPU: whole runs of ten seeds
    python benchmarks/run.py --out benchmarks/results/cpu2.json      # without one: seconds an epoch

Seconds of the naive loop and of the plain path are extrapolated from some updates to whole runs; the fast path's ten
runs are trained and evaluated whole. Machines are noisy: what is compared is measured in turn over several rounds, each
figure is the median of its rounds, and the rounds themselves are kept beside it (``…_rounds``).
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import json
import logging
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import naive
import torch

import dwmr
from dwmr.data.collect import collect_world
from dwmr.evaluation.evaluate import evaluate_many
from dwmr.files import atomic_write_json, atomic_write_text, cache_folder
from dwmr.models.world_model import build_model, image_statistics
from dwmr.ops import coskewness as symmetric
from dwmr.ops import lanes
from dwmr.ops.capture import WARM_UPS
from dwmr.ops.native import library
from dwmr.training import losses

Figures = dict[str, Any]
ROUNDS = 5


def machine(device: torch.device) -> str:
    name = torch.cuda.get_device_name() if device.type == "cuda" else platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} CPU cores, Python {platform.python_version()}, torch {torch.__version__}"


def data_of(benchmark: str) -> dwmr.Splits:
    folder = cache_folder() / "data" / benchmark
    if not folder.exists():
        collect_world(benchmark, folder)
    return dwmr.load_splits(folder)


def timed(function: Callable[[], Any], device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    started = time.perf_counter()
    function()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started


def naive_epoch(preset: str, splits: dwmr.Splits, device: torch.device, updates: int) -> float:
    """Seconds an epoch of the naive loop, from some of its updates."""
    config, train = dwmr.preset(preset), splits.train
    model = build_model(config, train.image_shape, train.n_actions, decoder=False)
    if config.standardize:
        mean, std = image_statistics(train.obs[:2000])
        model.mean.copy_(mean)
        model.std.copy_(std)
    model.to(device)
    target = copy.deepcopy(model.encoder).eval()
    naive.train_updates(model, target, config, train, 2)
    seconds = timed(lambda: naive.train_updates(model, target, config, train, updates), device)
    return seconds / updates * (len(train) // config.batch_size)


def path_epoch(preset: str, splits: dwmr.Splits, device: torch.device, updates: int, fast: str) -> float:
    """Seconds an epoch of the plain or the fast path, one run: two epochs over part of the data, the second counts."""
    config = dwmr.preset(preset, epochs=2)
    part = splits.train[: updates * config.batch_size]
    run = dwmr.train(config, train=part, device=str(device), fast=fast, progress=False)
    return run.metrics[-1]["seconds"] / updates * (len(splits.train) // config.batch_size)


def epoch_seconds(path: str, benchmark: str, splits: dwmr.Splits, device: torch.device) -> float:
    """Seconds an epoch by one of the three paths."""
    on_gpu = device.type == "cuda"
    if path == "naive":
        return naive_epoch(f"{benchmark}/dwmr", splits, device, 60 if on_gpu else 8)
    # On the CPU enough updates for the fast path to compile its kernels, as it does in any real run.
    updates = 60 if on_gpu or path == "fast" else 8
    return path_epoch(f"{benchmark}/dwmr", splits, device, updates, "auto" if path == "fast" else "off")


def in_a_process_of_its_own(path: str, benchmark: str) -> float:
    """`epoch_seconds` as a user's process would see it: no path leaves its settings or its memory to another."""
    command = [sys.executable, __file__, "--measure", path, benchmark]
    return float(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def whole_runs(preset: str, splits: dwmr.Splits, device: torch.device, runs: int, out: Path | None) -> Figures:
    """Ten seeds trained and evaluated; a first short training before it bears the compilation."""
    name = preset.replace("/", "_")
    config = dwmr.preset(preset)
    short = dataclasses.replace(config, epochs=1)
    few = splits.train[: 4 * config.batch_size]
    assert splits.test is not None
    first = timed(lambda: dwmr.train_many(short, train=few, seeds=range(runs), progress=False), device)
    again = timed(lambda: dwmr.train_many(short, train=few, seeds=range(runs), progress=False), device)
    folders = None if out is None else [out / name / f"seed-{seed}" for seed in range(runs)]
    results: list[Any] = []
    training = timed(
        lambda: results.extend(
            dwmr.train_many(config, train=splits.train, val=splits.val, seeds=range(runs), outs=folders, progress=False)
        ),
        device,
    )
    models = [result.model for result in results if isinstance(result, dwmr.Run)]
    found: list[Any] = []
    probing = timed(lambda: found.extend(evaluate_many(models, train=splits.train, test=splits.test)), device)
    figures: Figures = {
        f"{name}_seconds_per_run": (training + probing) / runs,
        f"{name}_training_seconds_per_run": training / runs,
        f"{name}_evaluation_seconds_per_run": probing / runs,
        f"{name}_compile_seconds": max(0.0, first - again),
        f"{name}_diverged": runs - len(models),
    }
    for part in ("encoding", "imagination"):
        values = [each.figures[part]["f1"] for each in found]
        figures[f"{name}_{part}_f1"] = values
        figures[f"{name}_{part}_f1_mean"] = statistics.mean(values)
        figures[f"{name}_{part}_f1_std"] = statistics.stdev(values)
    return figures


def coskewness_forms(device: torch.device) -> Figures:
    """Forward and backward of the term at N = 256: milliseconds, and on a GPU the peak of extra memory in MB."""
    forms: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {"plain": losses.coskewness}
    if device.type == "cuda":
        from dwmr.ops import triton_coskewness

        forms["fast"] = triton_coskewness.coskewness
    else:
        forms["fast"] = symmetric.coskewness if library() is None else lanes.coskewness
    forms["dense"] = naive.dense_coskewness
    figures: Figures = {}
    largest = {"dense": 192, "plain": 512, "fast": 1024}
    for bits in (64, 128, 192, 512, 1024):
        known = [name for name in forms if bits <= largest[name]]
        steps: dict[str, Callable[[], None]] = {}
        for name in known:
            probs = torch.rand(256, bits, device=device, requires_grad=True)
            steps[name] = partial(_forward_and_back, forms[name], probs)
            steps[name]()
            if device.type == "cuda":
                steps[name], figures[f"coskewness_{name}_k{bits}_extra_mb"] = _captured(steps[name])
        repeats = 20 if device.type == "cuda" else 5 if bits <= 192 else 1
        rounds = _in_turn({name: partial(_repeat, step, repeats) for name, step in steps.items()}, device)
        for name, seconds in rounds.items():
            times = [each / repeats * 1e3 for each in seconds]
            figures[f"coskewness_{name}_k{bits}_ms"] = statistics.median(times)
            figures[f"coskewness_{name}_k{bits}_ms_rounds"] = times
    figures["coskewness_speedup_k192"] = figures["coskewness_dense_k192_ms"] / figures["coskewness_fast_k192_ms"]
    return figures


def _in_turn(steps: dict[str, Callable[[], None]], device: torch.device) -> dict[str, list[float]]:
    """Seconds of each step in each round, one step after the other within a round."""
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(ROUNDS):
        for name, step in steps.items():
            taken[name].append(timed(step, device))
    return taken


def _forward_and_back(form: Callable[[torch.Tensor], torch.Tensor], probs: torch.Tensor) -> None:
    torch.autograd.grad(form(probs), probs)


def _repeat(step: Callable[[], None], times: int) -> None:
    for _ in range(times):
        step()


def _captured(step: Callable[[], None]) -> tuple[Callable[[], None], float]:
    """The step as a CUDA graph, so that kernels are timed and not their launches; and its peak memory in MB."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    memory = (torch.cuda.max_memory_allocated() - before) / 2**20
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay, memory


def growth_with_samples(splits: dict[str, dwmr.Splits], device: torch.device) -> Figures:
    """Milliseconds an update of one run by the fast path, for minibatches of N images."""
    figures: Figures = {}
    for benchmark, data in splits.items():
        for size in (64, 128, 256, 512):
            config = dwmr.preset(f"{benchmark}/dwmr", epochs=2, batch_size=size)
            run = dwmr.train(config, train=data.train[: 52 * size], device=str(device), progress=False)
            figures[f"{benchmark}_update_ms_n{size}"] = run.metrics[-1]["seconds"] / 52 * 1e3
    return figures


def growth_with_runs(splits: dict[str, dwmr.Splits], device: torch.device) -> Figures:
    """Milliseconds an update of S runs at once."""
    figures: Figures = {}
    for benchmark, data in splits.items():
        config = dwmr.preset(f"{benchmark}/dwmr", epochs=2)
        part = data.train[: 20 * config.batch_size]
        for runs in (1, 2, 5, 10, 20):
            results = dwmr.train_many(config, train=part, seeds=range(runs), progress=False)
            seconds = next(result.metrics[-1]["seconds"] for result in results if isinstance(result, dwmr.Run))
            figures[f"{benchmark}_update_ms_s{runs}"] = seconds / 20 * 1e3
    return figures


def kernel_profile(splits: dict[str, dwmr.Splits], runs: int, updates: int = 20) -> str:
    """Where the time of an update of several runs goes on a GPU: its costliest kernels."""
    lines = [f"Kernels of one update of {runs} runs, by torch's profiler: microseconds, launches, name."]
    for benchmark, data in splits.items():
        config = dwmr.preset(f"{benchmark}/dwmr", epochs=1)
        part = data.train[: updates * config.batch_size]
        dwmr.train_many(config, train=part, seeds=range(runs), progress=False)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            dwmr.train_many(config, train=part, seeds=range(runs), progress=False)
        kernels = [each for each in profile.key_averages() if not each.key.startswith(("Memcpy", "Memset"))]
        kernels.sort(key=lambda each: each.device_time_total, reverse=True)
        times = updates + WARM_UPS  # the updates that were warm-ups for the capture count too
        lines += ["", f"{benchmark}/dwmr: {sum(each.device_time_total for each in kernels) / times:.0f} us in all"]
        lines += [
            f"{k.device_time_total / times:10.1f} us x {k.count / times:5.1f}  {k.key[:90]}" for k in kernels[:24]
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--measure", nargs=2, metavar=("PATH", "BENCHMARK"), help="print one path's seconds an epoch")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--decoders", action="store_true", help="also whole runs of the models with a decoder")
    chosen = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if chosen.measure:
        print(epoch_seconds(*chosen.measure, data_of(chosen.measure[1]), device))
        return
    if chosen.out is None:
        parser.error("--out says where the figures go")
    figures: Figures = {"machine": machine(device)}
    splits = {benchmark: data_of(benchmark) for benchmark in ("8puzzle", "iceslider")}

    def keep(more: Figures) -> None:
        figures.update(more)
        atomic_write_json(chosen.out, figures)
        print(json.dumps({name: value for name, value in more.items() if not isinstance(value, list)}), flush=True)

    keep(coskewness_forms(device))
    for benchmark, data in splits.items():
        epochs = dwmr.preset(f"{benchmark}/dwmr").epochs
        rounds: dict[str, list[float]] = {"naive": [], "plain": [], "fast": []}
        for _ in range(ROUNDS):
            for path, values in rounds.items():
                on_gpu = device.type == "cuda"  # a process of its own would first have to capture and compile
                values.append(
                    epoch_seconds(path, benchmark, data, device) if on_gpu else in_a_process_of_its_own(path, benchmark)
                )
        seconds = {path: statistics.median(values) for path, values in rounds.items()}
        for path, value in seconds.items():
            keep(
                {f"{benchmark}_{path}_seconds_per_epoch": value, f"{benchmark}_{path}_seconds_per_run": value * epochs}
            )
            keep({f"{benchmark}_{path}_seconds_per_epoch_rounds": rounds[path]})
        keep({f"{benchmark}_epoch_speedup": seconds["naive"] / seconds["fast"]})
        keep({f"{benchmark}_plain_speedup": seconds["naive"] / seconds["plain"]})
    keep(growth_with_samples(splits, device))
    if device.type == "cuda":
        keep(growth_with_runs(splits, device))
        models = ("dwmr", "dwmr+ae") if chosen.decoders else ("dwmr",)
        for model in models:
            for benchmark, data in splits.items():
                keep(whole_runs(f"{benchmark}/{model}", data, device, chosen.runs, None))
        atomic_write_text(chosen.out.with_name(f"{chosen.out.stem}_profile.txt"), kernel_profile(splits, chosen.runs))


if __name__ == "__main__":
    main()
