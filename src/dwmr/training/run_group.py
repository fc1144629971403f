"""Trains a group of runs that have the same epochs behind them: as one program, or side by side."""

import dataclasses
import logging
import math
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from dwmr import progress as progress_bars
from dwmr.config import Config
from dwmr.data.batches import EpochPlan, Loader, plan_epoch
from dwmr.data.transitions import Transitions
from dwmr.errors import TrainingDiverged
from dwmr.models.run_folder import save_epoch
from dwmr.training.coded import GivenCodes, coded, normalize_codes
from dwmr.training.epochs import EpochFigures, EpochRunner, new_hyper
from dwmr.training.learner import Learner, RunState
from dwmr.training.objectives import Objective
from dwmr.training.schedules import values_at
from dwmr.training.schemes import SCHEMES, mixed_two_step

log = logging.getLogger("dwmr")

MIN_UPDATES_FOR_KERNELS = 100  # shorter runs on a CPU do not save the seconds that compiling the kernels takes
DEAD_MARGIN = 1e-3  # over an epoch, a bit that is 0 or 1 in all but a thousandth of the frames counts as dead


@dataclass
class Member:
    """A run in training: what it is, and how far it has come."""

    config: Config
    seed: int
    state: RunState
    folder: Path | None
    done: int = 0
    metrics: list[dict[str, Any]] = field(default_factory=list)
    failure: TrainingDiverged | None = None


@dataclass(frozen=True)
class Job:
    """What all runs of one call share."""

    objective: Objective
    train: Transitions
    val: Transitions | None
    device: torch.device
    fast: bool
    progress: bool | None


def _runner(
    job: Job, members: Sequence[Member], loader: Loader, *, codes: bool = False, pool: Any = None
) -> EpochRunner:
    """One runner for these runs: their own modules if there is one, else all of them as one program. ``codes``: the
    loader gives codes for images. ``pool``: see `EpochRunner`."""
    config, states = members[0].config, [member.state for member in members]
    hyper, scheme = new_hyper(job.device, len(members)), SCHEMES[config.scheme]
    if len(states) == 1:
        hyper = dataclasses.replace(hyper, lr=states[0].lr)
    if len({member.config.scheme for member in members}) > 1:
        straight = [member.config.scheme == "two_step_st" for member in members]
        scheme = mixed_two_step(torch.tensor(straight, device=job.device))
    updates = config.epochs * (len(job.train) // config.batch_size)
    fast = job.fast and (job.device.type == "cuda" or updates >= MIN_UPDATES_FOR_KERNELS)
    learner = Learner(states, job.objective, torch.as_tensor(hyper.lr))
    if codes:
        learner.networks |= dict.fromkeys(("encoder", "target"), GivenCodes().to(job.device))
    return EpochRunner(learner, scheme, loader, hyper, fast=fast, codes=codes, pool=pool)


def _runners(
    job: Job, members: Sequence[Member], plans: Sequence[EpochPlan], values: Sequence[dict[str, float]]
) -> list[EpochRunner]:
    """Runners ready for `EpochRunner.start`: one for all runs if their networks allow it, else one for each."""
    config, model = members[0].config, members[0].state.model
    views, steps, dtype = config.two_views, config.steps, model.mean.dtype
    pool = torch.cuda.graph_pool_handle() if job.device.type == "cuda" else None
    if config.scheme == "predictor_alone":  # every run has finished codes of its own
        runners = [
            _runner(
                job,
                [each],
                Loader(coded(each.state.model, job.train), job.device, normalize_codes),
                codes=True,
                pool=pool,
            )
            for each in members
        ]
    else:
        loader = Loader(job.train, job.device, model.normalize, dtype=dtype, two_views=views, steps=steps)
        if len(members) > 1:
            try:
                together = _runner(job, members, loader)
                together.start(plans, values)
                together.prepare()
                return [together]
            except Exception as error:  # a fault of the networks themselves is raised again by the runs alone
                log.info("training the runs side by side, because they cannot be one program: %s", str(error))
                for member in members:
                    member.state.own_memory()
        runners = [_runner(job, [member], loader.sharing_data(), pool=pool) for member in members]
    for runner, plan, value in zip(runners, plans, values, strict=True):
        if runner.recorded:
            record_if_possible(runner, plan, value)
    return runners


def record_if_possible(runner: EpochRunner, plan: EpochPlan, value: dict[str, float]) -> None:
    runner.start([plan], [value])
    try:
        runner.prepare()
    except RuntimeError as error:
        log.warning("training without recorded updates, which is slower, because recording one failed: %s", str(error))
        runner.recorded, runner.stream = False, None  # a failed recording may have broken the stream


def train_group(job: Job, members: list[Member]) -> None:
    """Train runs that have the same epochs behind them to the end."""
    config, done = members[0].config, members[0].done
    names = list(job.objective.terms)
    updates = len(job.train) // config.batch_size
    who = f"seed {members[0].seed}" if len(members) == 1 else f"{len(members)} seeds"
    runners: list[EpochRunner] = []
    bar = progress_bars.bar(f"{config.name} {who}", config.epochs * updates, done=done * updates, show=job.progress)
    with bar as shown, ThreadPoolExecutor(1) as ahead:
        drawn = ahead.submit(_plans, members, job, done)
        for epoch in range(done, config.epochs):
            started = time.perf_counter()
            values = [values_at(member.config, epoch) for member in members]
            plans = drawn.result()
            drawn = ahead.submit(_plans, members, job, epoch + 1)  # while this epoch runs
            if not runners:
                runners = _runners(job, members, plans, values)
                how = "recorded" if runners[0].recorded else "accelerated" if runners[0].fast else "plain"
                log.info("%s: %s updates on %s", who, how, job.device.type)
            size = len(members) // len(runners)
            for first, runner in zip(range(0, len(members), size), runners, strict=True):
                runner.start(plans[first : first + size], values[first : first + size])
            for _ in range(updates):
                for runner in runners:
                    runner.step()
                shown.advance(1)
            figures = [each for runner in runners for each in runner.figures()]
            of_val: list[dict[str, Any]] = [{}] * len(members)
            if job.val is not None:
                of_val = [{"val": each} for runner in runners for each in runner.agreement(job.val)]
            seconds = {"seconds": round(time.perf_counter() - started, 3)}
            for member, value, figure, on_val in zip(members, values, figures, of_val, strict=True):
                member.failure = member.failure or failure_of(figure, names, epoch)
                if member.failure is None:
                    record = {"epoch": epoch + 1, "hyper": value, **figures_of(figure, names), **on_val, **seconds}
                    member.metrics.append(record)
                    if member.folder is not None:
                        save_epoch(member.folder, member.state.tensors(), record)
            alive = [member for member in members if member.failure is None]
            if not alive:
                return
            for member in alive if not runners[0].codes else ():  # once all is saved: a warning may be made an error
                warn_if_collapsed(member.metrics[-1], member.config.bits, updates * config.batch_size)
            shown.describe(one_line(alive[0].metrics[-1]))


def _plans(members: Sequence[Member], job: Job, epoch: int) -> list[EpochPlan]:
    """What is random in an epoch of each run."""
    config, noise = members[0].config, job.objective.noise
    sizes = len(job.train), config.batch_size, config.bits
    return [plan_epoch(member.seed, epoch, *sizes, noise=noise, triplets=config.triplets) for member in members]


def figures_of(figures: EpochFigures, names: list[str]) -> dict[str, Any]:
    ones = figures.ones
    dead = ((ones < DEAD_MARGIN) | (ones > 1 - DEAD_MARGIN)).sum()
    return {
        "terms": dict(zip(names, figures.terms.double().mean(0).tolist())),
        "bits": {"dead": int(dead), "ones": float(ones.mean()), "flips": figures.flips},
    }


def failure_of(figures: EpochFigures, names: list[str], epoch: int) -> TrainingDiverged | None:
    """What went wrong in an epoch, if anything did: the first term that was not a finite number."""
    broken = ~torch.isfinite(figures.terms)
    if bool(broken.any()):
        update = int(broken.any(1).nonzero()[0])
        first = " and ".join(repr(names[i]) for i in broken[update].nonzero().flatten().tolist())
        what = f"the loss term {first} is not a finite number since update {update + 1} of epoch {epoch + 1}"
    elif not figures.finite:
        what = f"a weight is not a finite number after epoch {epoch + 1}"
    else:
        return None
    return TrainingDiverged(f"{what}; what was saved after epoch {epoch} is kept")


def warn_if_collapsed(record: dict[str, Any], bits: int, frames: int) -> None:
    """Warn if the bits that change are too few to tell the frames of an epoch apart, however they are used.

    Many constant bits alone are no collapse: with few levels, the cells that look alike in all of them have constant
    bits in a healthy code too.
    """
    alive = bits - record["bits"]["dead"]
    if alive < bits / 2 and alive < math.log2(frames):
        warnings.warn(
            f"only {alive} of {bits} bits changed in epoch {record['epoch']}, too few for {frames} frames: the code is "
            f"collapsing; stronger var and cor weights, or a smaller lr, may help",
            RuntimeWarning,
            stacklevel=3,
        )


def one_line(record: dict[str, Any]) -> str:
    terms = " ".join(f"{name} {value:.3f}" for name, value in record["terms"].items())
    health = f"dead {record['bits']['dead']} flips {record['bits']['flips']:.1f}"
    exact = f" exact {record['val']['exact_next']:.1f}%" if "val" in record else ""
    return f"{terms} · {health}{exact}"
