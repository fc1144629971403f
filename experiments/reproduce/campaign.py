"""Making the runs of a table, cell by cell. Runs are stored as soon as they are made; the same command continues.

On a GPU the missing runs of a cell are trained at the same time, elsewhere one after another. The test split is read
once per run, after its training.
"""

from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import dwmr
from dwmr.data.collect import cached_world
from dwmr.data.transitions import Splits, Transitions, load_splits
from dwmr.errors import InputError, TrainingDiverged
from dwmr.evaluation.evaluate import evaluate_many
from dwmr.files import check_output
from dwmr.models.run_folder import epochs_done, info_of, read_info, read_metrics, require_same
from dwmr.models.world_model import WorldModel, resolve_device
from dwmr.provenance import describe_code, describe_machine
from dwmr.training.trainer import check_choices
from experiments.reproduce.cells import Cell, Table
from experiments.reproduce.store import OTHER_CODE, StoredRun, add_runs, read_cell, read_table

MARGIN = 1.25  # factor on estimates, so that a budget is kept even if an estimate is too low

Result = dwmr.Run | TrainingDiverged
log = logging.getLogger("dwmr")


@dataclass(frozen=True)
class Options:
    """How runs are made.

    Args:
        device: as for training
        budget: seconds; no run is started that would end later, by its estimate
        again: make stale runs again
        models: folder that keeps the trained models as run folders. A run that is there already is used, or resumed.
        progress: show progress bars
    """

    device: str = "auto"
    budget: float | None = None
    again: bool = False
    models: Path | None = None
    progress: bool | None = None


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
    known = _known_seconds(out, table, describe_machine(device))
    seen: set[str] = set()
    planned = []
    for cell in cells:
        stored = read_cell(out, cell)
        stale = {seed: why for seed, why in stored.stale.items() if seed in seeds}
        usable = {run.seed for run in stored.runs if stale.get(run.seed) in (None, *([] if again else [OTHER_CODE]))}
        shared = cell.key in seen
        missing = [] if shared else [seed for seed in seeds if seed not in usable]
        each = _estimate(cell, known)
        planned.append(
            Planned(
                cell,
                done=[seed for seed in seeds if seed in usable or shared],
                missing=missing,
                stale=stale,
                seconds=0.0 if not missing else None if each is None else each * len(missing),
            )
        )
        seen.add(cell.key)
    return planned


def total_seconds(planned: Sequence[Planned]) -> float | None:
    """The sum of all estimates, None if one is missing."""
    known = [entry.seconds for entry in planned if entry.seconds is not None]
    return sum(known) if len(known) == len(planned) else None


def plan_json(planned: Sequence[Planned]) -> dict[str, Any]:
    cells = [
        {
            "row": entry.cell.row.name,
            "benchmark": entry.cell.benchmark,
            "done": entry.done,
            "missing": entry.missing,
            "stale": list(entry.stale),
            "seconds": entry.seconds,
        }
        for entry in planned
    ]
    return {"cells": cells, "seconds": total_seconds(planned)}


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
    for cell in cells:
        check_choices(cell.config)
    planned = plan(table, cells, out, seeds, device, options.again)
    if not options.again:
        _refuse_other_values(planned)
    maker = _Maker(_fingerprints(out, table), str(device), options.models, options.progress)
    for entry in planned:
        maker.check_models(entry.cell, entry.missing)
    for number, entry in enumerate(planned, start=1):
        cell, missing = entry.cell, entry.missing
        for group in [missing] if device.type == "cuda" and missing else [[seed] for seed in missing]:
            each = _estimate(cell, _known_seconds(out, table, describe_machine(device)))
            seconds = None if each is None else each * len(group)
            spent = time.perf_counter() - started
            if options.budget is not None and spent + MARGIN * (seconds or 0.0) > options.budget:
                log.info("stopped cleanly after %.0f s; rerun the same command to continue", spent)
                return False
            duration = "no estimate yet" if seconds is None else f"about {seconds:.0f} s"
            log.info("[%d/%d] %s: seed %s, %s", number, len(cells), cell.title, ", ".join(map(str, group)), duration)
            add_runs(out, cell, maker.make(cell, group))
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


def _fingerprints(out: Path, table: Table) -> dict[str, str]:
    """The data of the stored runs, by benchmark."""
    results = read_table(out, table)
    return {benchmark: cell.runs[0].data["fingerprint"] for (_, benchmark), cell in results.items() if cell.runs}


@dataclass
class _Maker:
    """Trains runs and evaluates them on the test split. Each benchmark is loaded once."""

    fingerprints: dict[str, str]
    device: str
    models: Path | None
    progress: bool | None
    loaded: dict[str, tuple[Splits, dict[str, Any]]] = field(default_factory=dict)

    def make(self, cell: Cell, seeds: list[int]) -> list[StoredRun]:
        started = time.perf_counter()
        splits, data = self._data(cell.benchmark)
        assert splits.test is not None
        loaded = time.perf_counter()
        results, earlier = self._train(cell, seeds, splits.train)
        trained = time.perf_counter()
        models = [result.model for result in results if isinstance(result, dwmr.Run)]
        found = evaluate_many(models, train=splits.train, test=splits.test, rollout=splits.rollout) if models else []
        figures = (each.figures for each in found)
        evaluated = time.perf_counter()
        seconds = {
            "loading": loaded - started,
            "training": earlier + trained - loaded,
            "evaluation": evaluated - trained,
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
                machine=describe_machine(torch.device(self.device)),
                code=describe_code(),
            )
            for seed, result in zip(seeds, results, strict=True)
        ]

    def check_models(self, cell: Cell, seeds: list[int]) -> None:
        """Refuse a folder for models that holds anything but these runs, finished or not."""
        for seed, place in zip(seeds, self._places(cell, seeds), strict=True):
            if place is None:
                continue
            if not os.path.lexists(place):
                check_output(place)
                continue
            train, epochs = self._data(cell.benchmark)[0].train, cell.config.epochs
            stored = read_info(place)
            asked = info_of(cell.config, seed, train, decoder=stored.decoder, data=train.fingerprint())
            require_same(stored, asked, place)
            if stored.distilled is not None or stored.config.epochs != epochs or epochs_done(place) > epochs:
                raise InputError(f"{place} holds another run than {epochs} epochs of {cell.config.name}")

    def _places(self, cell: Cell, seeds: list[int]) -> list[Path | None]:
        """The run folder of each seed, None where models are not kept."""
        return [None if self.models is None else self.models / cell.key / f"seed-{seed}" for seed in seeds]

    def _train(self, cell: Cell, seeds: list[int], train: Transitions) -> tuple[Sequence[Result], float]:
        """The runs, and the seconds that the epochs took which kept models had behind them already."""
        places = self._places(cell, seeds)
        there = [place for place in places if place is not None and place.exists()]
        earlier = [sum(epoch.get("seconds", 0.0) for epoch in read_metrics(place)) for place in there]
        with warnings.catch_warnings():
            # Some cells are there to show a collapse, which their figures say.
            warnings.filterwarnings("ignore", message=".*the code is collapsing", category=RuntimeWarning)
            results = dwmr.train_many(
                cell.config,
                train=train,
                seeds=seeds,
                outs=places,
                device=self.device,
                resume=True,
                progress=self.progress,
            )
        return results, max(earlier, default=0.0)

    def _data(self, benchmark: str) -> tuple[Splits, dict[str, Any]]:
        """The splits, and what tells them from other data."""
        if benchmark not in self.loaded:
            splits = load_splits(cached_world(benchmark))
            if splits.test is None or not (splits.train.labelled and splits.test.labelled):
                raise InputError(f"the data of {benchmark} has no labelled splits train and test")
            fingerprint = f"{splits.train.fingerprint()} {splits.test.fingerprint()}"
            if self.fingerprints.get(benchmark, fingerprint) != fingerprint:
                raise InputError(f"the stored runs on {benchmark} come from other data; choose another --out")
            about = {name: value for name, value in splits.train.about.items() if name != "split"}
            self.loaded[benchmark] = splits, {**about, "fingerprint": fingerprint}
        return self.loaded[benchmark]


def kept_or_trained(preset: str, seed: int, train: Transitions, device: str, kept: Path | None) -> WorldModel:
    """A preset's model: the one that ``reproduce --models`` kept, or a new one."""
    place = None if kept is None else kept / preset / f"seed-{seed}"
    if place is not None and place.exists():
        if (done := epochs_done(place)) < (epochs := read_info(place).config.epochs):
            raise InputError(f"{place} is not finished: {done} of {epochs} epochs are done")
        return WorldModel.load(place, device=device)
    return dwmr.train(dwmr.preset(preset), train=train, seed=seed, device=device).model


def _known_seconds(out: Path, table: Table, machine: str) -> dict[str, float]:
    """Mean seconds of the runs stored on this kind of machine, by cell key."""
    known: dict[str, float] = {}
    for cell in table.cells():
        took = [run.took for run in read_cell(out, cell).runs if _kind(run.machine) == _kind(machine)]
        if took:
            known[cell.key] = sum(took) / len(took)
    return known


def _kind(machine: str) -> str:
    """A machine without its versions of Python and torch."""
    return machine.split(", Python")[0]


def _estimate(cell: Cell, known: dict[str, float]) -> float | None:
    """Seconds of a run: those of the cell, or of its preset, or of the slowest cell on its benchmark."""
    for key in (cell.key, f"{cell.benchmark}/{cell.row.preset}"):
        if key in known:
            return known[key]
    return max((value for key, value in known.items() if key.startswith(f"{cell.benchmark}/")), default=None)
