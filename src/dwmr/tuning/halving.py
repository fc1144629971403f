"""Which trials continue: successive halving and the final choice, as pure functions of scores by trial number.

The score of a trial that diverged is None; such a trial never continues.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean

CONFIRMED = 4  # trials that are trained again at the end
SEEDS = 3  # new seeds for each of them

Scores = Mapping[int, float | None]


def rungs(epochs: int) -> list[int]:
    """The epochs at which trials are compared: about a fifth, a half and all (8, 20, 40 or 4, 10, 20)."""
    return sorted({-(-epochs // 5), max(1, epochs // 2), epochs})


def ranked(scores: Scores) -> list[int]:
    """Trials with the best first; of equal ones, the earlier first."""
    known = {number: score for number, score in scores.items() if score is not None}
    return sorted(known, key=lambda number: (-known[number], number))


def survivors(scores: Scores) -> list[int]:
    """The trials that continue: a third, but at least as many as are confirmed at the end."""
    return ranked(scores)[: max(CONFIRMED, len(scores) // 3)]


def confirmed(last: Scores, start: int | None) -> list[int]:
    """The trials that are trained again: the best at the last epoch, and ``start``, the start values."""
    best = ranked(last)[:CONFIRMED]
    return best if start is None or start in best else [*best, start]


def chosen(confirmations: Mapping[int, Sequence[float | None]]) -> int | None:
    """The trial with the highest mean over its seeds, where a seed that diverged counts as 0."""
    means = {number: mean(score or 0.0 for score in scores) for number, scores in confirmations.items()}
    return ranked(means)[0] if means else None
