"""Training: owns the epochs, the schedules, the metrics; knows no loss and no algorithm."""

from __future__ import annotations

import logging
import operator
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from dwmr import progress as progress_bars
from dwmr.config import Config, Hyper
from dwmr.data.batches import EpochPlan, Loader, plan_epoch, second_looks
from dwmr.data.transitions import Transitions
from dwmr.errors import InputError, TrainingDiverged, unknown
from dwmr.models.checkpoint import info_of
from dwmr.models.decoders import DECODERS
from dwmr.models.encoders import CELLS, ENCODERS
from dwmr.models.predictors import PREDICTORS
from dwmr.models.world_model import WorldModel, build_model, image_statistics, resolve_device
from dwmr.ops.cpu import quicken
from dwmr.ops.stacked import can_stack
from dwmr.ops.stacked_engine import StackedEngine
from dwmr.ops.terms import fast_objective
from dwmr.training.engine import Engine, PlainEngine, new_hyper
from dwmr.training.objectives import OBJECTIVES, Objective, objective_of, shared_objective
from dwmr.training.records import (
    failure_of,
    figures_of,
    log_tensorboard,
    one_line,
    tensorboard_writer,
    warn_if_collapsed,
)
from dwmr.training.run_folder import open_folder, save_epoch
from dwmr.training.schedules import values_at
from dwmr.training.schemes import SCHEMES, Learner, mixed_two_step
from dwmr.training.slow_features import start_slowly

log = logging.getLogger("dwmr")


@dataclass(frozen=True)
class Run:
    """A finished training: the model, what it was made from, and one record an epoch."""

    model: WorldModel
    config: Config
    seed: int
    path: Path | None
    metrics: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class _Member:
    """A run in training: what it is, and how far it has come."""

    config: Config
    seed: int
    learner: Learner
    hyper: Hyper
    folder: Path | None
    done: int = 0
    metrics: list[dict[str, Any]] = field(default_factory=list)
    failure: TrainingDiverged | None = None
    board: Any = None


def train(
    config: Config,
    *,
    train: Transitions,
    val: Transitions | None = None,
    out: str | Path | None = None,
    seed: int = 0,
    device: str = "auto",
    resume: bool = False,
    encoder: nn.Module | None = None,
    predictor: nn.Module | None = None,
    decoder: nn.Module | None = None,
    objective: Objective | None = None,
    fast: str = "auto",
    tensorboard: bool = False,
    progress: bool | None = None,
) -> Run:
    """Train a world model and leave a run folder at ``out`` (None: nothing is written).

    ``val`` adds label-free figures of each epoch. ``resume`` goes on from the folder's last checkpoint, if there is
    one. Networks of one's own return logits: ``encoder(images) -> (N, K)``,
    ``predictor(codes, one_hot_actions) -> (N, K)``; a decoder returns normalised images. ``objective`` replaces the
    loss terms of ``config.model``. ``fast="off"`` takes the plain path.

    Raises:
        InputError: the data, the configuration or the folder is unfit; nothing was changed.
        TrainingDiverged: a loss term became NaN or infinite; the last good checkpoint is kept.
    """
    modules = {"encoder": encoder, "predictor": predictor, "decoder": decoder}
    (result,) = _train_all(
        [config],
        [seed],
        [out],
        train,
        val,
        device=device,
        resume=resume,
        own={role: module for role, module in modules.items() if module is not None},
        objective=objective,
        fast=fast,
        tensorboard=tensorboard,
        progress=progress,
    )
    if isinstance(result, TrainingDiverged):
        raise result
    return result


def train_many(
    config: Config | Sequence[Config],
    *,
    train: Transitions,
    seeds: Sequence[int],
    val: Transitions | None = None,
    outs: Sequence[str | Path | None] | None = None,
    device: str = "auto",
    resume: bool = False,
    fast: str = "auto",
    tensorboard: bool = False,
    progress: bool | None = None,
    proceed: Callable[[int], bool] | None = None,
) -> list[Run | TrainingDiverged]:
    """Train several runs on the same data: one configuration, or one for each seed.

    Configurations may differ in hyperparameters, schedules and kind of two-step scheme, not in networks, objective or
    length. On a GPU all runs are one program. Each result is what `train` would have given; a run that diverges is
    reported in its place and harms no other. ``proceed(runs)`` is asked before each epoch of so many runs; where it
    says no, they end there, and their folders can be resumed.
    """
    configs = [config] * len(seeds) if isinstance(config, Config) else list(config)
    folders = list(outs) if outs is not None else [None] * len(seeds)
    if not (len(configs) == len(seeds) == len(folders)) or not configs:
        raise InputError(f"got {len(configs)} configurations and {len(folders)} folders for {len(seeds)} seeds")
    shapes = {each.structure() for each in configs}
    if len(shapes) > 1:
        raise InputError("runs trained together must share networks, objective, scheme, epochs and batch size")
    return _train_all(
        configs,
        list(seeds),
        folders,
        train,
        val,
        device=device,
        resume=resume,
        own={},
        objective=None,
        fast=fast,
        tensorboard=tensorboard,
        progress=progress,
        proceed=proceed,
    )


def _train_all(
    configs: list[Config],
    seeds: list[int],
    outs: list[str | Path | None] | list[None],
    train: Transitions,
    val: Transitions | None,
    *,
    device: str,
    resume: bool,
    own: dict[str, nn.Module],
    objective: Objective | None,
    fast: str,
    tensorboard: bool,
    progress: bool | None,
    proceed: Callable[[int], bool] | None = None,
) -> list[Run | TrainingDiverged]:
    where = resolve_device(device)
    configs = [_with_own_parts(config, own, train) for config in configs]
    check_choices(configs[0], objective, tensorboard=tensorboard, fast=fast)
    if tensorboard and None in outs:
        raise InputError("TensorBoard logging needs a run folder")
    taken = [out for out in outs if out is not None and Path(out).exists()]
    if taken and not resume:
        raise FileExistsError(f"{taken[0]} exists already; resume it, or choose another folder")
    seeds = [operator.index(seed) for seed in seeds]
    writer = tensorboard_writer() if tensorboard else None
    cells = CELLS[configs[0].encoder](train.image_shape) if configs[0].by_cell else 1
    family = objective or shared_objective(configs, cells)
    _check_data(configs[0], train, val)
    # Several runs become one program on a GPU; there the learners only keep what is saved, in the CPU's memory.
    ours = not own and objective is None
    together = where.type == "cuda" and fast == "auto" and ours and _stackable(configs[0], family, train)
    home = torch.device("cpu") if together else where
    own_parts = tuple(own) + (("objective",) if objective else ())
    statistics = image_statistics(train.obs) if configs[0].standardize else None
    data, members = train.fingerprint(), []
    for config, seed, out in zip(configs, seeds, outs):
        model = build_model(config, train.image_shape, train.n_actions, decoder=family.decoder, seed=seed, modules=own)
        if statistics is not None:
            model.mean.copy_(statistics[0])
            model.std.copy_(statistics[1])
        if config.slow_start and not (out is not None and Path(out).exists()):
            start_slowly(model.to(where), train)
        model.to(home)
        hyper = new_hyper(home)
        learner = Learner(model, family, hyper.lr, noisy_predictor=config.noisy_predictor)  # type: ignore[arg-type]
        member = _Member(config, seed, learner, hyper, None if out is None else Path(out))
        if member.folder is not None:
            info = info_of(config, seed, train, decoder=family.decoder, own_parts=own_parts, data=data)
            member.done, member.metrics = open_folder(member.folder, info, learner, resume)
        members.append(member)

    # Runs that were stopped at the same epoch go on together.
    for done in sorted({member.done for member in members}):
        group = [member for member in members if member.done == done]
        for batch in [group] if together else [[member] for member in group]:
            if done < batch[0].config.epochs:
                _train_group(batch, family, train, val, where, fast, together, writer, progress, proceed)
    for member in members:
        member.learner.model.to(where).eval()
    return [
        member.failure or Run(member.learner.model, member.config, member.seed, member.folder, member.metrics)
        for member in members
    ]


def _engine(
    members: list[_Member],
    family: Objective,
    train: Transitions,
    where: torch.device,
    fast: str,
    together: bool,
) -> Engine:
    scheme = SCHEMES[members[0].config.scheme]
    if together:
        names = [member.config.scheme for member in members]
        if len(set(names)) > 1:
            scheme = mixed_two_step(torch.tensor([name == "two_step_st" for name in names], device=where))
        learners, config = [member.learner for member in members], members[0].config
        return StackedEngine(learners, family, scheme, train, where, config.two_views, config.steps)
    (member,) = members
    member.learner.model.to(where)
    path = "the plain path"
    if fast == "auto" and where.type == "cpu":
        path = quicken(member.learner, family, member.config.epochs * (len(train) // member.config.batch_size))
    elif fast == "auto":
        member.learner.objective, path = fast_objective(family, where), "quick terms, eager updates"
    loader = Loader(train, where, member.config.two_views, member.config.steps)
    return PlainEngine(member.learner, member.hyper, scheme, loader, f"one run on {where.type}: {path}")


def _train_group(
    members: list[_Member],
    family: Objective,
    train: Transitions,
    val: Transitions | None,
    where: torch.device,
    fast: str,
    together: bool,
    writer: Any,
    progress: bool | None,
    proceed: Callable[[int], bool] | None,
) -> None:
    """Train runs that have the same epochs behind them to the end, or until told not to proceed."""
    config, done = members[0].config, members[0].done
    engine = _engine(members, family, train, where, fast, together)
    log.info("%s", engine.description)
    names = list(family.terms)
    updates = len(train) // config.batch_size
    who = f"seed {members[0].seed}" if len(members) == 1 else f"{len(members)} seeds"
    with ExitStack() as stack:
        for member in members:
            if writer and member.folder:
                member.board = stack.enter_context(writer(str(member.folder / "tensorboard")))
        bar = progress_bars.bar(f"{config.name} {who}", config.epochs * updates, done=done * updates, show=progress)
        shown = stack.enter_context(bar)
        stack.callback(engine.settle)
        ahead = stack.enter_context(ThreadPoolExecutor(1))
        drawn = ahead.submit(_plans, members, family, done, len(train))
        for epoch in range(done, config.epochs):
            if proceed is not None and not proceed(len(members)):
                return
            started = time.perf_counter()
            values = [values_at(member.config, epoch) for member in members]
            plans = drawn.result()
            drawn = ahead.submit(_plans, members, family, epoch + 1, len(train))  # while this epoch runs
            figures = engine.run_epoch(plans, values, shown.advance)
            agreement = engine.agreement(val) if val is not None else [None] * len(members)
            if any(member.folder for member in members):
                engine.settle()
            seconds = round(time.perf_counter() - started, 3)
            for member, value, figure, agreed in zip(members, values, figures, agreement):
                if member.failure is None:
                    member.failure = failure_of(figure, names, epoch)
                if member.failure is None:
                    record = {"epoch": epoch + 1, "hyper": value, **figures_of(figure, names)}
                    record |= {"seconds": seconds} if agreed is None else {"val": agreed, "seconds": seconds}
                    _keep(member, record)
            alive = [member for member in members if member.failure is None]
            if not alive:
                return
            shown.describe(one_line(alive[0].metrics[-1]))


def _stackable(config: Config, family: Objective, train: Transitions) -> bool:
    model = build_model(config, train.image_shape, train.n_actions, decoder=family.decoder)
    return all(can_stack(network) for network in (model.encoder, model.predictor, model.decoder))


def _plans(members: list[_Member], family: Objective, epoch: int, count: int) -> list[EpochPlan]:
    """What is random in an epoch of each run."""
    return [
        plan_epoch(
            member.seed,
            epoch,
            count,
            member.config.batch_size,
            member.config.bits,
            noise=family.noise,
            triplets=member.config.triplets,
        )
        for member in members
    ]


def _keep(member: _Member, record: dict[str, Any]) -> None:
    """An epoch's record and checkpoint, on disk and wherever else it is wanted."""
    member.metrics.append(record)
    if member.folder is not None:
        save_epoch(member.folder, member.learner, record)
    if member.board is not None:
        log_tensorboard(member.board, record)
    warn_if_collapsed(record, member.config.bits)  # once all is saved, since a warning may be made an error


def check_choices(
    config: Config, objective: Objective | None = None, *, tensorboard: bool = False, fast: str = "auto"
) -> None:
    """Refuse what can be refused before any data is there: unknown names, a scheme that does not fit the model."""
    if objective is None and config.model not in OBJECTIVES:
        raise unknown("model", config.model, OBJECTIVES)
    if config.scheme not in SCHEMES:
        raise unknown("scheme", config.scheme, SCHEMES)
    for role, builders in (("encoder", ENCODERS), ("predictor", PREDICTORS), ("decoder", DECODERS)):
        name = getattr(config, role)
        if name not in builders and name != "custom":
            raise unknown(role, name, builders)
    if config.by_cell and config.encoder not in CELLS:
        raise InputError(f"by_cell needs an encoder with a grid ({', '.join(CELLS)}), not {config.encoder!r}")
    family = objective or objective_of(config)
    if (family.scheme or config.scheme) != config.scheme:
        raise InputError(f"{config.model} is trained with the scheme {family.scheme!r}, not {config.scheme!r}")
    if config.steps > 1 and "later" not in family.terms:
        raise InputError("steps needs an objective with the term 'later', as objectives.objective_of gives it")
    if config.scheme == "joint" and family.noise:
        raise InputError("the scheme 'joint' knows no noise; it is DeepCubeAI's")
    if fast not in ("auto", "off"):
        raise InputError(f"fast must be 'auto' or 'off', got {fast!r}")
    if tensorboard:
        tensorboard_writer()


def _with_own_parts(config: Config, own: dict[str, nn.Module], train: Transitions) -> Config:
    """The configuration that says which networks are the user's, with K as their encoder has it."""
    values: dict[str, Any] = dict.fromkeys(own, "custom")
    if "encoder" in own:
        encoder = own["encoder"]
        was_training = encoder.training
        with torch.no_grad():
            code = encoder.eval()(torch.zeros(2, *train.image_shape))
        encoder.train(was_training)
        if code.ndim != 2 or len(code) != 2:
            raise InputError(f"the encoder must return logits (N, K), got shape {tuple(code.shape)} for N = 2")
        values["bits"] = code.shape[1]
    return config.replace(**values)


def _check_data(config: Config, train: Transitions, val: Transitions | None) -> None:
    if config.two_views or config.steps > 1:
        second_looks(train)  # refuses data without episodes
    if len(train) < config.batch_size:
        raise InputError(
            f"{len(train)} transitions do not fill one minibatch of {config.batch_size}; "
            f"give more data or a smaller batch_size"
        )
    if val is not None and (val.image_shape, val.n_actions) != (train.image_shape, train.n_actions):
        raise InputError(
            f"validation images {val.image_shape} with {val.n_actions} actions do not match "
            f"training images {train.image_shape} with {train.n_actions}"
        )
