"""Tuning: Optuna asks and is told, runs are trained many at once, successive halving decides which go on.

A campaign is a row of stages, the same for every model:

1. *search*: all trials, to the first rung (8 of 40 epochs). The first is the preset's start values. The next are
   random, until `STARTUP` are told; then a tree-structured Parzen estimator (TPE) learns from the scores so far.
2. *rungs*: the best third goes on to the second rung (20), the best third of those to the last epoch (40). They go
   on from their run folders; nothing is trained twice.
3. *confirmation*: the best four, and the start values beside them, are trained again with three fresh seeds each. The
   highest mean wins, so on the validation split the choice is never worse than the start values, nor mere luck.

Every score is the validation imagination F1, with a probe fitted on training encodings, unless another figure is
chosen by. The halving is synchronous: a
stage begins when the one before is told, so only scores of equal epochs are ever compared, by the sampler too. What is
searched is thereby early promise; that a third goes on, and that the last epoch and fresh seeds decide, corrects it.

A batch is asked together and trained together, on a GPU the runs of one scheme as one program. It is told before the
next is asked, and the sampler is seeded anew from the study's seed and the number of trials so far: one process finds
the same trials however often it was stopped. A process that dies leaves running rows behind; whoever comes next
continues them from their run folders, or from the start where these are gone.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import shutil
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dwmr import progress as progress_bars
from dwmr.config import Config
from dwmr.data.transitions import Splits, Transitions
from dwmr.errors import InputError, TrainingDiverged, unknown
from dwmr.evaluation.evaluate import imagination_scores
from dwmr.models.world_model import resolve_device
from dwmr.presets import start_values
from dwmr.training.trainer import check_choices, train_many
from dwmr.tuning.journal import (
    FrozenTrial,
    Journal,
    Study,
    distributions,
    is_told,
    is_waiting,
    rows_of,
    sampler,
    score_of,
)
from dwmr.tuning.plan import (
    CONFIRMATION,
    SEARCH,
    SELECT,
    Plan,
    derived_seed,
    epochs_behind,
    rows_wanted,
    run_epochs,
    run_epochs_done,
)
from dwmr.tuning.report import summarize
from dwmr.tuning.spaces import Space, check_space, search_space, values_of, without

TRIALS, AT_ONCE = 64, 16
STARTUP = 16  # trials told before the sampler learns from them
POLL = 0.5  # seconds between looks at what other processes are doing

log = logging.getLogger("dwmr")


def tune(
    name: str,
    data: Splits,
    storage: str | Path,
    *,
    trials: int = TRIALS,
    seed: int = 0,
    settings: dict[str, Any] | None = None,
    select: str = SELECT[0],
    device: str = "auto",
    at_once: int = AT_ONCE,
    budget: float | None = None,
    scratch: str | Path | None = None,
    progress: bool | None = None,
) -> dict[str, Any]:
    """Tune a preset, or go on with the campaign in the journal ``storage``; returns what is known at the end.

    ``settings`` fixes options; those are not searched. ``select`` is what counts: "imagination", the paper's F1, for
    which the data must be labelled, or "shared", `dwmr.evaluation.codes.shared_dimensions`, for any data.
    ``budget`` ends the call in order before so many seconds have passed; the same call then goes on. Runs in training
    are kept in ``scratch``, by default beside the journal.

    Raises:
        InputError: what was asked for cannot be tuned, or the journal holds another campaign; nothing was changed.
    """
    deadline = None if budget is None else time.monotonic() + budget
    if select not in SELECT:
        raise unknown("figure to choose by", select, SELECT)
    storage = Path(storage)
    base, space = prepare(name, settings or {}, storage, trials=trials, at_once=at_once, budget=budget)
    where = str(resolve_device(device))
    train, val = data.train, data.val
    if val is None:
        raise InputError("tuning needs a validation split to choose by: a data folder with train and val")
    if select == "imagination" and not (train.labelled and val.labelled):
        raise InputError(
            "this data has no states to compare imagined boards with; --select shared chooses without them"
        )
    plan = Plan(base, space, trials, seed, f"{train.fingerprint()} {val.fingerprint()}", select)
    journal = Journal(storage)
    finished = False
    try:
        folder = (journal.work if scratch is None else Path(scratch)) / f"runs-{_agree(journal, plan, storage)}"
        done = run_epochs_done(journal, plan)
        with progress_bars.bar(f"tune {base.name}", run_epochs(plan), done=done, show=progress) as shown:
            campaign = _Campaign(plan, train, val, journal, folder, where, at_once, _Clock(deadline), shown)
            finished = campaign.run()
        if finished:
            shutil.rmtree(folder, ignore_errors=True)
        return summarize(journal, plan, finished=finished, device=where)
    finally:
        journal.close(finished=finished)


def prepare(
    name: str,
    settings: dict[str, Any],
    storage: Path,
    *,
    trials: int = TRIALS,
    at_once: int = AT_ONCE,
    budget: float | None = None,
) -> tuple[Config, Space]:
    """What can be checked before there is any data: the configuration to start from, and the space around it."""
    for what, count in (("trials", trials), ("at_once", at_once)):
        if count < 1:
            raise InputError(f"{what} must be at least 1, got {count}")
    if budget is not None and not budget > 0:
        raise InputError(f"the budget must be more than 0 seconds, got {budget:g}")
    if storage.suffix in (".json", ".png") or storage.is_dir() or not storage.name:
        raise InputError(f"--storage names a journal file, such as study.journal, got {str(storage)!r}")
    start = start_values(name)
    base = start.replace(**settings)
    space = without(search_space(start), settings)
    check_choices(base)
    check_space(base, space)
    values_of(base, space)
    return base, space


def _agree(journal: Journal, plan: Plan, storage: Path) -> str:
    """Write down what the campaign is, or see that it is the same; the name of its run folders."""
    study, asked = journal.stage(SEARCH), plan.about()
    with journal.turn():
        if "about" not in study.user_attrs:
            study.set_user_attr("about", asked | {"token": secrets.token_hex(4)})
    stored = Config().flat() | study.user_attrs["about"]  # an option that came later had its default then
    token = stored["token"]
    for name in dict.fromkeys([*asked, *stored]):
        if name != "token" and stored.get(name) != asked.get(name):
            raise InputError(
                f"{storage} holds another study, with {name} {stored.get(name)} instead of {asked.get(name)}"
            )
    return str(token)


@dataclass(frozen=True)
class _Task:
    row: FrozenTrial
    config: Config
    seed: int
    folder: Path


class _Clock:
    """How much time is left, and whether a piece of work fits into it, judged by earlier pieces."""

    def __init__(self, deadline: float | None) -> None:
        self.deadline = deadline
        self.trained = 0  # epochs of single runs
        self.training = 0.0  # seconds that they took
        self.scoring = 0.0  # the longest that scoring took
        self.epoch = 0.0  # the longest that passed between two questions
        self.asked: float | None = None

    def left(self) -> float:
        return float("inf") if self.deadline is None else self.deadline - time.monotonic()

    def fits(self, run_epochs: int) -> bool:
        """Whether there is time for so many epochs of single runs. The first piece of work is always begun."""
        expected = 1.1 * self.training / max(1, self.trained) * run_epochs + self.scoring
        return self.left() > expected

    def goes_on(self) -> bool:
        """Asked before each epoch: is there time for it and for the scoring?"""
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
        """Work through the stages; whether they are all done."""
        for stage, epochs in self.plan.stages().items():
            study = self.journal.stage(stage)
            wanted = [] if stage == SEARCH else rows_wanted(self.journal, self.plan, stage)
            count = self.plan.trials if stage == SEARCH else len(wanted)
            if stage != SEARCH:
                self._forget_all_but([number for number, _ in wanted] if stage != CONFIRMATION else [])
            while sum(map(is_told, rows_of(study))) < count:
                size, each = min(self.at_once, count), epochs - epochs_behind(self.plan, stage)
                while size > 1 and stage != SEARCH and not self.clock.fits(size * each):
                    size //= 2  # what is searched must not depend on the time, what is left to train may
                if not self.clock.fits(size * each):
                    log.info("no time for another batch; the same command goes on")
                    return False
                tasks = self._take(study, wanted, size)
                if not tasks:
                    time.sleep(min(POLL, max(0.0, self.clock.left())))  # other processes are at work on the rest
                    continue
                if not self._train_and_tell(study, tasks, epochs):
                    log.info("stopped between two epochs; the same command goes on")
                    return False
                self._say(study, count)
        return True

    def _take(self, study: Study, wanted: list[tuple[int, int]], size: int) -> list[_Task]:
        """A batch to work on: what dead processes left, or else new rows; none if all are begun."""
        with self.journal.turn():
            taken = self.journal.adopt(rows_of(study), size)
            if not taken:
                taken = self._open(study, wanted, size) if wanted else self._ask(study, size)
        params = {row.number: row.params for row in rows_of(self.journal.stage(SEARCH))}
        return [self._task(study, row, params) for row in rows_of(study) if row.number in taken]

    def _ask(self, study: Study, size: int) -> list[int]:
        """New trials: where the sampler looks next."""
        rows = rows_of(study)
        begun = sum(not is_waiting(row) for row in rows)
        if not any(row.user_attrs.get("start") for row in rows):
            study.enqueue_trial(values_of(self.plan.base, self.plan.space), user_attrs={"start": True})
        study.sampler = sampler(derived_seed(self.plan.seed, "sampler", begun), STARTUP)
        space = distributions(self.plan.space)
        return [self.journal.begin(study, space) for _ in range(min(size, self.plan.trials - begun))]

    def _open(self, study: Study, wanted: list[tuple[int, int]], size: int) -> list[int]:
        """Rows of a later stage, in the order wanted."""
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
        """Train a batch to the given epoch, score it and tell; False if the time ran out before."""
        for structure in dict.fromkeys(task.config.structure() for task in tasks):
            group = [task for task in tasks if task.config.structure() == structure]
            if not self._train_group(study, group, epochs):
                return False
        return True

    def _train_group(self, study: Study, group: list[_Task], epochs: int) -> bool:
        started, trained = time.monotonic(), 0

        def proceed(runs: int) -> bool:
            nonlocal trained
            going = self.clock.goes_on()
            if going:
                trained += runs
                self.bar.advance(runs)
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
        self.clock.trained += trained
        self.clock.training += scoring - started
        for task, result in zip(group, results):
            found: dict[str, float] | str
            if isinstance(result, TrainingDiverged):
                found = str(result)
            else:
                bits = result.metrics[-1]["bits"]
                found = {**next(scores), "dead": bits["dead"], "flips": bits["flips"]}
            self.journal.tell(study, task.row, found, (ended - started) / len(group), self.plan.select)
        return True

    def _forget_all_but(self, numbers: list[int]) -> None:
        """Remove the run folders of trials that are stopped."""
        kept = {f"trial-{number}" for number in numbers}
        for folder in self.folder.glob("trial-*"):
            if folder.name not in kept:
                shutil.rmtree(folder, ignore_errors=True)

    def _say(self, study: Study, count: int) -> None:
        rows = rows_of(study)
        scores = [score for row in rows if (score := score_of(row)) is not None]
        line = f"{study.study_name} {sum(map(is_told, rows))}/{count}" + (f", best {max(scores):.1f}" if scores else "")
        self.bar.describe(line)
        log.info("%s: %s", self.plan.base.name, line)


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Here a collapse is a result among others, and which engine runs is no news."""
    level = log.level
    log.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*bits never changed", RuntimeWarning)
            yield
    finally:
        log.setLevel(level)
