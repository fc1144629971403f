"""Running a study: Optuna proposes trials, successive halving decides which continue.

*Search.* Trials are proposed and trained in batches. The first trial has the preset's values, those up to `STARTUP` are
random, and TPE proposes the others from the scores so far. A batch is trained to the first rung (8 of 40 epochs), its
best third to the second (20), and the best third of those to the end.

*Confirmation.* The best four trials and the start values are trained again with three new seeds each. The highest mean
wins, so on the validation split the choice is never worse than the start values.

Processes that share a study work on different batches; if one dies, another continues its batch from the run folders.
Everything random is seeded from the study's seed and the number of the trial: a single process finds the same trials
however often it is stopped.
"""

import hashlib
import logging
import shutil
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optuna import Study, create_trial
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import TPESampler
from optuna.trial import FrozenTrial, TrialState

from dwmr.config import Config
from dwmr.data.transitions import Splits
from dwmr.errors import InputError, TrainingDiverged
from dwmr.evaluation.evaluate import evaluate_many
from dwmr.files import lock
from dwmr.models.world_model import resolve_device
from dwmr.presets import preset
from dwmr.training.trainer import check_choices, train_many
from dwmr.tuning.spaces import Space, check_space, options, search_space, values_of, without
from dwmr.tuning.study import BATCH, DIVERGED, START, Plan, open_study, place_of, rows_of, summarize, work_folder

STARTUP = 16  # trials before the sampler learns from scores
AT_ONCE = 16  # trials in a batch
CONFIRMED = 4  # trials that are trained again at the end, beside the start values
POLL = 0.5  # seconds between checks of what other processes are doing

log = logging.getLogger("dwmr")


def tune(
    name: str,
    data: Splits,
    storage: str | Path,
    *,
    trials: int = 64,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    device: str = "auto",
) -> dict[str, Any]:
    """Tune a preset, or continue the study in ``storage``, a journal file or a URL for Optuna; returns its summary.

    Options in ``settings`` are fixed and not searched. Data without labels is scored by what predicted and encoded
    codes share.

    Raises:
        InputError: the preset cannot be tuned so, or the storage holds another study; nothing was changed.
    """
    base, space = prepare(name, storage, trials, settings or {})
    device = str(resolve_device(device))
    if data.val is None:
        raise InputError("tuning needs a validation split to choose by: a data folder with train and val")
    select = "imagination" if data.train.labelled and data.val.labelled else "shared"
    fingerprints = f"{data.train.fingerprint()} {data.val.fingerprint()}"
    plan = Plan(base, space, trials, seed, fingerprints, select)
    work, study = work_folder(storage), open_study(storage)
    plan.agree(study, storage)
    work.mkdir(parents=True, exist_ok=True)
    (work / ".gitignore").write_text("*\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)  # options of the sampler
        warnings.filterwarnings("ignore", ".*the code is collapsing", RuntimeWarning)  # a result like any other here
        _Campaign(plan, study, data, work, device).run()
    shutil.rmtree(work, ignore_errors=True)
    return summarize(study, plan, device)


def prepare(name: str, storage: str | Path, trials: int, settings: Mapping[str, Any]) -> tuple[Config, Space]:
    """Check what needs no data; returns the start configuration and the search space."""
    if trials < 1:
        raise InputError(f"trials must be at least 1, got {trials}")
    place_of(storage)
    start = preset(name)
    base, space = start.replace(**settings), without(search_space(start), settings)
    check_choices(base)
    check_space(base, space)
    values_of(base, space)
    return base, space


def survivors(scores: Mapping[int, float]) -> list[int]:
    """The trials that continue after a rung: the best third, but at least one; of equal ones, the earlier."""
    ranked = sorted(scores, key=lambda number: (-scores[number], number))
    return ranked[: max(1, len(ranked) // 3)]


@dataclass
class _Campaign:
    plan: Plan
    study: Study
    data: Splits
    work: Path
    device: str

    def run(self) -> None:
        """Search, then confirm."""
        self._share("batch", range(-(-self.plan.trials // AT_ONCE)), self._search)
        self._share("confirmation", self._best(), self._confirm)

    def _share(self, what: str, numbers: Sequence[int], work: Callable[[int], Any]) -> None:
        """Do the work that no other process does, until all is done. Its results are attributes of the study."""
        while left := [number for number in numbers if f"{what} {number}" not in self.study.user_attrs]:
            for number in left:
                path = self.work / f"{what}-{number}.lock"
                path.parent.mkdir(parents=True, exist_ok=True)  # another process may have ended the study
                path.touch()
                with lock(path) as mine:
                    if mine and f"{what} {number}" not in self.study.user_attrs:
                        self.study.set_user_attr(f"{what} {number}", work(number))
            time.sleep(POLL)

    def _rows(self, batch: int) -> list[FrozenTrial]:
        return [row for row in rows_of(self.study) if row.user_attrs[BATCH] == batch]

    def _search(self, batch: int) -> list[int]:
        """Propose the trials of a batch, and train them from rung to rung; returns their numbers."""
        for index in range(len(self._rows(batch)), min(AT_ONCE, self.plan.trials - batch * AT_ONCE)):
            self._propose(batch, index)
        for epochs in self.plan.rungs():
            self._train_rows([row for row in self._rows(batch) if row.state == TrialState.RUNNING], epochs)
            rows = self._rows(batch)
            scores = {row.number: row.intermediate_values[epochs] for row in rows if epochs in row.intermediate_values}
            kept = survivors(scores)
            running = [row.number for row in rows if row.state == TrialState.RUNNING]
            for number in running:
                if epochs == self.plan.base.epochs:
                    self.study.tell(number, scores[number])
                elif number not in kept:
                    self.study.tell(number, state=TrialState.PRUNED)
        ended = [row for row in rows_of(self.study) if row.state.is_finished()]
        best = max((max(row.intermediate_values.items()) for row in ended if row.intermediate_values), default=(0, 0.0))
        log.info("%s: search %d/%d, best %.1f", self.plan.base.name, len(ended), self.plan.trials, best[1])
        return [row.number for row in self._rows(batch)]

    def _propose(self, batch: int, index: int) -> None:
        """A new row; the first of all has the start values."""
        space = self.plan.space
        if batch == index == 0:
            values, about = values_of(self.plan.base, space), {BATCH: batch, START: True}
            start = create_trial(state=TrialState.RUNNING, params=values, distributions=space, user_attrs=about)
            self.study.add_trial(start)
            return
        seed = self.plan.seed_of("sampler", batch * AT_ONCE + index)
        self.study.sampler = TPESampler(n_startup_trials=STARTUP, multivariate=True, constant_liar=True, seed=seed)
        self.study.ask(space).set_user_attr(BATCH, batch)

    def _train_rows(self, rows: Sequence[FrozenTrial], epochs: int) -> None:
        """Train rows to the given epoch and store their scores."""
        rows = [row for row in rows if epochs not in row.intermediate_values]
        seeds = [self.plan.seed_of("trial", row.number) for row in rows]
        results = self._train([self._config(row) for row in rows], seeds, epochs) if rows else []
        for row, result in zip(rows, results, strict=True):
            if isinstance(result, TrainingDiverged):
                self.study._storage.set_trial_user_attr(row._trial_id, DIVERGED, f"diverged: {result}")
                self.study.tell(row.number, state=TrialState.FAIL)
            else:
                self.study._storage.set_trial_intermediate_value(row._trial_id, epochs, result)

    def _best(self) -> list[int]:
        """The trials to confirm: those that were trained longest, with the best scores, and the start values."""
        scored = [row for row in rows_of(self.study) if row.state != TrialState.FAIL]
        scored.sort(key=lambda row: (max(row.intermediate_values.items()), -row.number), reverse=True)
        starts = [row for row in scored[CONFIRMED:] if START in row.user_attrs]
        return [row.number for row in scored[:CONFIRMED] + starts]

    def _confirm(self, trial: int) -> list[float | None]:
        """The score of a trial with each new seed, None where it diverged."""
        seeds, config = self.plan.fresh_seeds(), self._config(self.study.trials[trial])
        results = self._train([config] * len(seeds), seeds, self.plan.base.epochs)
        return [None if isinstance(result, TrainingDiverged) else round(result, 4) for result in results]

    def _config(self, row: FrozenTrial) -> Config:
        return self.plan.base.replace(**options(row.params))

    def _train(self, configs: list[Config], seeds: list[int], epochs: int) -> list[float | TrainingDiverged]:
        """Train runs to the given epoch; the score of each, or why it diverged."""
        assert self.data.val is not None
        level = log.level
        log.setLevel(logging.WARNING)  # without training's own messages
        try:
            results = train_many(
                [config.replace(epochs=epochs) for config in configs],
                train=self.data.train,
                seeds=seeds,
                outs=[self._run_folder(config, seed) for config, seed in zip(configs, seeds, strict=True)],
                device=self.device,
                resume=True,
            )
        finally:
            log.setLevel(level)
        models = [result.model for result in results if not isinstance(result, TrainingDiverged)]
        scores = map(self.plan.score, evaluate_many(models, train=self.data.train, test=self.data.val))
        return [result if isinstance(result, TrainingDiverged) else next(scores) for result in results]

    def _run_folder(self, config: Config, seed: int) -> Path:
        """Named by what is trained, so that a folder that was left behind is never taken for another run."""
        digest = hashlib.sha256(repr((self.plan.data, config.flat())).encode()).hexdigest()
        return self.work / f"run-{digest[:16]}-{seed}"
