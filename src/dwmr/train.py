"""Training: owns the epochs, the run folder, the metrics; knows no loss and no algorithm."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import dwmr
from dwmr import progress as progress_bars
from dwmr.checkpoint import RUN, RunInfo, read_info, restore, save_checkpoint
from dwmr.config import HYPER_NAMES, Config, Hyper
from dwmr.data.batches import Batch, EpochPlan, Loader, plan_epoch
from dwmr.errors import InputError, TrainingDiverged, unknown
from dwmr.evaluation.codes import next_code_agreement
from dwmr.files import atomic_folder, atomic_write_json, atomic_write_text
from dwmr.objectives import OBJECTIVES, Objective
from dwmr.schedules import values_at
from dwmr.schemes import SCHEMES, Learner, Scheme
from dwmr.transitions import Transitions
from dwmr.world_model import WorldModel, build_model, image_statistics, resolve_device

METRICS = "metrics.jsonl"
DEAD_MARGIN = 1e-3  # over an epoch, a bit that is 0 or 1 in all but a thousandth of the frames counts as dead


@dataclass(frozen=True)
class Run:
    """A finished training: the model, what it was made from, and one record an epoch."""

    model: WorldModel
    config: Config
    seed: int
    path: Path | None
    metrics: list[dict[str, Any]] = field(default_factory=list)


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
    tensorboard: bool = False,
    progress: bool | None = None,
) -> Run:
    """Train a world model and leave a run folder at ``out`` (None: nothing is written).

    ``val`` adds label-free figures of each epoch. ``resume`` goes on from the folder's last checkpoint, if there is
    one. Networks of one's own return logits: ``encoder(images) -> (N, K)``,
    ``predictor(codes, one_hot_actions) -> (N, K)``; a decoder returns normalised images. ``objective`` replaces the
    loss terms of ``config.model``.

    Raises:
        InputError: the data, the configuration or the folder is unfit; nothing was changed.
        TrainingDiverged: a loss term became NaN or infinite; the last good checkpoint is kept.
    """
    where = resolve_device(device)
    writer = _tensorboard_writer(out) if tensorboard else None
    family = objective or _family(config.model)
    scheme_name = family.scheme or config.scheme
    if scheme_name not in SCHEMES:
        raise unknown("scheme", scheme_name, SCHEMES)
    modules = {"encoder": encoder, "predictor": predictor, "decoder": decoder}
    own = {role: module for role, module in modules.items() if module is not None}
    config = _with_own_parts(config, own, train)
    _check_data(config, train, val)

    model = build_model(config, train.image_shape, train.n_actions, decoder=family.decoder, seed=seed, modules=own)
    if config.standardize:
        mean, std = image_statistics(train.obs)
        model.mean.copy_(mean)
        model.std.copy_(std)
    model.to(where)
    hyper = Hyper(**{name: torch.zeros((), device=where) for name in HYPER_NAMES})
    learner = Learner(model, family, _tensor(hyper.lr), noisy_predictor=config.noisy_predictor)
    info = RunInfo(
        config=config,
        seed=seed,
        image_shape=train.image_shape,
        n_actions=train.n_actions,
        decoder=family.decoder,
        own_parts=tuple(own) + (("objective",) if objective else ()),
        data=train.fingerprint(),
        versions={"dwmr": dwmr.__version__, "torch": torch.__version__, "numpy": np.__version__},
    )
    folder = None if out is None else Path(out)
    done = 0
    metrics: list[dict[str, Any]] = []
    if folder is not None:
        done, metrics = _open_folder(folder, info, learner, resume)

    loader = Loader(train, where)
    updates = len(train) // config.batch_size
    with ExitStack() as stack:
        board = stack.enter_context(writer(str(folder / "tensorboard"))) if writer and folder else None
        shown = stack.enter_context(
            progress_bars.bar(
                f"{config.name} seed {seed}",
                config.epochs * updates,
                done=done * updates,
                show=progress,
            )
        )
        for epoch in range(done, config.epochs):
            started = time.perf_counter()
            values = values_at(config, epoch)
            for name, value in values.items():
                _tensor(getattr(hyper, name)).fill_(value)
            plan = plan_epoch(
                seed,
                epoch,
                len(train),
                config.batch_size,
                config.bits,
                noise=family.noise,
                triplets=config.triplets,
            )
            record = {"epoch": epoch + 1, "hyper": values}
            record |= _run_epoch(learner, SCHEMES[scheme_name], loader, plan, hyper, epoch, shown.advance)
            if val is not None:
                record["val"] = next_code_agreement(model, val)
            record["seconds"] = round(time.perf_counter() - started, 3)
            metrics.append(record)
            if folder is not None:
                _append_line(folder / METRICS, record)
                save_checkpoint(folder, learner, epoch + 1)
            if board is not None:
                _log_tensorboard(board, record)
            _warn_if_collapsed(record, config.bits)  # once all is saved, since a warning may be made an error
            shown.describe(_one_line(record))
    return Run(model.eval(), config, seed, folder, metrics)


def _run_epoch(
    learner: Learner,
    scheme: Scheme,
    loader: Loader,
    plan: EpochPlan,
    hyper: Hyper,
    epoch: int,
    advance: Callable[[], None],
) -> dict[str, Any]:
    """One pass over the plan. Nothing is read back from the device before it ends."""
    model = learner.model.train()
    names = list(learner.objective.terms)
    terms = torch.empty(len(plan), len(names), device=loader.device)
    ones = torch.zeros(model.bits, device=loader.device)
    flips = torch.zeros((), device=loader.device)
    for update, (images, actions, next_images, noise, triplets) in enumerate(loader.raw_batches(plan)):
        batch = Batch(model.normalize(images), model.one_hot(actions), model.normalize(next_images), noise, triplets)
        result = scheme(learner, batch, hyper)
        terms[update] = torch.stack([result.terms[name] for name in names])
        ones += result.bits.mean(0)
        flips += (result.bits != result.next_bits).sum(-1).float().mean()
        advance()
    _require_finite(terms, names, model, epoch)
    rates = ones / len(plan)
    dead = ((rates < DEAD_MARGIN) | (rates > 1 - DEAD_MARGIN)).sum()
    return {
        "terms": dict(zip(names, terms.double().mean(0).tolist())),
        "bits": {"dead": int(dead), "ones": float(rates.mean()), "flips": float(flips / len(plan))},
    }


def _require_finite(terms: Tensor, names: list[str], model: nn.Module, epoch: int) -> None:
    broken = ~torch.isfinite(terms)
    if bool(broken.any()):
        update = int(broken.any(1).nonzero()[0])
        first = " and ".join(repr(names[i]) for i in broken[update].nonzero().flatten().tolist())
        raise TrainingDiverged(
            f"the loss term {first} is not a finite number since update {update + 1} of epoch {epoch + 1}; "
            f"the checkpoint after epoch {epoch} was kept"
        )
    if not all(bool(torch.isfinite(p).all()) for p in model.parameters()):
        raise TrainingDiverged(
            f"a weight is not a finite number after epoch {epoch + 1}; the checkpoint after epoch {epoch} was kept"
        )


def _family(name: str) -> Objective:
    if name not in OBJECTIVES:
        raise unknown("model", name, OBJECTIVES)
    return OBJECTIVES[name]


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


def _open_folder(folder: Path, info: RunInfo, learner: Learner, resume: bool) -> tuple[int, list[dict[str, Any]]]:
    """Make the run folder, or take up what is in it: epochs done and their records."""
    if not folder.exists():
        with atomic_folder(folder) as fresh:
            atomic_write_json(fresh / RUN, info.to_dict())
            atomic_write_text(fresh / METRICS, "")
            save_checkpoint(fresh, learner, 0)
        return 0, []
    if not resume:
        raise FileExistsError(f"{folder} exists already; resume it, or choose another folder")
    _require_same(read_info(folder), info, folder)
    done = restore(folder, learner)
    if done > info.config.epochs:
        raise InputError(f"{folder} has {done} epochs behind it already, more than the {info.config.epochs} asked for")
    metrics = [record for record in read_metrics(folder) if record["epoch"] <= done]
    atomic_write_text(folder / METRICS, "".join(json.dumps(record) + "\n" for record in metrics))
    atomic_write_json(folder / RUN, info.to_dict())
    return done, metrics


def _require_same(stored: RunInfo, asked: RunInfo, folder: Path) -> None:
    """A run may be resumed for more epochs, but not with other data, another seed or another configuration."""
    if stored.data != asked.data:
        raise InputError(f"{folder} was trained on other data")
    if stored.seed != asked.seed:
        raise InputError(f"{folder} was trained with seed {stored.seed}, not {asked.seed}")
    if stored.own_parts != asked.own_parts:
        raise InputError(f"{folder} was trained with own parts {stored.own_parts}, not {asked.own_parts}")
    old, new = stored.config.to_dict(), asked.config.to_dict()
    differing = [name for name in old if old[name] != new[name] and name != "epochs"]
    if differing:
        raise InputError(f"{folder} was trained with another {', '.join(differing)}")


def read_metrics(folder: str | Path) -> list[dict[str, Any]]:
    """The records of a run's epochs; a line cut off by a crash ends them."""
    path = Path(folder) / METRICS
    records: list[dict[str, Any]] = []
    for line in path.read_text().splitlines() if path.is_file() else ():
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return records


def _append_line(path: Path, record: dict[str, Any]) -> None:
    with open(path, "a") as file:
        file.write(json.dumps(record) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _warn_if_collapsed(record: dict[str, Any], bits: int) -> None:
    dead = record["bits"]["dead"]
    if dead > bits / 2:
        warnings.warn(
            f"{dead} of {bits} bits never changed in epoch {record['epoch']}: the code is collapsing; "
            f"stronger var and cor weights, or a smaller lr, may help",
            RuntimeWarning,
            stacklevel=3,
        )


def _one_line(record: dict[str, Any]) -> str:
    terms = " ".join(f"{name} {value:.3f}" for name, value in record["terms"].items())
    health = f"dead {record['bits']['dead']} flips {record['bits']['flips']:.1f}"
    exact = f" exact {record['val']['exact_next']:.1f}%" if "val" in record else ""
    return f"{terms} · {health}{exact}"


def _tensorboard_writer(out: str | Path | None) -> Any:
    if out is None:
        raise InputError("TensorBoard logging needs a run folder")
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise InputError("TensorBoard is not installed; pip install 'dwmr[tensorboard]'") from error
    return SummaryWriter


def _log_tensorboard(board: Any, record: dict[str, Any]) -> None:
    for group in ("terms", "bits", "val", "hyper"):
        for name, value in record.get(group, {}).items():
            board.add_scalar(f"{group}/{name}", value, record["epoch"])


def _tensor(value: float | Tensor) -> Tensor:
    assert isinstance(value, Tensor)  # an update's hyperparameters are tensors, a configuration's are numbers
    return value
