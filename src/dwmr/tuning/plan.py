"""The plan of a tuning campaign: its stages, its seeds, and which rows each stage consists of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dwmr.config import Config
from dwmr.seeding import below, rng
from dwmr.tuning.halving import CONFIRMED, SEEDS, confirmed, rungs, survivors
from dwmr.tuning.journal import Journal, is_told, rows_of, score_of
from dwmr.tuning.spaces import Space, as_data, options

SEARCH, CONFIRMATION = "search", "confirmation"
# What may be chosen by: the paper's imagination F1, which takes labels; what predictions and encodings share.
SELECT = ("imagination", "shared")


@dataclass(frozen=True)
class Plan:
    """What a campaign searches and how long: all that two calls must agree on to share a journal."""

    base: Config
    space: Space
    trials: int
    seed: int
    data: str  # fingerprints of the training and validation splits
    select: str = SELECT[0]  # the figure of the validation split that is to be large

    def stages(self) -> dict[str, int]:
        """The stages in order, and the epochs their rows are trained to."""
        first, *later = rungs(self.base.epochs)
        return {SEARCH: first, **{f"epoch {rung}": rung for rung in later}, CONFIRMATION: self.base.epochs}

    def about(self) -> dict[str, Any]:
        return {
            "preset": self.base.name,
            "trials": self.trials,
            "seed": self.seed,
            "data": self.data,
            "select": self.select,
            **self.base.flat(),
            **{f"the range of {name}": range_ for name, range_ in as_data(self.space).items()},
        }

    def config(self, values: dict[str, Any]) -> Config:
        return self.base.replace(**options(values))

    def trial_seed(self, number: int) -> int:
        return derived_seed(self.seed, "trial", number)

    def fresh_seeds(self) -> list[int]:
        return [derived_seed(self.seed, "confirmation", again) for again in range(SEEDS)]


def derived_seed(seed: int, use: str, number: int) -> int:
    """Seeds that no one would choose by hand, so that runs reported later are not those that were selected by."""
    return 1000 + int(below(rng(seed, "tuning", use, number), 10**9, 1)[0])


def scores_in(journal: Journal, stage: str) -> dict[int, float | None]:
    """The scores told so far in the search or at a rung, by trial number."""
    return {
        row.user_attrs.get("of", row.number): score_of(row) for row in rows_of(journal.stage(stage)) if is_told(row)
    }


def start_trial(journal: Journal) -> int | None:
    """The trial of the start values, unless they diverged."""
    rows = rows_of(journal.stage(SEARCH))
    return next((row.number for row in rows if row.user_attrs.get("start") and score_of(row) is not None), None)


def rows_wanted(journal: Journal, plan: Plan, stage: str) -> list[tuple[int, int]]:
    """The rows that a stage after the search consists of: trial and seed."""
    names = list(plan.stages())
    before = scores_in(journal, names[names.index(stage) - 1])
    if stage == CONFIRMATION:
        return [(number, seed) for number in confirmed(before, start_trial(journal)) for seed in plan.fresh_seeds()]
    return [(number, plan.trial_seed(number)) for number in survivors(before)]


def run_epochs(plan: Plan) -> int:
    """How many epochs of single runs the whole campaign is, at most."""
    count, total = plan.trials, 0
    for stage, epochs in plan.stages().items():
        if stage == CONFIRMATION:
            count = (min(CONFIRMED, plan.trials) + 1) * SEEDS
        total += count * (epochs - epochs_behind(plan, stage))
        count = min(count, max(CONFIRMED, count // 3))
    return total


def run_epochs_done(journal: Journal, plan: Plan) -> int:
    """How many of them are told."""
    return sum(
        sum(map(is_told, rows_of(journal.stage(stage)))) * (epochs - epochs_behind(plan, stage))
        for stage, epochs in plan.stages().items()
    )


def epochs_behind(plan: Plan, stage: str) -> int:
    """The epochs that rows of a stage have behind them when it begins."""
    before = [
        epochs for name, epochs in plan.stages().items() if name != CONFIRMATION and epochs < plan.stages()[stage]
    ]
    return 0 if stage == CONFIRMATION else max(before, default=0)
