"""Who goes on: successive halving and the last choice, as pure functions of scores by trial number.

A score is a validation imagination F1, or None of a trial that diverged; such a trial never goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb
from statistics import mean

CONFIRMED = 4  # trials trained again in the end
SEEDS = 3  # how often each

Scores = Mapping[int, float | None]


def rungs(epochs: int) -> list[int]:
    """Where trials are compared: about a fifth, a half and all of the epochs (8, 20, 40 or 4, 10, 20)."""
    return sorted({-(-epochs // 5), max(1, epochs // 2), epochs})


def ranked(scores: Scores) -> list[int]:
    """The best first; of equal ones the earlier."""
    return sorted(
        (number for number, score in scores.items() if score is not None), key=lambda n: (-_known(scores, n), n)
    )


def survivors(scores: Scores) -> list[int]:
    """The trials that go on: a third of all, but no fewer than are confirmed in the end."""
    return ranked(scores)[: max(CONFIRMED, len(scores) // 3)]


def confirmed(last: Scores, start: int | None) -> list[int]:
    """The trials that are trained again: the best at the last epoch, and the start values ``start`` beside them."""
    best = ranked(last)[:CONFIRMED]
    return best if start is None or start in best else [*best, start]


def chosen(confirmations: Mapping[int, Sequence[float | None]]) -> int | None:
    """The trial with the highest mean over its seeds; a seed that diverged counts as 0."""
    means = {number: mean(score or 0.0 for score in scores) for number, scores in confirmations.items()}
    return ranked(means)[0] if means else None


def best_so_far(scores: Sequence[float]) -> list[float]:
    """The highest of the first n scores, for each n."""
    return [max(scores[: n + 1]) for n in range(len(scores))]


def expected_best(scores: Sequence[float]) -> list[float]:
    """The highest of n scores drawn without putting back, on average, for each n: what n trials would have given."""
    ordered, count = sorted(scores), len(scores)
    return [
        sum(score * comb(rank, n - 1) for rank, score in enumerate(ordered)) / comb(count, n)
        for n in range(1, count + 1)
    ]


def _known(scores: Scores, number: int) -> float:
    score = scores[number]
    assert score is not None
    return score
