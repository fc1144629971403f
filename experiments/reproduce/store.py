"""Stored runs: one JSONL file per cell.

    RESULTS/runs/<benchmark>/<preset and changes>.jsonl

The first line holds what the runs share: configuration, data, machine and code. Each further line is one seed: its
figures on the test split, or the message if it diverged, the seconds it took, and what differs from the first line.

A run is stale if its cell has another configuration now, or if the code that trains and evaluates has changed since.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dwmr.config import NO_CHANGE, Config
from dwmr.errors import InputError
from dwmr.files import atomic_write_text
from dwmr.provenance import code_digest
from experiments.reproduce.cells import Cell, Table

SHARED = ("config", "data", "machine", "code")
OWN = ("seed", "figures", "diverged", "last_epoch", "together", "seconds")
OTHER_CODE = "made with other code"


@dataclass(frozen=True)
class StoredRun:
    """One run. ``figures`` is None if it diverged, and ``diverged`` says how."""

    seed: int
    config: dict[str, Any]
    data: dict[str, Any]
    figures: dict[str, Any] | None
    diverged: str | None
    last_epoch: dict[str, Any] | None
    together: list[int]  # the seeds that were trained at the same time
    seconds: dict[str, float]
    machine: str
    code: dict[str, str]

    @property
    def took(self) -> float:
        return sum(self.seconds.values())


@dataclass(frozen=True)
class CellRuns:
    """The stored runs of a cell, by seed."""

    key: str
    runs: list[StoredRun]
    stale: dict[int, str]  # by seed: why

    @property
    def finished(self) -> list[StoredRun]:
        return [run for run in self.runs if run.figures is not None]

    @property
    def diverged(self) -> list[StoredRun]:
        return [run for run in self.runs if run.figures is None]

    @property
    def constant(self) -> list[StoredRun]:
        """Runs whose bits never change."""
        return [run for run in self.finished if run.figures and run.figures["codes"]["dead"] == run.config["bits"]]

    def listed(self, *path: str) -> list[float | None]:
        """The figure under ``path``, such as encoding, f1, of every finished run; None where a run lacks it."""
        found = []
        for run in self.finished:
            value: Any = {"seconds": run.took, **(run.figures or {})}
            for name in path:
                value = value.get(name) if value is not None else None
            found.append(value)
        return found

    def values(self, *path: str) -> list[float]:
        """The same, of the runs that have it."""
        return [value for value in self.listed(*path) if value is not None]


Results = dict[tuple[str, str], CellRuns]  # by row and benchmark


def cell_file(out: Path, key: str) -> Path:
    return out / "runs" / f"{key}.jsonl"


def add_runs(out: Path, cell: Cell, runs: Iterable[StoredRun]) -> None:
    """Store runs of a cell. They replace those of the same seeds, and those of another configuration."""
    path = cell_file(out, cell.key)
    kept = {run.seed: run for run in read_file(path) if difference(run.config, cell.config) is None}
    write_file(path, [*(kept | {run.seed: run for run in runs}).values()])


def write_file(path: Path, runs: list[StoredRun]) -> None:
    runs = sorted(runs, key=lambda run: run.seed)
    shared = {name: getattr(runs[0], name) for name in SHARED}
    lines = [shared]
    for run in runs:
        differing = {name: getattr(run, name) for name in SHARED if getattr(run, name) != shared[name]}
        lines.append({name: getattr(run, name) for name in OWN} | differing)
    atomic_write_text(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


def read_file(path: Path) -> list[StoredRun]:
    """The runs of a file, none if there is no such file."""
    if not path.exists():
        return []
    try:
        shared, *lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        runs = [StoredRun(**{name: (shared | line)[name] for name in SHARED + OWN}) for line in lines]
        complete = all(run.figures is not None or run.diverged is not None for run in runs)
    except (ValueError, KeyError, TypeError):
        complete = False
    if not complete:
        raise InputError(f"{path} does not hold stored runs; remove it to make the runs again")
    return runs


def read_cell(out: Path, cell: Cell) -> CellRuns:
    runs = read_file(cell_file(out, cell.key))
    reasons = {run.seed: difference(run.config, cell.config) for run in runs}
    for run in runs:
        if reasons[run.seed] is None and run.code.get("digest") != code_digest():
            reasons[run.seed] = OTHER_CODE
    return CellRuns(cell.key, runs, {seed: why for seed, why in reasons.items() if why is not None})


def read_table(out: Path, table: Table) -> Results:
    """Every run stored for a table.

    Raises:
        InputError: runs on one benchmark come from different data, so that they cannot be compared.
    """
    results = {(cell.row.name, cell.benchmark): read_cell(out, cell) for cell in table.cells()}
    for column in table.columns:
        seen = {run.data["fingerprint"] for (_, at), cell in results.items() if at == column for run in cell.runs}
        if len(seen) > 1:
            raise InputError(f"the runs on {column} in {out} were made with {len(seen)} different data sets")
    return results


def difference(stored: dict[str, Any], wanted: Config) -> str | None:
    """How a stored configuration differs from ``wanted``, or None."""
    try:
        old, new = Config.from_dict(stored).flat(), wanted.flat()
    except InputError as error:
        return str(error)
    if wanted.factors == NO_CHANGE:  # schedules on or off is then the same
        old["schedules"] = new["schedules"]
    differing = [f"{name} {old[name]} instead of {new[name]}" for name in new if old[name] != new[name]]
    return ", ".join(differing) if differing else None
