"""The stages of a study, its seeds, and the rows (trial and seed) of each stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dwmr.config import Config
from dwmr.seeding import below, rng
from dwmr.tuning.halving import CONFIRMED, SEEDS, confirmed, rungs, survivors
from dwmr.tuning.journal import Journal, is_done, rows_of, score_of
from dwmr.tuning.spaces import Space, as_data, options

SEARCH, CONFIRMATION = "search", "confirmation"
# What a study can maximize: the paper's imagination F1, which needs labels, or the dimensions that predicted and
# encoded codes share.
SELECT = ("imagination", "shared")


@dataclass(frozen=True)
class Plan:
    """What a study searches, and for how long. Two calls that share a journal must agree on all of it."""

    base: Config
    space: Space
    trials: int
    seed: int
    data: str  # fingerprints of the training and validation splits
    select: str = SELECT[0]

    def stages(self) -> dict[str, int]:
        """The stages in order, with the epoch that their rows are trained to."""
        first, *later = rungs(self.base.epochs)
        return {SEARCH: first, **{f"epoch {rung}": rung for rung in later}, CONFIRMATION: self.base.epochs}

    def epochs_before(self, stage: str) -> int:
        """The epochs that the rows of a stage have been trained for when it begins."""
        stages = self.stages()
        earlier = [epochs for name, epochs in stages.items() if name != CONFIRMATION and epochs < stages[stage]]
        return 0 if stage == CONFIRMATION else max(earlier, default=0)

    def about(self) -> dict[str, Any]:
        return {
            "preset": self.base.name,
            "trials": self.trials,
            "seed": self.seed,
            "data": self.data,
            "select": self.select,
            **self.base.flat(),
            **{f"the range of {name}": dimension for name, dimension in as_data(self.space).items()},
        }

    def config(self, values: dict[str, Any]) -> Config:
        return self.base.replace(**options(values))

    def trial_seed(self, number: int) -> int:
        return derived_seed(self.seed, "trial", number)

    def fresh_seeds(self) -> list[int]:
        return [derived_seed(self.seed, "confirmation", number) for number in range(SEEDS)]

    def total_epochs(self) -> int:
        """The epochs of all runs together, at most."""
        count, total = self.trials, 0
        for stage, epochs in self.stages().items():
            if stage == CONFIRMATION:
                count = (min(CONFIRMED, self.trials) + 1) * SEEDS
            total += count * (epochs - self.epochs_before(stage))
            count = min(count, max(CONFIRMED, count // 3))
        return total


def derived_seed(seed: int, use: str, number: int) -> int:
    """Seeds that nobody would choose by hand, so that reported runs are not those that were selected."""
    return 1000 + int(below(rng(seed, "tuning", use, number), 10**9, 1)[0])


def rows_wanted(journal: Journal, plan: Plan, stage: str) -> list[tuple[int, int]]:
    """The rows of a stage after the search: trial and seed."""
    names = list(plan.stages())
    before = journal.stage(names[names.index(stage) - 1])
    scores = {row.user_attrs.get("of", row.number): score_of(row) for row in rows_of(before) if is_done(row)}
    if stage != CONFIRMATION:
        return [(number, plan.trial_seed(number)) for number in survivors(scores)]
    search = rows_of(journal.stage(SEARCH))
    starts = (row.number for row in search if row.user_attrs.get("start") and score_of(row) is not None)
    return [(number, seed) for number in confirmed(scores, next(starts, None)) for seed in plan.fresh_seeds()]


def epochs_done(journal: Journal, plan: Plan) -> int:
    """The epochs of all finished rows."""
    return sum(
        sum(map(is_done, rows_of(journal.stage(stage)))) * (epochs - plan.epochs_before(stage))
        for stage, epochs in plan.stages().items()
    )
