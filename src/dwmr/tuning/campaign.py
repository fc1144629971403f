"""Running a study: Optuna proposes trials, successive halving decides which continue.

The stages are the same for every model:

1. *search*: all trials, to the first rung (8 of 40 epochs). The first trial has the preset's values, those up to
   `STARTUP` are random, and the others are proposed by TPE from the scores so far.
2. *rungs*: the best third continues to the second rung (20), the best third of those to the last epoch (40).
3. *confirmation*: the best four and the start values are trained again with three new seeds each. The highest mean
   wins, so on the validation split the choice is never worse than the start values.

The score is the validation imagination F1, or another figure on request. A stage begins when the one before is done, so
only scores after the same number of epochs are compared, also by TPE.

Trials are proposed and trained in batches, and the sampler is seeded from the study's seed and the number of trials so
far: a single process finds the same trials however often it is stopped. If a process dies, another continues its rows
from their run folders, or from the beginning where these are gone.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import shutil
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from optuna import Study
from optuna.trial import FrozenTrial

from dwmr import progress as progress_bars
from dwmr.config import RENAMED, Config
from dwmr.data.transitions import Splits, Transitions
from dwmr.errors import InputError, TrainingDiverged, unknown
from dwmr.evaluation.evaluate import imagination_scores
from dwmr.models.world_model import resolve_device
from dwmr.presets import preset
from dwmr.training.trainer import check_choices, train_many
from dwmr.tuning.journal import Journal, distributions, is_done, is_waiting, place_of, rows_of, sampler, score_of
from dwmr.tuning.spaces import Space, check_space, options_of, search_space, values_of, without
from dwmr.tuning.stages import CONFIRMATION, SEARCH, SELECT, Plan, derived_seed, epochs_done, rows_wanted
from dwmr.tuning.summary import summarize

STARTUP = 16  # trials before the sampler learns from scores
POLL = 0.5  # seconds between checks of what other processes are doing

log = logging.getLogger("dwmr")


@dataclass(frozen=True)
class Options:
    """How a study is run.

    Args:
        trials: configurations to try
        seed: seed of the study
        settings: fixed options, which are not searched
        select: "imagination", the paper's F1, needs labels; "shared", the dimensions that predicted and encoded codes
            share, needs none
        device: as for training
        at_once: trials that are proposed, and trained, in one batch
        budget: seconds after which the study stops cleanly; the same call continues it
        progress: show a progress bar
    """

    trials: int = 64
    seed: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    select: str = SELECT[0]
    device: str = "auto"
    at_once: int = 16
    budget: float | None = None
    progress: bool | None = None


def tune(name: str, data: Splits, storage: str | Path, options: Options | None = None) -> dict[str, Any]:
    """Tune a preset, or continue the study in ``storage``, a journal file or a URL for Optuna; returns its summary.

    Raises:
        InputError: the preset cannot be tuned so, or the journal holds another study; nothing was changed.
    """
    options = options or Options()
    deadline = None if options.budget is None else time.monotonic() + options.budget
    base, space = prepare(name, storage, options)
    device = str(resolve_device(options.device))
    train, val = data.train, data.val
    if val is None:
        raise InputError("tuning needs a validation split to choose by: a data folder with train and val")
    if options.select == "imagination" and not (train.labelled and val.labelled):
        raise InputError("the F1 of imagination needs labels, and this data has none; --select shared chooses without")
    fingerprints = f"{train.fingerprint()} {val.fingerprint()}"
    plan = Plan(base, space, options.trials, options.seed, fingerprints, options.select)
    journal = Journal(storage)
    finished = False
    try:
        folder = journal.work / f"runs-{_agree(journal, plan, storage)}"
        done = epochs_done(journal, plan)
        with progress_bars.bar(f"tune {base.name}", plan.total_epochs(), done=done, show=options.progress) as shown:
            campaign = _Campaign(plan, train, val, journal, folder, device, options.at_once, _Clock(deadline), shown)
            finished = campaign.run()
        if finished:
            shutil.rmtree(folder, ignore_errors=True)
        return summarize(journal, plan, finished=finished, device=device)
    finally:
        journal.close(finished=finished)


def prepare(name: str, storage: str | Path, options: Options) -> tuple[Config, Space]:
    """Check what needs no data; returns the start configuration and the search space."""
    for what, count in (("trials", options.trials), ("at_once", options.at_once)):
        if count < 1:
            raise InputError(f"{what} must be at least 1, got {count}")
    if options.budget is not None and not options.budget > 0:
        raise InputError(f"the budget must be more than 0 seconds, got {options.budget:g}")
    if options.select not in SELECT:
        raise unknown("figure to choose by", options.select, SELECT)
    place_of(storage)
    start = preset(name)
    base, space = start.replace(**options.settings), without(search_space(start), options.settings)
    check_choices(base)
    check_space(base, space)
    values_of(base, space)
    return base, space


def _agree(journal: Journal, plan: Plan, storage: str | Path) -> str:
    """Store what the study is, or check that it is the same; returns the name of its run folders."""
    study, asked = journal.stage(SEARCH), plan.about()
    with journal.turn:
        if "about" not in study.user_attrs:
            study.set_user_attr("about", asked | {"token": secrets.token_hex(4)})
    about = {RENAMED.get(name, name): value for name, value in study.user_attrs["about"].items()}
    stored = Config().flat() | about  # a journal may be older than an option
    ranges = [name for name in stored if name.startswith("the range of ")]  # other names of old journals are gone
    searched = {option for name in plan.space for option in options_of(name)}  # their first values are in the journal
    for name in dict.fromkeys([*asked, *ranges]):
        if name not in searched and stored.get(name) != asked.get(name):
            raise InputError(
                f"{storage} holds another study, with {name} {stored.get(name)} instead of {asked.get(name)}"
            )
    return str(stored["token"])


@dataclass(frozen=True)
class _Task:
    row: FrozenTrial
    config: Config
    seed: int
    folder: Path


class _Clock:
    """The time left, and whether another epoch fits into it."""

    def __init__(self, deadline: float | None) -> None:
        self.deadline = deadline
        self.scoring = 0.0  # the most seconds that scoring took
        self.epoch = 0.0  # the most seconds between two epochs
        self.asked: float | None = None

    def left(self) -> float:
        return float("inf") if self.deadline is None else self.deadline - time.monotonic()

    def goes_on(self) -> bool:
        """Called before each epoch: is there time for it and for scoring?"""
        now = time.monotonic()
        if self.asked is not None:
            self.epoch = max(self.epoch, now - self.asked)
        self.asked = now
        return self.left() > self.epoch + self.scoring


@dataclass
class _Campaign:
    plan: Plan
    train: Transitions
    val: Transitions
    journal: Journal
    folder: Path
    device: str
    at_once: int
    clock: _Clock
    bar: progress_bars.Bar

    def run(self) -> bool:
        """Work through the stages; returns whether all are done."""
        for stage, epochs in self.plan.stages().items():
            study = self.journal.stage(stage)
            wanted = [] if stage == SEARCH else rows_wanted(self.journal, self.plan, stage)
            count = self.plan.trials if stage == SEARCH else len(wanted)
            if stage != SEARCH:
                self._remove_all_but([number for number, _ in wanted] if stage != CONFIRMATION else [])
            while sum(map(is_done, rows_of(study))) < count:
                tasks = self._take(study, wanted, min(self.at_once, count)) if self.clock.left() > 0 else []
                if self.clock.left() <= 0 or (tasks and not self._train_and_tell(study, tasks, epochs)):
                    log.info("stopped cleanly; rerun the same command to continue")
                    return False
                if not tasks:
                    time.sleep(min(POLL, self.clock.left()))  # other processes work on the rest
                else:
                    self._report(study, count)
        return True

    def _take(self, study: Study, wanted: list[tuple[int, int]], size: int) -> list[_Task]:
        """A batch to work on: rows of dead processes, otherwise new rows; none if all are started."""
        with self.journal.turn:
            taken = self.journal.adopt(rows_of(study), size)
            if not taken:
                taken = self._open(study, wanted, size) if wanted else self._ask(study, size)
        params = {row.number: row.params for row in rows_of(self.journal.stage(SEARCH))}
        return [self._task(study, row, params) for row in rows_of(study) if row.number in taken]

    def _ask(self, study: Study, size: int) -> list[int]:
        """New trials of the search."""
        rows = rows_of(study)
        begun = sum(not is_waiting(row) for row in rows)
        if not any(row.user_attrs.get("start") for row in rows):
            study.enqueue_trial(values_of(self.plan.base, self.plan.space), user_attrs={"start": True})
        study.sampler = sampler(derived_seed(self.plan.seed, "sampler", begun), STARTUP)
        space = distributions(self.plan.space)
        return [self.journal.begin(study, space) for _ in range(min(size, self.plan.trials - begun))]

    def _open(self, study: Study, wanted: list[tuple[int, int]], size: int) -> list[int]:
        """Rows of a later stage, in the order of ``wanted``."""
        there = {(row.user_attrs["of"], row.user_attrs["seed"]) for row in rows_of(study)}
        for number, seed in wanted:
            if (number, seed) not in there:
                study.enqueue_trial({}, user_attrs={"of": number, "seed": seed})
        waiting = sum(map(is_waiting, rows_of(study)))
        return [self.journal.begin(study, {}) for _ in range(min(size, waiting))]

    def _task(self, study: Study, row: FrozenTrial, params: dict[int, dict[str, Any]]) -> _Task:
        number = row.user_attrs.get("of", row.number)
        seed = row.user_attrs.get("seed", self.plan.trial_seed(number))
        again = study.study_name == CONFIRMATION
        folder = self.folder / (f"again-{number}-{seed}" if again else f"trial-{number}")
        return _Task(row, self.plan.config(params[number]), seed, folder)

    def _train_and_tell(self, study: Study, tasks: list[_Task], epochs: int) -> bool:
        """Train a batch to the given epoch and store its scores; False if the time is up."""
        structures = dict.fromkeys(task.config.structure() for task in tasks)
        groups = [[task for task in tasks if task.config.structure() == structure] for structure in structures]
        return all(self._train_group(study, group, epochs) for group in groups)

    def _train_group(self, study: Study, group: list[_Task], epochs: int) -> bool:
        started = time.monotonic()

        def proceed(runs: int) -> bool:
            going = self.clock.goes_on()
            self.bar.advance(runs if going else 0)
            return going

        self.clock.asked = None
        with _quietly():
            results = train_many(
                [task.config.replace(epochs=epochs) for task in group],
                train=self.train,
                seeds=[task.seed for task in group],
                outs=[task.folder for task in group],
                device=self.device,
                resume=True,
                progress=False,
                proceed=proceed,
            )
        runs = [result for result in results if not isinstance(result, TrainingDiverged)]
        if any(len(run.metrics) < epochs for run in runs):
            return False
        scoring = time.monotonic()
        models = [run.model for run in runs]
        scores = iter(imagination_scores(models, train=self.train, test=self.val) if models else [])
        ended = time.monotonic()
        self.clock.scoring = max(self.clock.scoring, ended - scoring)
        for task, result in zip(group, results, strict=True):
            found: dict[str, float] | str = str(result)
            if not isinstance(result, TrainingDiverged):
                bits = result.metrics[-1]["bits"]
                found = {**next(scores), "dead": bits["dead"], "flips": bits["flips"]}
            self.journal.tell(study, task.row, found, (ended - started) / len(group), self.plan.select)
        return True

    def _remove_all_but(self, numbers: list[int]) -> None:
        """Remove the run folders of trials that do not continue."""
        kept = {f"trial-{number}" for number in numbers}
        for folder in self.folder.glob("trial-*"):
            if folder.name not in kept:
                shutil.rmtree(folder, ignore_errors=True)

    def _report(self, study: Study, count: int) -> None:
        scores = [score for row in rows_of(study) if (score := score_of(row)) is not None]
        best = f", best {max(scores):.1f}" if scores else ""
        line = f"{study.study_name} {sum(map(is_done, rows_of(study)))}/{count}{best}"
        self.bar.describe(line)
        log.info("%s: %s", self.plan.base.name, line)


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Without training's own messages: a collapse is a result like any other here."""
    level = log.level
    log.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*bits never changed", RuntimeWarning)
            yield
    finally:
        log.setLevel(level)
