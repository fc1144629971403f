"""Training speed on this machine.

    python benchmarks/run.py --out benchmarks/results/h200.json      # on a GPU
    python benchmarks/run.py --out benchmarks/results/cpu2.json      # without one

Parts (``--only`` measures some again); every figure is kept in the file as soon as it is measured:

    paths       the naive loop, the reference path and the fast path, one run: seconds an epoch
    runs        GPU: ten seeds trained and evaluated whole
    own         GPU: a user's plain networks and loss term, by the reference and by recorded updates, one seed and ten
    kernels     what an update loses without each accelerated operation
    growth      milliseconds an update for minibatches of N images and, on a GPU, for S runs at once
    coskewness  the term and its gradient in three forms
    profile     GPU: the costliest kernels of an update

Machines are noisy: what is compared is measured in turn over several rounds (``--rounds``), each figure is the median
of its rounds, and the rounds are kept beside it (``…_rounds``).
"""

from __future__ import annotations

import argparse
import copy
import json
import logging
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import naive
import torch
from torch import nn

import dwmr
from dwmr import ops
from dwmr.data.collect import cached_world
from dwmr.evaluation.evaluate import evaluate_many
from dwmr.files import atomic_write_json
from dwmr.models.world_model import build_model, image_statistics
from dwmr.ops import coskewness
from dwmr.ops.capture import WARM_UPS, capture
from dwmr.ops.dispatch import without
from dwmr.provenance import describe_machine
from dwmr.training.objectives import OBJECTIVES

Figures = dict[str, Any]
ROUNDS = 5  # see --rounds
WORLDS = ("8puzzle", "iceslider")
WHOLE = ("8puzzle/dwmr", "iceslider/dwmr", "8puzzle/strong", "iceslider/strong")
# Which operations take part in the updates of which presets: on a GPU, on a CPU.
TAKING_PART = {
    "8puzzle/dwmr": (("conv_blocks", "coskewness"), ("conv_chain", "coskewness")),
    "iceslider/dwmr": (("conv2d", "batch_norm", "coskewness"), ("conv_chain", "coskewness")),
    "8puzzle/dwmr+ae": (("conv_blocks",), ("conv_chain",)),
    "iceslider/dwmr+ae": (("conv2d",), ("conv_chain",)),
    "8puzzle/strong": (("conv_blocks",), ()),
    "iceslider/strong": (("conv2d", "batch_norm"), ("conv_chain",)),
}
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ON_GPU = DEVICE.type == "cuda"


def data_of(world: str) -> dwmr.Splits:
    return dwmr.load_splits(cached_world(world))


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """The seconds that a call takes, and its result."""
    if ON_GPU:
        torch.cuda.synchronize()
    started = time.perf_counter()
    result = function()
    if ON_GPU:
        torch.cuda.synchronize()
    return time.perf_counter() - started, result


def in_turn(steps: dict[str, Callable[[], float]]) -> Figures:
    """The median of what each step returns over the rounds, one step after the other within a round."""
    rounds: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(ROUNDS):
        for name, step in steps.items():
            rounds[name].append(step())
    medians = {name: statistics.median(values) for name, values in rounds.items()}
    return medians | {f"{name}_rounds": values for name, values in rounds.items()}


def update_seconds(config: dwmr.Config, train: dwmr.Transitions, updates: int, runs: int = 1, **words: Any) -> float:
    """Seconds an update of some runs: two epochs over part of the data, of which the second counts."""
    part = train[: updates * config.batch_size]
    config = config.replace(epochs=max(2, -(-100 // updates)))  # long enough for a CPU to compile its kernels
    found = dwmr.train_many(config, train=part, seeds=range(runs), device=str(DEVICE), progress=False, **words)
    run = next(each for each in found if isinstance(each, dwmr.Run))
    return run.metrics[-1]["seconds"] / updates


def naive_update(world: str, updates: int) -> float:
    config, train = dwmr.preset(f"{world}/dwmr"), data_of(world).train
    model = build_model(config, train.image_shape, train.n_actions, decoder=False)
    if config.standardize:
        mean, std = image_statistics(train.obs[:2000])
        model.mean.copy_(mean)
        model.std.copy_(std)
    model.to(DEVICE)
    target = copy.deepcopy(model.encoder).eval()
    naive.train_updates(model, target, config, train, 2)
    return timed(lambda: naive.train_updates(model, target, config, train, updates))[0] / updates


def path_seconds(path: str, world: str) -> float:
    """Seconds an epoch of one run by one of the three paths."""
    config, train = dwmr.preset(f"{world}/dwmr"), data_of(world).train
    if path == "naive":
        seconds = naive_update(world, 60 if ON_GPU else 8)
    else:
        updates = 60 if ON_GPU or path == "fast" else 8
        seconds = update_seconds(config, train, updates, fast="auto" if path == "fast" else "off")
    return seconds * (len(train) // config.batch_size)


def in_its_own_process(path: str, world: str) -> float:
    """`path_seconds` as a user's process would see it: no path leaves settings or memory to another."""
    if ON_GPU:  # a process of its own would first have to record and compile
        return path_seconds(path, world)
    command = [sys.executable, __file__, "--measure", path, world]
    return float(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def paths() -> Iterator[Figures]:
    for world in WORLDS:
        epochs = dwmr.preset(f"{world}/dwmr").epochs
        found = in_turn({path: partial(in_its_own_process, path, world) for path in ("naive", "plain", "fast")})
        figures: Figures = {}
        for path in ("naive", "plain", "fast"):
            figures[f"{world}_{path}_seconds_per_epoch"] = found[path]
            figures[f"{world}_{path}_seconds_per_epoch_rounds"] = found[f"{path}_rounds"]
            figures[f"{world}_{path}_seconds_per_run"] = found[path] * epochs
        figures[f"{world}_epoch_speedup"] = found["naive"] / found["fast"]
        figures[f"{world}_plain_speedup"] = found["naive"] / found["plain"]
        yield figures


def runs() -> Iterator[Figures]:
    """Ten seeds trained and evaluated; a first short training before it bears the compilation."""
    for preset in WHOLE if ON_GPU else ():
        name, config, splits = preset.replace("/", "_"), dwmr.preset(preset), data_of(preset.split("/")[0])
        ten = partial(dwmr.train_many, seeds=range(10), progress=False)
        short = partial(ten, config.replace(epochs=1, cosine_from=0), train=splits.train[: 4 * config.batch_size])
        (first, _), (again, _) = timed(short), timed(short)
        training, results = timed(partial(ten, config, train=splits.train, val=splits.val))
        models = [result.model for result in results if isinstance(result, dwmr.Run)]
        evaluation, found = timed(partial(evaluate_many, models, train=splits.train, test=splits.test))
        figures: Figures = {
            f"{name}_seconds_per_run": (training + evaluation) / 10,
            f"{name}_training_seconds_per_run": training / 10,
            f"{name}_evaluation_seconds_per_run": evaluation / 10,
            f"{name}_compile_seconds": max(0.0, first - again),
            f"{name}_diverged": 10 - len(models),
        }
        for part in ("encoding", "imagination"):
            values = [each.figures[part]["f1"] for each in found]
            figures[f"{name}_{part}_f1"] = values
            figures[f"{name}_{part}_f1_mean"] = statistics.mean(values)
            figures[f"{name}_{part}_f1_std"] = statistics.stdev(values)
        yield figures


class OwnEncoder(nn.Module):
    """What a user would write first, without a thought of runs or kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Conv2d(3, 32, 4, stride=2, padding=1), nn.BatchNorm2d(32), nn.SiLU()),
            *(nn.Conv2d(32, 32, 4, stride=2, padding=1), nn.BatchNorm2d(32), nn.SiLU()),
            *(nn.Conv2d(32, 16, 4, stride=2, padding=1), nn.Flatten(), nn.Linear(1024, 96)),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images)


class OwnPredictor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(100, 256), nn.SiLU(), nn.Linear(256, 256), nn.SiLU(), nn.Linear(256, 96))

    def forward(self, codes: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        return codes + self.layers(torch.cat([codes, actions], dim=-1))


def few_ones(codes: Any, hyper: Any) -> torch.Tensor:
    return codes.probs.mean()


def own() -> Iterator[Figures]:
    """A user's plain networks and loss term: milliseconds an update and run."""
    if not ON_GPU:
        return
    config, train = dwmr.preset("generic/dwmr", high=10), data_of("iceslider").train
    updates = len(train) // config.batch_size
    words = {
        "encoder": OwnEncoder,
        "predictor": OwnPredictor,
        "objective": OBJECTIVES["dwmr"].adding("few_ones", few_ones, weight=0.1),
    }
    steps = {
        "own_reference_ms": lambda: 1e3 * update_seconds(config, train, updates, fast="off", **words),
        "own_recorded_ms": lambda: 1e3 * update_seconds(config, train, updates, **words),
        "own_ten_seeds_ms": lambda: 1e2 * update_seconds(config, train, updates, runs=10, **words),
    }
    figures = in_turn(steps)
    figures["own_speedup"] = figures["own_reference_ms"] / figures["own_recorded_ms"]
    figures["own_ten_seeds_speedup"] = figures["own_recorded_ms"] / figures["own_ten_seeds_ms"]
    yield figures


def kernels() -> Iterator[Figures]:
    """Milliseconds an update with all operations accelerated, and with all but one."""
    count, updates = (10, 40) if ON_GPU else (1, 24)
    for preset, operations in TAKING_PART.items():
        config, train = dwmr.preset(preset, cosine_from=0), data_of(preset.split("/")[0]).train

        def measure(left_out: str, config: Any = config, train: Any = train) -> float:
            with without(left_out):
                return 1e3 * update_seconds(config, train, updates, runs=count) / count

        name = f"{preset.replace('/', '_')}_update_ms"
        steps = {f"{name}_without_{each}": partial(measure, each) for each in operations[0 if ON_GPU else 1]}
        if steps:
            yield in_turn({name: partial(measure, ""), **steps})


def growth() -> Iterator[Figures]:
    for world in WORLDS:
        config, train = dwmr.preset(f"{world}/dwmr"), data_of(world).train
        for size in (64, 128, 256, 512):
            seconds = update_seconds(config.replace(batch_size=size), train, 52)
            yield {f"{world}_update_ms_n{size}": 1e3 * seconds}
        for count in (1, 2, 5, 10, 20) if ON_GPU else ():
            yield {f"{world}_update_ms_s{count}": 1e3 * update_seconds(config, train, 20, runs=count)}


def coskewness_forms() -> Iterator[Figures]:
    """Forward and backward of the term at N = 256: milliseconds."""
    forms = {"plain": coskewness.reference, "fast": coskewness.coskewness, "dense": naive.dense_coskewness}
    figures: Figures = {}
    largest = {"dense": 192, "plain": 512, "fast": 1024}
    for bits in (64, 128, 192, 512, 1024):
        repeats = 20 if ON_GPU else 5 if bits <= 192 else 1
        steps = {}
        for name, form in forms.items():
            if bits <= largest[name]:
                probs = torch.rand(256, bits, device=DEVICE, requires_grad=True)
                step = _recorded(partial(_forward_and_back, form, probs))
                steps[f"coskewness_{name}_k{bits}_ms"] = partial(_milliseconds, step, repeats)
        figures |= in_turn(steps)
    figures["coskewness_speedup_k192"] = figures["coskewness_dense_k192_ms"] / figures["coskewness_fast_k192_ms"]
    yield figures


def _forward_and_back(form: Callable[[torch.Tensor], torch.Tensor], probs: torch.Tensor) -> None:
    with ops.accelerated():
        torch.autograd.grad(form(probs), probs)


def _milliseconds(step: Callable[[], None], repeats: int) -> float:
    return 1e3 * timed(lambda: [step() for _ in range(repeats)])[0] / repeats


def _recorded(step: Callable[[], None]) -> Callable[[], None]:
    """On a GPU the step as a CUDA graph, so that kernels are timed and not their launches."""
    step()
    if not ON_GPU:
        return step
    return capture(step, list).replay


def profile() -> Iterator[Figures]:
    """Microseconds and launches of the costliest kernels of one update of ten runs."""
    updates = 20
    for preset in WHOLE if ON_GPU else ():
        config, train = dwmr.preset(preset, epochs=1, cosine_from=0), data_of(preset.split("/")[0]).train
        part = train[: updates * config.batch_size]
        train_ten = partial(dwmr.train_many, config, train=part, seeds=range(10), progress=False)
        train_ten()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiled:
            train_ten()
        found = [each for each in profiled.key_averages() if not each.key.startswith(("Memcpy", "Memset"))]
        found.sort(key=lambda each: each.device_time_total, reverse=True)
        times = updates + WARM_UPS  # warm-ups before the recording count too
        costliest = {
            each.key[:90]: [round(each.device_time_total / times, 1), round(each.count / times, 1)]
            for each in found[:24]
        }
        yield {f"{preset.replace('/', '_')}_profile": costliest}


PARTS: dict[str, Callable[[], Iterator[Figures]]] = {
    "paths": paths,
    "runs": runs,
    "own": own,
    "kernels": kernels,
    "growth": growth,
    "coskewness": coskewness_forms,
    "profile": profile,
}


def main() -> None:
    global ROUNDS
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--measure", nargs=2, metavar=("PATH", "WORLD"), help="print one path's seconds an epoch")
    chosen = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if chosen.measure:
        print(path_seconds(*chosen.measure))
        return
    if chosen.out is None:
        parser.error("--out says where the figures go")
    ROUNDS = chosen.rounds
    figures = json.loads(chosen.out.read_text()) if chosen.out.exists() else {}
    machine = describe_machine(DEVICE)
    if figures.setdefault("machine", machine) != machine:
        parser.error(f"{chosen.out} holds figures of another machine: {figures['machine']}")
    for name in chosen.only:
        for more in PARTS[name]():
            figures |= more
            atomic_write_json(chosen.out, figures)
            print(json.dumps({key: value for key, value in more.items() if isinstance(value, float)}), flush=True)


if __name__ == "__main__":
    main()
