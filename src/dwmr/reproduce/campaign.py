"""Running a table: cell by cell, each run kept as soon as there is one, so that any end is a good one.

On a GPU the runs of a cell that are missing are trained as one program; elsewhere each run is trained, judged and
kept by itself. The test split is read once a run, after its training.
"""

from __future__ import annotations

import json
import logging
import shutil
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import dwmr
from dwmr.config import Config
from dwmr.data.collect import cached_benchmark
from dwmr.data.transitions import Splits, Transitions, load_splits
from dwmr.errors import InputError, TrainingDiverged
from dwmr.evaluation.evaluate import evaluate_many
from dwmr.models.checkpoint import info_of, save_model
from dwmr.models.world_model import WorldModel, resolve_device
from dwmr.reproduce.cells import Cell, Table
from dwmr.reproduce.runs import StoredRun, code_words, machine_words, read_cell, read_table, same_machine, write_run
from dwmr.reproduce.side_by_side import side_by_side
from dwmr.training.trainer import check_choices

MARGIN = 1.25  # an estimate may be wrong by so much before a budget is overrun
BENCHMARKS = Path("benchmarks/results")  # of a checkout, where estimates may be had before the first run

log = logging.getLogger("dwmr")


@dataclass(frozen=True)
class Planned:
    """What there is of a cell, what is missing, and how long that may take (None: unknown)."""

    cell: Cell
    done: list[int]
    missing: list[int]
    stale: dict[int, str]
    seconds: float | None


@dataclass(frozen=True)
class Group:
    """Runs of a cell that are made together. Key and configuration are the cell's as the presets are now."""

    cell: Cell
    key: str
    config: Config
    seeds: list[int]


def plan(table: Table, cells: Sequence[Cell], out: Path, seeds: Sequence[int], device: torch.device) -> list[Planned]:
    """What remains to be done. Cells that share their runs are counted once, where they stand first."""
    machine = machine_words(device)
    known = _known_seconds(out, table, machine)
    seen: set[str] = set()
    planned = []
    for cell in cells:
        runs = read_cell(out, cell)
        have = {run.seed for run in runs.fresh}
        shared = cell.key in seen
        missing = [] if shared else [seed for seed in seeds if seed not in have]
        each = _seconds_each(cell, known)
        planned.append(
            Planned(
                cell,
                done=[seed for seed in seeds if seed in have or shared],
                missing=missing,
                stale={seed: why for seed, why in runs.stale.items() if seed in seeds},
                seconds=0.0 if not missing else None if each is None else each * len(missing),
            )
        )
        seen.add(cell.key)
    return planned


def total_seconds(planned: Sequence[Planned]) -> float | None:
    """Of all that is to run; unknown if any part of it is."""
    each = [entry.seconds for entry in planned]
    known = [seconds for seconds in each if seconds is not None]
    return sum(known) if len(known) == len(each) else None


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


def require_fresh(planned: Sequence[Planned], again: bool) -> None:
    """Runs of other values are not mixed in; they are made again when asked for."""
    stale = [entry for entry in planned if entry.stale]
    if stale and not again:
        count = sum(len(entry.stale) for entry in stale)
        first = stale[0]
        why = next(iter(first.stale.values()))
        raise InputError(
            f"{count} stored run(s) were made with other values, such as those of {first.cell.title} ({why}); "
            f"--again makes them anew"
        )


def run(
    table: Table,
    cells: Sequence[Cell],
    out: Path,
    seeds: Sequence[int],
    *,
    device: str = "auto",
    jobs: int = 1,
    budget: float | None = None,
    again: bool = False,
    models: Path | None = None,
    progress: bool | None = None,
    kept: Callable[[], object] = lambda: None,
) -> bool:
    """Make the runs that are missing; ``kept`` is called after each group of them. True if all are there.

    With several ``jobs`` so many groups are made side by side, each in a process of its own. With a ``budget`` of
    seconds no group is begun that would, by its estimate, end after it. ``models`` keeps the trained models too, as run
    folders.
    """
    started = time.perf_counter()
    where = resolve_device(device)
    for cell in cells:
        check_choices(cell.config)
    require_fresh(plan(table, cells, out, seeds, where), again)
    late = False

    def due() -> Iterator[Group]:
        nonlocal late
        for number, cell, group in _groups(cells, out, seeds, where):
            each = _seconds_each(cell, _known_seconds(out, table, machine_words(where)))
            seconds = None if each is None else each * len(group)
            spent = time.perf_counter() - started
            if budget is not None and spent + MARGIN * (seconds or 0.0) > budget:
                log.info("stopped in order after %.0f s; the same command goes on", spent)
                late = True
                return
            which = ", ".join(map(str, group))
            duration = f", about {seconds:.0f} s" if seconds is not None else ", no estimate yet"
            log.info("[%d/%d] %s: seed %s%s", number, len(cells), cell.title, which, duration)
            yield Group(cell, cell.key, cell.config, group)

    maker = _Maker(_fingerprints(out, table), str(where), models, progress if jobs == 1 else False)
    made = ((group, maker(group)) for group in due()) if jobs == 1 else side_by_side(maker, due(), jobs)
    for group, stored in made:
        for each in stored:
            write_run(out, group.cell, each)
        if jobs > 1:
            log.info("%s: %d run(s) in %.0f s", group.cell.title, len(stored), sum(each.took for each in stored))
        kept()
    return not late


def _groups(
    cells: Sequence[Cell], out: Path, seeds: Sequence[int], device: torch.device
) -> Iterator[tuple[int, Cell, list[int]]]:
    """What is missing of each cell when its turn has come: at once on a GPU, else run by run.

    A group that a kill cut off while its files were written is made again as a whole, so that it comes out the same.
    Cells that share their runs are made once.
    """
    seen: set[str] = set()
    for number, cell in enumerate(cells, start=1):
        if cell.key in seen:
            continue
        seen.add(cell.key)
        fresh = read_cell(out, cell).fresh
        missing = [seed for seed in seeds if seed not in {run.seed for run in fresh}]
        if device.type != "cuda":
            yield from ((number, cell, [seed]) for seed in missing)
            continue
        for together in [run.together for run in fresh]:
            if set(together) & set(missing):
                missing = [seed for seed in missing if seed not in together]
                yield number, cell, together
        if missing:
            yield number, cell, missing


def _fingerprints(out: Path, table: Table) -> dict[str, str]:
    """The data that stored runs were made with, by benchmark."""
    return {
        benchmark: runs.fresh[0].data["fingerprint"]
        for (_, benchmark), runs in read_table(out, table).items()
        if runs.fresh
    }


@dataclass
class _Maker:
    """Trains groups of runs and judges them on the test split. The benchmarks in use are loaded once."""

    stored: dict[str, str]
    device: str
    models: Path | None
    progress: bool | None
    loaded: dict[str, tuple[Splits, dict[str, Any]]] = field(default_factory=dict)

    def __call__(self, group: Group) -> list[StoredRun]:
        started = time.perf_counter()
        splits, words = self._data(group.cell.benchmark)
        assert splits.test is not None
        loaded = time.perf_counter()
        with warnings.catch_warnings():
            # Some cells are there to show a collapse; it is in their figures.
            warnings.filterwarnings("ignore", message=".*the code is collapsing", category=RuntimeWarning)
            results = dwmr.train_many(
                group.config, train=splits.train, seeds=group.seeds, device=self.device, progress=self.progress
            )
        trained = time.perf_counter()
        runs = [result for result in results if isinstance(result, dwmr.Run)]
        if self.models is not None:
            _keep_models(runs, self.models / group.key, splits.train)
        told = {"train": splits.train, "test": splits.test, "rollout": splits.rollout}
        found = iter(evaluate_many([each.model for each in runs], **told) if runs else [])  # type: ignore[arg-type]
        judged = time.perf_counter()
        seconds = {"loading": loaded - started, "training": trained - loaded, "evaluation": judged - trained}
        return [
            StoredRun(
                seed=seed,
                config=group.config.to_dict(),
                data=words,
                figures=None if isinstance(result, TrainingDiverged) else next(found).figures,
                diverged=str(result) if isinstance(result, TrainingDiverged) else None,
                last_epoch=result.metrics[-1] if isinstance(result, dwmr.Run) else None,
                together=list(group.seeds),
                seconds={name: round(value / len(group.seeds), 3) for name, value in seconds.items()},
                machine=machine_words(torch.device(self.device)),
                code=code_words(),
            )
            for seed, result in zip(group.seeds, results)
        ]

    def _data(self, benchmark: str) -> tuple[Splits, dict[str, Any]]:
        """The splits, and words that tell them from others."""
        if benchmark not in self.loaded:
            splits = load_splits(cached_benchmark(benchmark))
            if splits.test is None or not (splits.train.labelled and splits.test.labelled):
                raise InputError(f"the data of {benchmark} has no labelled splits train and test")
            fingerprint = f"{splits.train.fingerprint()} {splits.test.fingerprint()}"
            if self.stored.get(benchmark, fingerprint) != fingerprint:
                raise InputError(f"the stored runs on {benchmark} come from other data; choose another --out")
            words = {name: value for name, value in splits.train.about.items() if name != "split"}
            self.loaded[benchmark] = splits, {**words, "fingerprint": fingerprint}
        return self.loaded[benchmark]


def kept_or_trained(preset: str, seed: int, train: Transitions, device: str, kept: Path | None) -> WorldModel:
    """A preset's model, from a folder in which a campaign kept its models where it is there."""
    place = None if kept is None else kept / preset / f"seed-{seed}"
    if place is not None and place.exists():
        return WorldModel.load(place, device=device)
    return dwmr.train(dwmr.preset(preset), train=train, seed=seed, device=device).model


def _keep_models(runs: Sequence[dwmr.Run], folder: Path, train: Transitions) -> None:
    """Each run's model as FOLDER/seed-N, in the place of one that a stopped campaign left."""
    for run in runs:
        place = folder / f"seed-{run.seed}"
        shutil.rmtree(place, ignore_errors=True)
        decoder = run.model.decoder is not None
        save_model(place, run.model, info_of(run.config, run.seed, train, decoder=decoder, data=train.fingerprint()))


def _known_seconds(out: Path, table: Table, machine: str) -> dict[str, float]:
    """Seconds a run by cell key, of runs stored on this kind of machine, and of the committed benchmarks of it."""
    known: dict[str, float] = {}
    for path in sorted(BENCHMARKS.glob("*.json")):
        figures = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(figures, dict) or not same_machine(str(figures.get("machine", "")), machine):
            continue
        for name, value in figures.items():
            kind = name.removesuffix("_seconds_per_run")
            benchmark, _, model = kind.partition("_")
            if kind == name or model in ("naive", "plain") or "_" in model:
                continue
            for noise in ("", "-noisy"):
                known[f"{benchmark}{noise}/{model}"] = value
    for cell in table.cells():
        took = [run.took for run in read_cell(out, cell).fresh if same_machine(run.machine, machine)]
        if took:
            known[cell.key] = sum(took) / len(took)
    return known


def _seconds_each(cell: Cell, known: dict[str, float]) -> float | None:
    """Seconds a run of the very cell, else of its preset, else of the slowest one on its benchmark, else of one run
    of the fast path."""
    for key in (cell.key, f"{cell.benchmark}/{cell.row.preset}"):
        if key in known:
            return known[key]
    single = f"{cell.benchmark}/fast"
    others = [value for key, value in known.items() if key.startswith(f"{cell.benchmark}/") and key != single]
    return max(others) if others else known.get(single)
