"""Running a study: Optuna proposes trials, successive halving decides which continue.

*Search.* Trials are proposed and trained in batches. The first trial has the preset's values, those up to `STARTUP` are
random, and TPE proposes the others from the scores so far. A batch is trained to the first rung (8 of 40 epochs), its
best third to the second (20), and the best third of those to the end.

*Confirmation.* The best four trials and the start values are trained again with three new seeds each. The highest mean
wins, so on the validation split the choice is never worse than the start values.

Processes that share a study search batches of their own until there are enough trials. A batch that was interrupted
does not count, and another takes its place. Everything random is seeded from the study's seed and the number of the
trial.
"""

import logging
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optuna import Study, Trial
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import TPESampler
from optuna.trial import TrialState

from dwmr.config import Config
from dwmr.data.transitions import Splits
from dwmr.errors import InputError, TrainingDiverged
from dwmr.evaluation.evaluate import evaluate_many
from dwmr.models.world_model import resolve_device
from dwmr.presets import preset
from dwmr.training.trainer import check_choices, train_many
from dwmr.tuning.spaces import Space, check_space, options, search_space, values_of, without
from dwmr.tuning.study import DIVERGED, START, Plan, open_study, place_of, rows_of, summarize

STARTUP = 16  # trials before the sampler learns from scores
AT_ONCE = 16  # trials in a batch
CONFIRMED = 4  # trials that are trained again at the end, beside the start values

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
    codes share. If an InputError is raised, nothing was changed.
    """
    base, space = prepare(name, storage, trials, settings or {})
    device = str(resolve_device(device))
    if data.val is None:
        raise InputError("tuning needs a validation split to choose by: a data folder with train and val")
    select = "imagination" if data.train.labelled and data.val.labelled else "shared"
    fingerprints = f"{data.train.fingerprint()} {data.val.fingerprint()}"
    plan = Plan(base, space, trials, seed, fingerprints, select)
    study = open_study(storage)
    plan.agree(study, storage)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)  # options of the sampler
        warnings.filterwarnings("ignore", ".*the code is collapsing", RuntimeWarning)  # a result like any other here
        _Campaign(plan, study, data, device).run()
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
    device: str

    def run(self) -> None:
        """Search, then confirm."""
        while (left := self.plan.trials - len(rows := rows_of(self.study))) > 0:
            if not any(START in row.user_attrs for row in rows):
                self.study.enqueue_trial(values_of(self.plan.base, self.plan.space), user_attrs={START: True})
            self._search([self._propose() for _ in range(min(left, AT_ONCE))])
        for number in self._best():
            if f"confirmation {number}" not in self.study.user_attrs:
                self.study.set_user_attr(f"confirmation {number}", self._confirm(number))

    def _propose(self) -> Trial:
        seed = self.plan.seed_of("sampler", len(self.study.get_trials(deepcopy=False)))
        self.study.sampler = TPESampler(n_startup_trials=STARTUP, multivariate=True, constant_liar=True, seed=seed)
        return self.study.ask(self.plan.space)

    def _search(self, trials: list[Trial]) -> None:
        """Train a batch from rung to rung, and tell the study how each trial ends."""
        scores: dict[int, float] = {}
        with tempfile.TemporaryDirectory(prefix="dwmr-tune-") as work:
            for epochs in self.plan.rungs():
                results = self._train(
                    [self._config(trial.params) for trial in trials],
                    [self.plan.seed_of("trial", trial.number) for trial in trials],
                    epochs,
                    [Path(work, str(trial.number)) for trial in trials],
                )
                ended = {trial.number: result for trial, result in zip(trials, results, strict=True)}
                scores = {number: result for number, result in ended.items() if isinstance(result, float)}
                kept = survivors(scores)
                for trial in trials:
                    if trial.number not in scores:
                        trial.set_user_attr(DIVERGED, f"diverged: {ended[trial.number]}")
                        self.study.tell(trial, state=TrialState.FAIL)
                        continue
                    trial.report(scores[trial.number], epochs)
                    if epochs == self.plan.base.epochs:
                        self.study.tell(trial, scores[trial.number])
                    elif trial.number not in kept:
                        self.study.tell(trial, state=TrialState.PRUNED)
                trials = [trial for trial in trials if trial.number in kept]
        done = len(rows_of(self.study))
        best = max(scores.values(), default=0.0)
        log.info("%s: search %d/%d, best of the batch %.1f", self.plan.base.name, done, self.plan.trials, best)

    def _best(self) -> list[int]:
        """The trials to confirm: those that were trained longest, with the best scores, and the start values."""
        scored = [row for row in rows_of(self.study) if row.state != TrialState.FAIL]
        scored.sort(key=lambda row: (max(row.intermediate_values.items()), -row.number), reverse=True)
        starts = [row for row in scored[CONFIRMED:] if START in row.user_attrs]
        return [row.number for row in scored[:CONFIRMED] + starts]

    def _confirm(self, trial: int) -> list[float | None]:
        """The score of a trial with each new seed, None where it diverged."""
        seeds, config = self.plan.fresh_seeds(), self._config(self.study.trials[trial].params)
        results = self._train([config] * len(seeds), seeds, self.plan.base.epochs)
        return [round(result, 4) if isinstance(result, float) else None for result in results]

    def _config(self, params: Mapping[str, Any]) -> Config:
        return self.plan.base.replace(**options(params))

    def _train(
        self, configs: list[Config], seeds: list[int], epochs: int, outs: Sequence[Path] | None = None
    ) -> list[float | TrainingDiverged]:
        """Train runs to the given epoch, on from their folders; the score of each, or why it diverged."""
        if not configs:
            return []
        assert self.data.val is not None
        level = log.level
        log.setLevel(logging.WARNING)  # without training's own messages
        try:
            results = train_many(
                [config.replace(epochs=epochs) for config in configs],
                train=self.data.train,
                seeds=seeds,
                outs=outs,
                device=self.device,
                resume=outs is not None,
            )
        finally:
            log.setLevel(level)
        models = [result.model for result in results if not isinstance(result, TrainingDiverged)]
        scores = map(self.plan.score, evaluate_many(models, train=self.data.train, test=self.data.val))
        return [result if isinstance(result, TrainingDiverged) else next(scores) for result in results]
