"""Run folders: ``run.json`` says what was trained, ``checkpoint.safetensors`` holds all its tensors.

A checkpoint is one file, replaced atomically after every epoch, so the folder is loadable at any moment; and the
folder itself appears with a first checkpoint in it. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_safetensors
from torch import Tensor, nn

import dwmr
from dwmr.config import Config
from dwmr.data.transitions import Transitions
from dwmr.errors import InputError, unknown
from dwmr.files import atomic_folder, atomic_write_bytes, atomic_write_json
from dwmr.models.world_model import WorldModel, build_model, resolve_device
from dwmr.training.schemes import Learner

FORMAT = "dwmr-run"
VERSION = 1
RUN = "run.json"
CHECKPOINT = "checkpoint.safetensors"


@dataclass(frozen=True)
class RunInfo:
    """What a run folder says of itself."""

    config: Config
    seed: int
    image_shape: tuple[int, int, int]
    n_actions: int
    decoder: bool
    own_parts: tuple[str, ...]  # "encoder", "predictor", "decoder", "objective": made by the user
    data: str  # fingerprint of the training data
    versions: Mapping[str, str]
    distilled: Mapping[str, Any] | None = None  # from which run and how, if it was

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "config": self.config.to_dict(),
            "seed": self.seed,
            "image_shape": list(self.image_shape),
            "n_actions": self.n_actions,
            "decoder": self.decoder,
            "own_parts": list(self.own_parts),
            "data": self.data,
            "versions": dict(self.versions),
            **({"distilled": dict(self.distilled)} if self.distilled else {}),
        }


def info_of(
    config: Config, seed: int, train: Transitions, *, decoder: bool, own_parts: tuple[str, ...] = (), data: str
) -> RunInfo:
    """What is said of a run on these transitions, whose fingerprint is ``data``."""
    versions = {"dwmr": dwmr.__version__, "torch": torch.__version__, "numpy": np.__version__}
    return RunInfo(config, seed, train.image_shape, train.n_actions, decoder, own_parts, data, versions)


def read_info(folder: str | Path) -> RunInfo:
    path = Path(folder) / RUN
    if not path.is_file():
        raise InputError(f"{folder} is not a run folder: it has no {RUN}")
    try:
        stored = json.loads(path.read_text())
        if stored["format"] != FORMAT:
            raise InputError(f"{path} is not of a dwmr run: its format is {stored['format']!r}")
        if stored["version"] != VERSION:
            raise InputError(
                f"{folder} was written in run version {stored['version']!r}; this dwmr reads version {VERSION}"
            )
        sizes = [*stored["image_shape"], stored["n_actions"], stored["seed"]]
        if len(sizes) != 5 or not all(type(size) is int and size >= 0 for size in sizes):
            raise InputError(f"image_shape, n_actions and seed must be whole numbers, got {sizes}")
        c, h, w = stored["image_shape"]
        return RunInfo(
            config=Config.from_dict(stored["config"]),
            seed=stored["seed"],
            image_shape=(c, h, w),
            n_actions=stored["n_actions"],
            decoder=stored["decoder"],
            own_parts=tuple(stored["own_parts"]),
            data=stored["data"],
            versions=stored["versions"],
            distilled=stored.get("distilled"),
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise InputError(f"{path} is damaged: {error!r}") from error


def epochs_done(folder: str | Path) -> int:
    """How many epochs the folder's checkpoint has behind it."""
    path = Path(folder) / CHECKPOINT
    if not path.is_file():
        raise InputError(f"{folder} has no {CHECKPOINT}")
    try:
        with safe_open(path, framework="pt") as file:
            return int((file.metadata() or {})["epoch"])
    except (SafetensorError, KeyError, ValueError) as error:
        raise InputError(f"{path} is truncated or not a checkpoint: {error}") from error


def checkpoint_digest(folder: str | Path) -> str:
    """Which weights these are."""
    return hashlib.sha256((Path(folder) / CHECKPOINT).read_bytes()).hexdigest()[:16]


def save_checkpoint(folder: str | Path, learner: Learner, epoch: int) -> None:
    """Replace the folder's checkpoint by the state after ``epoch`` epochs."""
    tensors = {f"model.{name}": value for name, value in learner.model.state_dict().items()}
    tensors |= {f"target.{name}": value for name, value in learner.target.state_dict().items()}
    for label, optimizer in _optimizers(learner).items():
        for index, state in optimizer.state_dict()["state"].items():
            tensors |= {f"{label}.{index}.{name}": value for name, value in state.items()}
    _write_tensors(folder, tensors, epoch)


def save_model(folder: str | Path, model: WorldModel, info: RunInfo) -> None:
    """A run folder with the finished model alone: it can be used like any other, but not be trained further."""
    with atomic_folder(folder) as fresh:
        atomic_write_json(fresh / RUN, info.to_dict())
        tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
        _write_tensors(fresh, tensors, info.config.epochs)


def _write_tensors(folder: str | Path, tensors: Mapping[str, Tensor], epoch: int) -> None:
    # Copies, because safetensors refuses tensors that share memory, as tied weights do.
    on_cpu = {name: value.detach().to("cpu", copy=True).contiguous() for name, value in tensors.items()}
    atomic_write_bytes(Path(folder) / CHECKPOINT, to_safetensors(on_cpu, {"epoch": str(epoch)}))


def restore(folder: str | Path, learner: Learner) -> int:
    """Put the folder's checkpoint into a learner; the number of epochs it has behind it."""
    tensors, epoch = _read_tensors(folder)
    if not _part(tensors, "target."):
        raise InputError(f"{folder} holds a finished model alone: it cannot be trained further")
    device = learner.model.device
    _load_into(learner.model, _part(tensors, "model."), folder)
    _load_into(learner.target, _part(tensors, "target."), folder)
    for label, optimizer in _optimizers(learner).items():
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in _part(tensors, f"{label}.").items():
            index, field = name.split(".")
            state.setdefault(int(index), {})[field] = value.to(device)
        whole = optimizer.state_dict()
        lr = [group["lr"] for group in optimizer.param_groups]
        optimizer.load_state_dict({**whole, "state": state})
        # load_state_dict copies the groups; the learning rate must stay the very tensor the schedule writes to.
        for group, value in zip(optimizer.param_groups, lr):
            group["lr"] = value
    return epoch


def load_model(folder: str | Path, device: str = "auto", **modules: nn.Module) -> WorldModel:
    """The world model of a run folder, in evaluation mode."""
    info = read_info(folder)
    for role in modules:
        if role not in ("encoder", "predictor", "decoder"):
            raise unknown("network", role, ("encoder", "predictor", "decoder"))
    model = build_model(info.config, info.image_shape, info.n_actions, decoder=info.decoder, modules=modules)
    tensors, _ = _read_tensors(folder)
    _load_into(model, _part(tensors, "model."), folder)
    return model.to(resolve_device(device)).eval()


def _read_tensors(folder: str | Path) -> tuple[dict[str, Tensor], int]:
    path = Path(folder) / CHECKPOINT
    if not path.is_file():
        raise InputError(f"{folder} has no {CHECKPOINT}")
    try:
        with safe_open(path, framework="pt") as file:
            epoch = int((file.metadata() or {})["epoch"])
            return {name: file.get_tensor(name) for name in file.keys()}, epoch  # noqa: SIM118
    except (SafetensorError, KeyError, ValueError) as error:
        raise InputError(f"{path} is truncated or not a checkpoint: {error}") from error


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _load_into(module: nn.Module, tensors: Mapping[str, Tensor], folder: str | Path) -> None:
    try:
        module.load_state_dict(dict(tensors))
    except RuntimeError as error:
        detail = " ".join(str(error).split())
        raise InputError(f"the weights in {folder} do not fit these networks: {detail}") from error


def _optimizers(learner: Learner) -> dict[str, torch.optim.Optimizer]:
    return {"codes_optimizer": learner.codes_optimizer, "predictor_optimizer": learner.predictor_optimizer}
