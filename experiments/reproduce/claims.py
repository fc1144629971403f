"""What the paper says about its tables, compared with our figures and with its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from experiments.reproduce.cells import PARTS, Claim, Row, Table
from experiments.reproduce.paper import RUNS
from experiments.reproduce.store import Results, Summary, summarize

Figures = Callable[[str, str, str], Summary]  # of a row, benchmark and part
CLEARLY = "≪"


@dataclass
class Verdict:
    """How often a claim holds. ``clear``: by more than two standard errors; ``shared``: both rows are the same runs."""

    compared: int = 0
    holds: int = 0
    clear: int = 0
    shared: int = 0
    against: list[str] = field(default_factory=list)  # the comparisons that contradict the claim


def ours(table: Table, results: Results) -> Figures:
    return lambda row, benchmark, part: summarize(results[row, benchmark].values(part, table.figure))


def printed(table: Table) -> Figures:
    """The paper's figures."""

    def figures(row: str, benchmark: str, part: str) -> Summary:
        if row not in table.paper:
            return Summary(0, None, None)
        figure = getattr(table.paper[row][benchmark], part)
        return Summary(RUNS, figure.mean, figure.std)

    return figures


def sentences(table: Table, results: Results) -> list[str]:
    """A sentence for each claim, and one that compares each row with the paper's."""
    keys = {where: cell.key for where, cell in results.items()}
    said = [_sentence(table, claim, results, keys) for claim in table.claims]
    beside = list(filter(None, (_beside_the_paper(table, row, results) for row in table.rows)))
    return [*said, f"Above the paper's means: {'; '.join(beside)}."] if beside else said


def _sentence(table: Table, claim: Claim, results: Results, keys: Mapping[tuple[str, str], str]) -> str:
    verdict, theirs = judge(table, claim, ours(table, results), keys), judge(table, claim, printed(table), {})
    text = claim.text[0].upper() + claim.text[1:]
    paper = f"in the paper's figures in {theirs.holds} of {theirs.compared}"
    same = f" {verdict.shared} comparisons are of the same runs and are left out." if verdict.shared else ""
    if not verdict.compared:
        return f"{text}: nothing to compare yet; {paper}.{same}"
    against = "; ".join(verdict.against)
    clearly = f" ({CLEARLY} by more than two standard errors)" if CLEARLY in against else ""
    return (
        f"{text}: in {verdict.holds} of {verdict.compared} comparisons ({verdict.clear} by more than two standard "
        f"errors); {paper}.{same}" + (f" Not so{clearly}: {against}." if against else "")
    )


def _beside_the_paper(table: Table, row: Row, results: Results) -> str | None:
    """How many of a row's means are above the paper's, and the lowest and highest difference."""
    differences = []
    for benchmark in table.columns if row.name in table.paper else ():
        for part in PARTS:
            mean = ours(table, results)(row.name, benchmark, part).mean
            if mean is not None:
                differences.append(mean - getattr(table.paper[row.name][benchmark], part).mean)
    if not differences:
        return None
    above = sum(difference > 0 for difference in differences)
    lowest, highest = (f"{figure:+.1f}".replace("-", "−") for figure in (min(differences), max(differences)))
    return f"{row.title} in {above} of {len(differences)} ({lowest} to {highest})"


def judge(table: Table, claim: Claim, figures: Figures, keys: Mapping[tuple[str, str], str]) -> Verdict:
    """Count how often a claim holds; cells with the same key are the same runs."""
    verdict = Verdict()
    for better, worse in claim.pairs:
        for benchmark in claim.columns or table.columns:
            if keys and keys[better, benchmark] == keys[worse, benchmark]:
                verdict.shared += len(claim.parts)
                continue
            for part in claim.parts:
                high, low = figures(better, benchmark, part), figures(worse, benchmark, part)
                if high.mean is None or low.mean is None:
                    continue
                clear = abs(high.mean - low.mean) > 2 * _standard_error(high, low)
                verdict.compared += 1
                if high.mean >= low.mean:
                    verdict.holds += 1
                    verdict.clear += clear
                else:
                    sign = CLEARLY if clear else "<"
                    means = f"{better} {high.mean:.1f} {sign} {worse} {low.mean:.1f}"
                    verdict.against.append(f"{benchmark} {part}, {means}")
    return verdict


def _standard_error(one: Summary, other: Summary) -> float:
    """Of the difference of two means; infinite for single runs, whose spread is unknown."""
    if one.std is None or other.std is None:
        return math.inf
    return math.sqrt(one.std**2 / one.count + other.std**2 / other.count)
