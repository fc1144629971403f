"""What `dwmr reproduce` does; its options are in `dwmr.cli.campaigns`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dwmr.cli import tables
from dwmr.cli.common import out, print_json, say
from dwmr.models.world_model import resolve_device
from dwmr.provenance import describe_machine
from experiments.reproduce import campaign, page
from experiments.reproduce.campaign import Options
from experiments.reproduce.catalog import find_table

RESULTS = Path(__file__).parents[1] / "results"

__all__ = ["Options", "make_table", "show_plan"]


def show_plan(
    name: str, only: list[str], results: Path | None, seeds: Sequence[int], options: Options, as_json: bool
) -> None:
    """Print what would run, and how long it may take."""
    table, device = find_table(name), resolve_device(options.device)
    planned = campaign.plan(table, table.choose(only), results or RESULTS, seeds, device, options.again)
    total = campaign.total_seconds(planned)
    if as_json:
        cells = [
            {
                "row": entry.cell.row.name,
                "benchmark": entry.cell.benchmark,
                "done": entry.done,
                "missing": entry.missing,
                "stale": list(entry.stale),
                "seconds": entry.seconds,
            }
            for entry in planned
        ]
        print_json({"cells": cells, "seconds": total})
        return
    lines = []
    for entry in planned:
        counts = [str(len(entry.done)), str(len(entry.missing)), str(len(entry.stale) or "")]
        lines.append([entry.cell.row.name, entry.cell.benchmark, *counts, _duration(entry.seconds)])
    out.print(tables.text_table("Plan", ["row", "column", "done", "to run", "stale", "time"], lines, texts=2))
    say(f"total: {_duration(total)} on {describe_machine(device)}")


def make_table(
    name: str, only: list[str], results: Path | None, seeds: Sequence[int], options: Options, as_json: bool
) -> None:
    """Make the missing runs of a table, write it and print it."""
    table, folder = find_table(name), results or RESULTS
    page.check_tables(table, folder)
    complete = campaign.run(
        table, table.choose(only), folder, seeds, options, after_each=lambda: page.write_table(table, folder)
    )
    found = page.write_table(table, folder)
    if as_json:
        print_json({"complete": complete, "rows": page.rows_json(table, found)})
        return
    for title, (headings, *lines) in page.grids(table, found).items():
        out.print(tables.text_table(title, headings, lines))
    for line in [*page.notes(table, found), *(page.verdict(table, claim, found) for claim in table.claims)]:
        say(line)


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "unknown"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"
