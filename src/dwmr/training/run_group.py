"""Trains a group of runs that have the same epochs behind them: as one program, or side by side."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dwmr import progress as progress_bars
from dwmr.config import Config, Hyper
from dwmr.data.batches import EpochPlan, Loader, plan_epoch
from dwmr.data.transitions import Transitions
from dwmr.errors import TrainingDiverged
from dwmr.models.run_folder import save_epoch
from dwmr.training.epoch_records import failure_of, figures_of, log_tensorboard, one_line, warn_if_collapsed
from dwmr.training.epochs import EpochRunner, new_hyper
from dwmr.training.learner import Learner, RunState
from dwmr.training.objectives import Objective
from dwmr.training.schedules import values_at
from dwmr.training.schemes import SCHEMES, mixed_two_step

log = logging.getLogger("dwmr")

MIN_UPDATES_FOR_KERNELS = 100  # shorter runs on a CPU do not save the seconds that compiling the kernels takes


@dataclass
class Member:
    """A run in training: what it is, and how far it has come."""

    config: Config
    seed: int
    state: RunState
    lr: Tensor
    folder: Path | None
    done: int = 0
    metrics: list[dict[str, Any]] = field(default_factory=list)
    failure: TrainingDiverged | None = None
    board: Any = None


@dataclass(frozen=True)
class Job:
    """What all runs of one call share."""

    objective: Objective
    train: Transitions
    val: Transitions | None
    device: torch.device
    fast: bool
    progress: bool | None
    proceed: Callable[[int], bool] | None
    writer: Any


def _loader(job: Job, member: Member) -> Loader:
    config, model = member.config, member.state.model
    return Loader(
        job.train,
        job.device,
        model.normalize,
        dtype=model.mean.dtype,
        two_views=config.two_views,
        steps=config.steps,
    )


def _runner(job: Job, members: Sequence[Member], loader: Loader) -> EpochRunner:
    """One runner for these runs: their own modules if there is one, else all of them as one program."""
    config = members[0].config
    hyper = new_hyper(job.device, len(members))
    lr = hyper.lr
    if len(members) == 1:
        hyper = Hyper(**{**vars(hyper), "lr": members[0].lr})
        lr = members[0].lr
    scheme = SCHEMES[config.scheme]
    names = [member.config.scheme for member in members]
    if len(set(names)) > 1:
        scheme = mixed_two_step(torch.tensor([name == "two_step_st" for name in names], device=job.device))
    updates = config.epochs * (len(job.train) // config.batch_size)
    fast = job.fast and (job.device.type == "cuda" or updates >= MIN_UPDATES_FOR_KERNELS)
    learner = Learner(
        [member.state for member in members],
        job.objective,
        lr,  # type: ignore[arg-type]
        noisy_predictor=config.noisy_predictor,
    )
    return EpochRunner(learner, scheme, loader, hyper, fast=fast)


def _runners(
    job: Job, members: Sequence[Member], plans: Sequence[EpochPlan], values: Sequence[dict[str, float]]
) -> list[EpochRunner]:
    """Runners ready for `EpochRunner.start`: one for all runs if their networks allow it, else one for each."""
    loader = _loader(job, members[0])
    if len(members) > 1 and (together := _one_program(job, members, loader, plans, values)):
        return [together]
    runners = [_runner(job, [member], loader.sharing_data()) for member in members]
    for runner, plan, value in zip(runners, plans, values, strict=True):
        if runner.recorded:
            record_if_possible(runner, plan, value)
    return runners


def _one_program(
    job: Job,
    members: Sequence[Member],
    loader: Loader,
    plans: Sequence[EpochPlan],
    values: Sequence[dict[str, float]],
) -> EpochRunner | None:
    """One runner for all runs, or None if their networks or the objective do not allow it."""
    try:
        runner = _runner(job, members, loader)
        runner.start(plans, values)
        runner.prepare()
        return runner
    except Exception as error:  # a fault of the networks themselves is raised again by the runs alone
        log.info("training the runs side by side, because they cannot be one program: %s", error)
        return None


def record_if_possible(runner: EpochRunner, plan: EpochPlan, value: dict[str, float]) -> None:
    runner.start([plan], [value])
    try:
        runner.prepare()
    except RuntimeError as error:
        log.warning("training without recorded updates, which is slower, because recording one failed: %s", error)
        runner.recorded = False


def train_group(job: Job, members: list[Member]) -> None:
    """Train runs that have the same epochs behind them to the end, or until told not to proceed."""
    config, done = members[0].config, members[0].done
    names = list(job.objective.terms)
    updates = len(job.train) // config.batch_size
    who = f"seed {members[0].seed}" if len(members) == 1 else f"{len(members)} seeds"
    runners: list[EpochRunner] = []
    with ExitStack() as stack:
        for member in members:
            if job.writer and member.folder:
                member.board = stack.enter_context(job.writer(str(member.folder / "tensorboard")))
        bar = progress_bars.bar(f"{config.name} {who}", config.epochs * updates, done=done * updates, show=job.progress)
        shown = stack.enter_context(bar)
        ahead = stack.enter_context(ThreadPoolExecutor(1))
        drawn = ahead.submit(_plans, members, job, done)
        for epoch in range(done, config.epochs):
            if job.proceed is not None and not job.proceed(len(members)):
                return
            started = time.perf_counter()
            values = [values_at(member.config, epoch) for member in members]
            plans = drawn.result()
            drawn = ahead.submit(_plans, members, job, epoch + 1)  # while this epoch runs
            if not runners:
                runners = _runners(job, members, plans, values)
                log.info("%s", " and ".join(runner.description for runner in runners))
            _start(runners, plans, values)
            for _ in range(updates):
                for runner in runners:
                    runner.step()
                shown.advance(1)
            figures = [each for runner in runners for each in runner.figures()]
            agreed: Sequence[dict[str, float] | None] = [None] * len(members)
            if job.val is not None:
                agreed = [each for runner in runners for each in runner.agreement(job.val)]
            seconds = round(time.perf_counter() - started, 3)
            for member, value, figure, of_val in zip(members, values, figures, agreed, strict=True):
                if member.failure is None:
                    member.failure = failure_of(figure, names, epoch)
                if member.failure is None:
                    record = {"epoch": epoch + 1, "hyper": value, **figures_of(figure, names)}
                    record |= {"seconds": seconds} if of_val is None else {"val": of_val, "seconds": seconds}
                    _keep(member, record)
            alive = [member for member in members if member.failure is None]
            if not alive:
                return
            for member in alive:  # once all is saved, since a warning may be made an error
                warn_if_collapsed(member.metrics[-1], member.config.bits, updates * config.batch_size)
            shown.describe(one_line(alive[0].metrics[-1]))


def _start(runners: Sequence[EpochRunner], plans: Sequence[EpochPlan], values: Sequence[dict[str, float]]) -> None:
    first = 0
    for runner in runners:
        last = first + len(runner.learner.runs)
        runner.start(plans[first:last], values[first:last])
        first = last


def _plans(members: Sequence[Member], job: Job, epoch: int) -> list[EpochPlan]:
    """What is random in an epoch of each run."""
    return [
        plan_epoch(
            member.seed,
            epoch,
            len(job.train),
            member.config.batch_size,
            member.config.bits,
            noise=job.objective.noise,
            triplets=member.config.triplets,
        )
        for member in members
    ]


def _keep(member: Member, record: dict[str, Any]) -> None:
    """Save an epoch's record and checkpoint."""
    member.metrics.append(record)
    if member.folder is not None:
        save_epoch(member.folder, member.state.tensors(), record)
    if member.board is not None:
        log_tensorboard(member.board, record)
