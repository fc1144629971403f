"""What the paper says of its tables, held against figures: ours, and its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from experiments.reproduce.cells import PARTS, Claim, Row, Table
from experiments.reproduce.paper import RUNS
from experiments.reproduce.store import Results, Summary, summarize

Figures = Callable[[str, str, str], Summary]  # (row, benchmark, part)
CLEARLY = "≪"


@dataclass(frozen=True)
class Verdict:
    """How often an ordering holds: among ``compared`` pairs of means, and ``clear`` ones of those that hold, which
    differ by more than two standard errors. ``against`` words the pairs that are the other way round, ≪ where by more
    than two standard errors."""

    compared: int
    holds: int
    clear: int
    against: list[str]
    shared: int = 0  # pairs that cannot differ: both rows are the same runs


def ours(table: Table, results: Results) -> Figures:
    def figures(row: str, benchmark: str, part: str) -> Summary:
        return summarize(results[row, benchmark].values(part, table.figure))

    return figures


def printed(table: Table) -> Figures:
    """The paper's own figures."""

    def figures(row: str, benchmark: str, part: str) -> Summary:
        if row not in table.paper:
            return Summary(0, None, None)
        figure = getattr(table.paper[row][benchmark], part)
        return Summary(RUNS, figure.mean, figure.std)

    return figures


def sentences(table: Table, results: Results) -> list[str]:
    """One sentence a claim: how often it holds in our figures and in the paper's, and where it does not; then how each
    row stands beside the paper's."""
    said = []
    keys = {where: runs.key for where, runs in results.items()}
    for claim in table.claims:
        verdict = judge(table, claim, ours(table, results), keys)
        theirs = judge(table, claim, printed(table), {})
        text = claim.text[0].upper() + claim.text[1:]
        paper = f"in the paper's figures in {theirs.holds} of {theirs.compared}"
        same = f" {verdict.shared} comparisons are of the same runs and are left out." if verdict.shared else ""
        if not verdict.compared:
            said.append(f"{text}: nothing to compare yet; {paper}.{same}")
            continue
        words = (
            f"{text}: in {verdict.holds} of {verdict.compared} comparisons "
            f"({verdict.clear} by more than two standard errors); {paper}.{same}"
        )
        against = "; ".join(verdict.against)
        clearly = f" ({CLEARLY} by more than two standard errors)" if CLEARLY in against else ""
        said.append(words + (f" Not so{clearly}: {against}." if against else ""))
    beside = list(filter(None, (_beside_the_paper(table, row, results) for row in table.rows)))
    return [*said, f"Above the paper's means: {'; '.join(beside)}."] if beside else said


def _beside_the_paper(table: Table, row: Row, results: Results) -> str | None:
    """In how many of its figures a row is above the paper's mean, and the lowest and highest difference."""
    if row.name not in table.paper:
        return None
    found = []
    for benchmark in table.columns:
        for part in PARTS:
            mine, theirs = (
                figures(row.name, benchmark, part).mean for figures in (ours(table, results), printed(table))
            )
            if mine is not None and theirs is not None:
                found.append(mine - theirs)
    if not found:
        return None
    above = sum(difference > 0 for difference in found)
    lowest, highest = (f"{figure:+.1f}".replace("-", "−") for figure in (min(found), max(found)))
    return f"{row.title} in {above} of {len(found)} ({lowest} to {highest})"


def judge(table: Table, claim: Claim, figures: Figures, keys: Mapping[tuple[str, str], str]) -> Verdict:
    """A claim in whatever figures there are; cells (row, benchmark) of the same key are the same runs."""
    compared = holds = clear = shared = 0
    against = []
    for better, worse in claim.pairs:
        for benchmark in claim.columns or table.columns:
            if keys and keys[better, benchmark] == keys[worse, benchmark]:
                shared += len(claim.parts)
                continue
            for part in claim.parts:
                high, low = figures(better, benchmark, part), figures(worse, benchmark, part)
                if high.mean is None or low.mean is None:
                    continue
                compared += 1
                if high.mean >= low.mean:
                    holds += 1
                    clear += high.mean - low.mean > 2 * _standard_error(high, low)
                else:
                    sign = CLEARLY if low.mean - high.mean > 2 * _standard_error(high, low) else "<"
                    numbers = f"{better} {high.mean:.1f} {sign} {worse} {low.mean:.1f}"
                    against.append(f"{benchmark} {part}, {numbers}")
    return Verdict(compared, holds, clear, against, shared)


def _standard_error(one: Summary, other: Summary) -> float:
    """Of the difference of two means; unknown, and so infinite, for single runs."""
    if one.std is None or other.std is None:
        return math.inf
    return math.sqrt(one.std**2 / one.count + other.std**2 / other.count)
