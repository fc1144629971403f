"""Run folders: what was trained (``run.json``), its tensors (``checkpoint.safetensors``), its ``metrics.jsonl``.

The checkpoint is replaced atomically after every epoch, and the folder appears with a first checkpoint in it, so a run
folder can be loaded at any moment. Nothing is ever unpickled.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_safetensors
from torch import Tensor, nn

from dwmr.config import Config
from dwmr.errors import InputError
from dwmr.files import append_line, atomic_folder, atomic_write_bytes, atomic_write_json, atomic_write_text
from dwmr.version import __version__

FORMAT = "dwmr-run"
VERSION = 1
RUN = "run.json"
CHECKPOINT = "checkpoint.safetensors"
METRICS = "metrics.jsonl"
VERSIONS = {"dwmr": __version__, "torch": torch.__version__, "numpy": np.__version__}

Tensors = Mapping[str, Tensor]


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
    verdict: Mapping[str, Any] | None = None  # on the finished model, see `dwmr.models.verdict`
    world: str = ""  # that the training data was collected in, as the data says

    @property
    def benchmark(self) -> str:
        """The world of the training data; for runs that did not store it, the one of the preset."""
        return self.world or self.config.benchmark


def read_info(folder: str | Path) -> RunInfo:
    path = Path(folder) / RUN
    if not path.is_file():
        raise InputError(f"{folder} is not a run folder: it has no {RUN}")
    try:
        stored = json.loads(path.read_text())
        if stored["format"] != FORMAT:
            raise InputError(f"this is not the file of a dwmr run: its format is {stored['format']!r}")
        if stored["version"] != VERSION:
            raise InputError(f"this has run version {stored['version']!r}; this dwmr reads version {VERSION}")
        sizes = [*stored["image_shape"], stored["n_actions"], stored["seed"]]
        if len(sizes) != 5 or not all(type(size) is int and size >= 0 for size in sizes):
            raise InputError(f"image_shape, n_actions and seed must be whole numbers, got {sizes}")
        shape, own_parts = tuple(stored["image_shape"]), tuple(stored["own_parts"])
        stored |= {"config": Config.from_dict(stored["config"]), "image_shape": shape, "own_parts": own_parts}
        return RunInfo(**{each.name: stored[each.name] for each in dataclasses.fields(RunInfo) if each.name in stored})
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InputError(f"{path} is damaged: {error!r}") from error


def checkpoint_digest(folder: str | Path) -> str:
    """A digest of the weights."""
    return hashlib.sha256((Path(folder) / CHECKPOINT).read_bytes()).hexdigest()[:16]


def create_run(folder: Path, info: RunInfo, tensors: Tensors) -> None:
    """A new run folder with the state before the first epoch; refused if there is a folder by now."""
    with atomic_folder(folder) as fresh:
        write_info(fresh, info)
        atomic_write_text(fresh / METRICS, "")
        _write_tensors(fresh, tensors, 0)


def read_run(folder: Path, info: RunInfo) -> tuple[dict[str, Tensor], int, list[dict[str, Any]]]:
    """An existing run's training state, how many epochs it has finished, and their records.

    Raises:
        InputError: the folder holds another run, or one that cannot be trained further.
    """
    _require_same(read_info(folder), info, folder)
    tensors, done = read_tensors(folder)
    if not part(tensors, "target."):
        raise InputError(f"{folder} holds a finished model only; it cannot be trained further")
    if done > info.config.epochs:
        raise InputError(f"{folder} already has {done} epochs, more than the {info.config.epochs} asked for")
    # A crash between an epoch's record and its checkpoint leaves one record too many.
    return tensors, done, [record for record in read_metrics(folder) if record["epoch"] <= done]


def reopen_run(folder: Path, info: RunInfo, metrics: Sequence[Mapping[str, Any]]) -> None:
    """Make an existing run folder ready for more epochs, after those in ``metrics``."""
    atomic_write_text(folder / METRICS, "".join(json.dumps(record) + "\n" for record in metrics))
    write_info(folder, info)


def write_info(folder: Path, info: RunInfo) -> None:
    atomic_write_json(folder / RUN, {"format": FORMAT, "version": VERSION, **dataclasses.asdict(info)})


def save_epoch(folder: Path, tensors: Tensors, record: Mapping[str, Any]) -> None:
    """Add an epoch's record, then replace the checkpoint."""
    append_line(folder / METRICS, json.dumps(record))
    _write_tensors(folder, tensors, record["epoch"])


def read_metrics(folder: str | Path) -> list[dict[str, Any]]:
    """The records of a run's epochs, up to the first line that a crash cut off."""
    path = Path(folder) / METRICS
    records: list[dict[str, Any]] = []
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        try:
            record = json.loads(line)
        except ValueError:
            break
        if not isinstance(record, dict) or not isinstance(record.get("epoch"), int):
            break
        records.append(record)
    return records


def _write_tensors(folder: str | Path, tensors: Mapping[str, Tensor], epoch: int) -> None:
    # Copies, because safetensors refuses tensors that share memory, as tied weights do.
    on_cpu = {name: value.detach().to("cpu", copy=True).contiguous() for name, value in tensors.items()}
    atomic_write_bytes(Path(folder) / CHECKPOINT, to_safetensors(on_cpu, {"epoch": str(epoch)}))


def read_tensors(folder: str | Path) -> tuple[dict[str, Tensor], int]:
    """The tensors of a run folder's checkpoint, and the number of epochs it has finished."""
    path = Path(folder) / CHECKPOINT
    if not path.is_file():
        raise InputError(f"{folder} has no {CHECKPOINT}")
    try:
        with safe_open(path, framework="pt") as file:
            epoch = int((file.metadata() or {})["epoch"])
            return {name: file.get_tensor(name) for name in file.keys()}, epoch  # noqa: SIM118
    except (SafetensorError, KeyError, ValueError) as error:
        raise InputError(f"{path} is truncated or not a checkpoint: {error}") from error


def part(tensors: Tensors, prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin with ``prefix``, without it."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def load_weights(module: nn.Module, tensors: Tensors, prefix: str, source: str | Path) -> None:
    """Load the tensors whose names begin with ``prefix``, read from the run folder ``source``, into a module."""
    try:
        module.load_state_dict(part(tensors, prefix))
    except RuntimeError as error:
        detail = " ".join(str(error).split())
        raise InputError(f"the weights in {source} do not fit these networks: {detail}") from error


def _require_same(stored: RunInfo, asked: RunInfo, folder: Path) -> None:
    """A run may be resumed for more epochs, but not with other data, another seed or another configuration."""
    if stored.data != asked.data:
        raise InputError(f"{folder} was trained on other data")
    if stored.seed != asked.seed:
        raise InputError(f"{folder} was trained with seed {stored.seed}, not {asked.seed}")
    if stored.own_parts != asked.own_parts:
        old, new = (", ".join(info.own_parts) or "none" for info in (stored, asked))
        raise InputError(f"{folder} was trained with parts of your own: {old}; now given: {new}")
    old_values, new_values = stored.config.flat(), asked.config.flat()
    changed = [name for name in old_values if name != "epochs" and old_values[name] != new_values[name]]
    if changed:
        differing = ", ".join(f"{name} {old_values[name]} instead of {new_values[name]}" for name in changed)
        raise InputError(f"{folder} was trained with {differing}")
