"""A run folder as training sees it: made once, taken up again, one line of metrics an epoch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dwmr.errors import InputError
from dwmr.files import append_line, atomic_folder, atomic_write_json, atomic_write_text
from dwmr.models.checkpoint import RUN, RunInfo, read_info, restore, save_checkpoint
from dwmr.training.schemes import Learner

METRICS = "metrics.jsonl"


def open_folder(folder: Path, info: RunInfo, learner: Learner, resume: bool) -> tuple[int, list[dict[str, Any]]]:
    """Make the run folder, or take up what is in it: epochs done and their records."""
    if not folder.exists():
        with atomic_folder(folder) as fresh:
            atomic_write_json(fresh / RUN, info.to_dict())
            atomic_write_text(fresh / METRICS, "")
            save_checkpoint(fresh, learner, 0)
        return 0, []
    if not resume:
        raise FileExistsError(f"{folder} exists already; resume it, or choose another folder")
    require_same(read_info(folder), info, folder)
    done = restore(folder, learner)
    if done > info.config.epochs:
        raise InputError(f"{folder} has {done} epochs behind it already, more than the {info.config.epochs} asked for")
    metrics = [record for record in read_metrics(folder) if record["epoch"] <= done]
    atomic_write_text(folder / METRICS, "".join(json.dumps(record) + "\n" for record in metrics))
    atomic_write_json(folder / RUN, info.to_dict())
    return done, metrics


def save_epoch(folder: Path, learner: Learner, record: dict[str, Any]) -> None:
    """One epoch's line, then its checkpoint; a crash between them is mended by `open_folder`."""
    append_line(folder / METRICS, json.dumps(record))
    save_checkpoint(folder, learner, record["epoch"])


def read_metrics(folder: str | Path) -> list[dict[str, Any]]:
    """The records of a run's epochs; a line cut off by a crash ends them."""
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


def require_same(stored: RunInfo, asked: RunInfo, folder: Path) -> None:
    """A run may be resumed for more epochs, but not with other data, another seed or another configuration."""
    if stored.data != asked.data:
        raise InputError(f"{folder} was trained on other data")
    if stored.seed != asked.seed:
        raise InputError(f"{folder} was trained with seed {stored.seed}, not {asked.seed}")
    if stored.own_parts != asked.own_parts:
        raise InputError(f"{folder} was trained with own parts {stored.own_parts}, not {asked.own_parts}")
    old, new = stored.config.flat(), asked.config.flat()
    differing = [f"{name} {old[name]} instead of {new[name]}" for name in old if old[name] != new[name]]
    differing = [text for text in differing if not text.startswith("epochs ")]
    if differing:
        raise InputError(f"{folder} was trained with {', '.join(differing)}")
