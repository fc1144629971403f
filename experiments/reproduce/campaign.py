"""Making the runs of a table, cell by cell. Runs are stored as soon as they are made; the same command continues.

On a GPU the missing runs of a cell are trained at the same time, elsewhere one after another. The test split is read
once per run, after its training.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

import dwmr
from dwmr.data.collect import cached_world
from dwmr.data.transitions import Splits, load_splits
from dwmr.errors import InputError, TrainingDiverged
from dwmr.evaluation.evaluate import evaluate_many
from dwmr.models.verdict import EXACT
from dwmr.models.world_model import resolve_device
from dwmr.planning import prepare_agent
from dwmr.planning.benchmark import evaluate_planner
from dwmr.provenance import describe_code, describe_machine
from dwmr.worlds.registry import tasks_of
from experiments.reproduce.cells import Cell, Table
from experiments.reproduce.store import OTHER_CODE, StoredRun, add_runs, read_cell, read_table

MARGIN = 1.25  # factor on estimates, so that a budget is kept even if an estimate is too low

log = logging.getLogger("dwmr")


@dataclass(frozen=True)
class Options:
    """How runs are made.

    Args:
        device: as for training
        budget: seconds; no run is started that would end later, by its estimate
        again: make stale runs again
    """

    device: str = "auto"
    budget: float | None = None
    again: bool = False


@dataclass(frozen=True)
class Planned:
    """A cell: the seeds that are stored, missing or stale, and the seconds that the missing ones may take."""

    cell: Cell
    done: list[int]
    missing: list[int]
    stale: dict[int, str]
    seconds: float | None


def plan(
    table: Table, cells: Sequence[Cell], out: Path, seeds: Sequence[int], device: torch.device, again: bool = False
) -> list[Planned]:
    """What is left to do. Cells that share their runs are counted once.

    Runs that are stale because of the code alone count as done, unless ``again`` asks for them.
    """
    known = _known_seconds(out, table, device)
    shared: set[str] = set()
    planned = []
    for cell in cells:
        stored = read_cell(out, cell)
        stale = {seed: why for seed, why in stored.stale.items() if seed in seeds}
        usable = {run.seed for run in stored.runs if stale.get(run.seed) in (None, *([] if again else [OTHER_CODE]))}
        if cell.key in shared:
            usable |= set(seeds)
        missing = [seed for seed in seeds if seed not in usable]
        each = _estimate(cell, known)
        seconds = 0.0 if not missing else None if each is None else each * len(missing)
        planned.append(Planned(cell, [seed for seed in seeds if seed in usable], missing, stale, seconds))
        shared.add(cell.key)
    return planned


def total_seconds(planned: Sequence[Planned]) -> float | None:
    """The sum of all estimates, None if one is missing."""
    known = [entry.seconds for entry in planned if entry.seconds is not None]
    return sum(known) if len(known) == len(planned) else None


def run(
    table: Table,
    cells: Sequence[Cell],
    out: Path,
    seeds: Sequence[int],
    options: Options,
    after_each: Callable[[], object] = lambda: None,
) -> bool:
    """Make the missing runs. ``after_each`` is called whenever some were stored. Returns True if all are there."""
    started = time.perf_counter()
    device = resolve_device(options.device)
    planned = plan(table, cells, out, seeds, device, options.again)
    if not options.again:
        _refuse_other_values(planned)
    for number, entry in enumerate(planned, start=1):
        cell, missing = entry.cell, entry.missing
        for group in [missing] if device.type == "cuda" and missing else [[seed] for seed in missing]:
            each = _estimate(cell, _known_seconds(out, table, device))
            seconds = None if each is None else each * len(group)
            spent = time.perf_counter() - started
            if options.budget is not None and spent + MARGIN * (seconds or 0.0) > options.budget:
                log.info("stopped cleanly after %.0f s; rerun the same command to continue", spent)
                return False
            duration = "no estimate yet" if seconds is None else f"about {seconds:.0f} s"
            log.info("[%d/%d] %s: seed %s, %s", number, len(cells), cell.title, ", ".join(map(str, group)), duration)
            add_runs(out, cell, _make(table, cell, out, group, device))
            after_each()
    return True


def _refuse_other_values(planned: Sequence[Planned]) -> None:
    """Runs of other configurations are not mixed with new ones."""
    other = [(entry, why) for entry in planned for why in entry.stale.values() if why != OTHER_CODE]
    if other:
        entry, why = other[0]
        raise InputError(
            f"{len(other)} stored run(s) were made with other values, such as those of {entry.cell.title} ({why}); "
            f"--again makes them again"
        )


def _make(table: Table, cell: Cell, out: Path, seeds: list[int], device: torch.device) -> list[StoredRun]:
    """Train the runs of a cell, and evaluate them on the test split."""
    started = time.perf_counter()
    splits, data = _load(cached_world(cell.benchmark))
    assert splits.test is not None
    for (_, benchmark), stored in read_table(out, table).items():
        if benchmark == cell.benchmark and any(run.data["fingerprint"] != data["fingerprint"] for run in stored.runs):
            raise InputError(f"the stored runs on {benchmark} come from other data; choose another --out")
    loaded = time.perf_counter()
    with warnings.catch_warnings():
        # Some cells are there to show a collapse, which their figures say.
        warnings.filterwarnings("ignore", message=".*the code is collapsing", category=RuntimeWarning)
        val = splits.val if cell.config.model == "auto" else None
        results = dwmr.train_many(cell.config, train=splits.train, val=val, seeds=seeds, device=str(device))
    trained = time.perf_counter()
    runs = [result for result in results if isinstance(result, dwmr.Run)]
    models = [run.model for run in runs]
    found = evaluate_many(models, train=splits.train, test=splits.test, rollout=splits.rollout) if models else []
    more = [_of_verdict(run, splits, cell.benchmark) for run in runs]
    figures = (each.figures | further for each, further in zip(found, more, strict=True))
    seconds = {
        "loading": loaded - started,
        "training": trained - loaded,
        "evaluation": time.perf_counter() - trained,
    }
    return [
        StoredRun(
            seed=seed,
            config=cell.config.to_dict(),
            data=data,
            figures=None if isinstance(result, TrainingDiverged) else next(figures),
            diverged=str(result) if isinstance(result, TrainingDiverged) else None,
            last_epoch=result.metrics[-1] if isinstance(result, dwmr.Run) and result.metrics else None,
            together=seeds,
            seconds={name: round(value / len(seeds), 3) for name, value in seconds.items()},
            machine=describe_machine(device),
            code=describe_code(),
        )
        for seed, result in zip(seeds, results, strict=True)
    ]


def _of_verdict(run: dwmr.Run, splits: Splits, benchmark: str) -> dict[str, Any]:
    """The verdict of a run if it has one; and if it is exact, the percent of the world's tasks that it solves."""
    if run.verdict is None:
        return {}
    planned = planned_tasks(run.model, splits, benchmark) if run.verdict.word == EXACT else None
    return {"verdict": run.verdict.word, "planned": planned}


def planned_tasks(model: dwmr.WorldModel, splits: Splits, benchmark: str, trials: int = 100) -> float:
    """Percent of the tasks of a world that a breadth-first search in the model solves, acting in the world."""
    agent = prepare_agent(model.encode, model.predict, splits.train, splits.val)
    digits = splits.train.about.get("digits", "mnist")
    kind, tasks = next(iter(tasks_of(benchmark, seed=0, trials=trials, digits=digits).items()))
    entry = evaluate_planner({kind: tasks}, agent, "breadth_first")
    return 100 * entry["solved"] / entry["of"]


@cache
def _load(folder: Path) -> tuple[Splits, dict[str, Any]]:
    """The splits, and what tells them from other data."""
    splits = load_splits(folder)
    assert splits.test is not None
    about = {name: value for name, value in splits.train.about.items() if name != "split"}
    return splits, {**about, "fingerprint": f"{splits.train.fingerprint()} {splits.test.fingerprint()}"}


def _known_seconds(out: Path, table: Table, device: torch.device) -> dict[str, float]:
    """Mean seconds of the runs stored on this kind of machine, whatever its Python and torch, by cell key."""
    machine = describe_machine(device).split(", Python")[0]
    known: dict[str, float] = {}
    for cell in table.cells():
        took = [run.took for run in read_cell(out, cell).runs if run.machine.split(", Python")[0] == machine]
        if took:
            known[cell.key] = sum(took) / len(took)
    return known


def _estimate(cell: Cell, known: dict[str, float]) -> float | None:
    """Seconds of a run: those of the cell, or of the slowest cell on its benchmark."""
    slowest = max((value for key, value in known.items() if key.startswith(f"{cell.benchmark}/")), default=None)
    return known.get(cell.key, slowest)
