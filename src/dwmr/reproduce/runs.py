"""The runs behind the tables: one JSON file each, written whole, and what they add up to.

    RESULTS/runs/<benchmark>/<preset and changes>/seed-<n>.json

A file holds the resolved configuration, all figures of the test split, or the message of a run that diverged, the
seconds it took, the machine and the code. Whether it may stand for a cell is decided by its configuration.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

import dwmr
from dwmr.config import NO_CHANGE, Config
from dwmr.errors import InputError
from dwmr.files import atomic_write_json
from dwmr.reproduce.cells import PARTS, Cell, Table

_FIELDS = ("seed", "config", "data", "figures", "diverged", "last_epoch", "together", "seconds", "machine", "code")


@dataclass(frozen=True)
class StoredRun:
    """One run as it came out. ``figures`` is None if it diverged, and ``diverged`` says how."""

    seed: int
    config: dict[str, Any]
    data: dict[str, Any]
    figures: dict[str, Any] | None
    diverged: str | None
    last_epoch: dict[str, Any] | None
    together: list[int]  # the seeds that were trained as one program with this one
    seconds: dict[str, float]
    machine: str
    code: dict[str, str]

    @property
    def took(self) -> float:
        return sum(self.seconds.values())


@dataclass(frozen=True)
class CellRuns:
    """The stored runs of a cell, by seed: those of its present configuration, and the others."""

    key: str
    fresh: list[StoredRun]
    stale: dict[int, str]  # seed → what differs

    @property
    def finished(self) -> list[StoredRun]:
        return [run for run in self.fresh if run.figures is not None]

    @property
    def diverged(self) -> list[StoredRun]:
        return [run for run in self.fresh if run.figures is None]

    @property
    def constant(self) -> list[StoredRun]:
        """Those whose code never changes: it is right about the next one, and says nothing."""
        return [run for run in self.finished if run.figures and run.figures["codes"]["dead"] == run.config["bits"]]

    def listed(self, *place: str) -> list[float | None]:
        """The figure at a place, such as encoding, f1, of every finished run, in percent; None where it has none."""
        found = []
        for run in self.finished:
            value: Any = run.figures
            for name in place:
                value = value.get(name) if value is not None else None
            found.append(value)
        return found

    def values(self, *place: str) -> list[float]:
        """The same, of the runs that have it."""
        return [value for value in self.listed(*place) if value is not None]


Results = dict[tuple[str, str], CellRuns]  # (row, benchmark)


@dataclass(frozen=True)
class Summary:
    """Mean and sample standard deviation of some runs' figures; None where there are too few."""

    count: int
    mean: float | None
    std: float | None


def summarize(values: Sequence[float]) -> Summary:
    mean = statistics.fmean(values) if values else None
    return Summary(len(values), mean, statistics.stdev(values) if len(values) > 1 else None)


def run_file(out: Path, cell: Cell, seed: int) -> Path:
    return out / "runs" / cell.key / f"seed-{seed}.json"


def write_run(out: Path, cell: Cell, run: StoredRun) -> None:
    atomic_write_json(run_file(out, cell, run.seed), {name: getattr(run, name) for name in _FIELDS})


def read_cell(out: Path, cell: Cell) -> CellRuns:
    """Every run stored for a cell."""
    fresh, stale = [], {}
    wanted = cell.config
    for path in (out / "runs" / cell.key).glob("seed-*.json"):
        run = _read(path)
        difference = _difference(run.config, wanted)
        if difference is None:
            fresh.append(run)
        else:
            stale[run.seed] = difference
    return CellRuns(cell.key, sorted(fresh, key=lambda run: run.seed), dict(sorted(stale.items())))


def read_table(out: Path, table: Table) -> Results:
    """Every run stored for a table.

    Raises:
        InputError: runs on one benchmark come from different data, so that they cannot be compared.
    """
    results = {(cell.row.name, cell.benchmark): read_cell(out, cell) for cell in table.cells()}
    for column in table.columns:
        seen = {run.data["fingerprint"] for (_, at), runs in results.items() if at == column for run in runs.fresh}
        if len(seen) > 1:
            raise InputError(f"the runs on {column} under {out} come from {len(seen)} different collections of data")
    return results


Lists = dict[str, dict[str, list[float | None]]]


def as_json(table: Table, results: Results) -> dict[str, Lists]:
    """{row: {benchmark: {"encoding": [a figure of each finished run], "imagination": […]}}}, cells with runs alone.

    In a wide table, whose rows are ablations, a cell that is another's very runs changes nothing and is left out.
    """
    places = table.wide or {part: (part, table.figure) for part in PARTS}
    found: dict[str, Lists] = {}
    seen: set[str] = set()
    for (row, benchmark), runs in results.items():
        if runs.fresh and not (table.wide and runs.key in seen):
            seen.add(runs.key)
            values = {name: runs.listed(*place) for name, place in places.items()}
            found.setdefault(row, {})[benchmark] = values
    return found


def read_repaired(out: Path, table: Table) -> Lists:
    """{benchmark: {"encoding_repaired": [a figure of each run], …}}: what `experiments/repaired.py` found of the row
    that is the table's headline, with the configuration that its preset has now."""
    path = out / "repaired.json"
    if table.headline is None or not path.exists():
        return {}
    stored = json.loads(path.read_text(encoding="utf-8"))
    found: Lists = {}
    for cell in table.choose([table.headline]):
        entry = stored.get(cell.key, {"runs": {}})
        runs = [entry["runs"][seed] for seed in sorted(entry["runs"], key=int)]
        if runs and _difference(entry["config"], cell.config) is None:
            names = [name for name in (f"{figure}_repaired" for figure in table.wide) if name in runs[0]]
            found[cell.benchmark] = {name: [run[name] for run in runs] for name in names}
    return found


def files_of(table: Table, results: Results, repaired: Lists) -> dict[str, dict[str, Any]]:
    """What the table's JSON files hold, by name: one file, or the headline's figures, and those with repair beside
    them, apart from all rows."""
    found = as_json(table, results)
    if table.headline is None:
        return {f"{table.name}.json": found} if found else {}
    headline = found.get(table.headline, {})
    files: dict[str, dict[str, Any]] = {
        f"{table.name}.json": {name: values | repaired.get(name, {}) for name, values in headline.items()},
        f"{table.name}_rows.json": found,
    }
    return {name: content for name, content in files.items() if content}


def machine_words(device: torch.device) -> str:
    """What a run was made on."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} CPU cores, Python {platform.python_version()}, torch {torch.__version__}"


def same_machine(one: str, other: str) -> bool:
    """Whether seconds carry over from one machine to the other, whatever the versions."""
    return one.split(", Python")[0] == other.split(", Python")[0]


@cache
def code_words() -> dict[str, str]:
    """The code a run was made with: versions, and a short name for the very source of this package."""
    digest = hashlib.sha256()
    root = Path(dwmr.__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    versions = {"dwmr": dwmr.__version__, "torch": torch.__version__, "numpy": np.__version__}
    return versions | {"source": digest.hexdigest()[:12]}


def _read(path: Path) -> StoredRun:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        run = StoredRun(**{name: values[name] for name in _FIELDS})
        complete = run.figures is not None or run.diverged is not None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not the file of a run; remove it, and the run is made again") from error
    if not complete or path.name != f"seed-{run.seed}.json":
        raise InputError(f"{path} is not the file of a run; remove it, and the run is made again")
    return run


def _difference(stored: dict[str, Any], wanted: Config) -> str | None:
    """How a stored configuration differs from the one that a cell has now, or None."""
    try:
        old, new = Config.from_dict(stored).flat(), wanted.flat()
    except InputError as error:
        return str(error)
    if wanted.factors == NO_CHANGE:  # schedules on or off is then the same
        old["schedules"] = new["schedules"]
    differing = [f"{name} {old[name]} instead of {new[name]}" for name in new if old[name] != new[name]]
    return ", ".join(differing) if differing else None
