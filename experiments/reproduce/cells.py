"""What a table consists of: rows, columns (benchmarks), and cells, each of which is a configuration.

A row is a preset with changed values. The hyperparameters are those of the presets, read when the table is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dwmr.config import NO_CHANGE, Config
from dwmr.errors import InputError, unknown
from dwmr.presets import preset
from experiments.reproduce.paper import PARTS, Paper, Printed

Place = tuple[str, ...]  # where a figure is in what `dwmr.evaluate` returns


@dataclass(frozen=True)
class Row:
    """``preset("<benchmark>/<preset>")`` with the values of ``changes``.

    ``by_family`` holds further changes for the benchmarks of one family, clean and noisy; if it names any family, the
    row exists for those alone. With ``any_world``, ``preset`` is the whole name of a preset for any images.
    """

    name: str
    title: str
    preset: str = "dwmr"
    changes: Mapping[str, Any] = field(default_factory=dict)
    by_family: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    any_world: bool = False

    def preset_for(self, benchmark: str) -> Config:
        return preset(self.preset if self.any_world else f"{benchmark}/{self.preset}")

    def exists_for(self, benchmark: str) -> bool:
        return not self.by_family or _family(benchmark) in self.by_family

    def changed(self, benchmark: str) -> dict[str, Any]:
        return {**self.changes, **self.by_family.get(_family(benchmark), {})}

    def config(self, benchmark: str) -> Config:
        return self.preset_for(benchmark).replace(**self.changed(benchmark))

    def tier(self, benchmark: str) -> str:
        """What training uses: T transitions alone, J several frames of an episode, G a grid that the paper's encoder
        does not know."""
        config = self.config(benchmark)
        joined = ["J"] if config.two_views or config.steps > 1 else []
        grid = ["G"] if "tiles" in (config.encoder, config.predictor) else []
        return "+".join(["T", *joined, *grid])


def _family(benchmark: str) -> str:
    return benchmark.removesuffix("-noisy")


@dataclass(frozen=True)
class Claim:
    """A statement of the paper: in each ``(better, worse)`` pair of rows the first has the higher mean."""

    text: str
    pairs: tuple[tuple[str, str], ...]
    parts: tuple[str, ...] = PARTS
    columns: tuple[str, ...] = ()  # all of the table's if empty


@dataclass(frozen=True)
class Table:
    """Rows by columns.

    Args:
        figures: what is shown of each cell and written to the JSON file, by name
        paper: the printed figures; empty if the table is not the paper's
        beside: further figures that are shown and not written
        headline: the row whose figures have a JSON file of their own
        by_column: the JSON file is {column: {row: …}} instead of {row: {column: …}}, and each row is shown as a table
            of its columns
        shown: headings of the figures that are shown; all figures if it is empty
    """

    name: str
    title: str
    rows: tuple[Row, ...]
    columns: tuple[str, ...]
    figures: Mapping[str, Place]
    remarks: tuple[str, ...]
    paper: Paper = field(default_factory=dict)
    beside: Mapping[str, Place] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    headline: str | None = None
    by_column: bool = False
    shown: Mapping[str, str] = field(default_factory=dict)

    def printed(self, row: str, benchmark: str, part: str) -> Printed | None:
        """The paper's figure."""
        return getattr(self.paper[row][benchmark], part) if row in self.paper else None

    def cells(self) -> list[Cell]:
        return [Cell(row, column) for row in self.rows for column in self.columns if row.exists_for(column)]

    def choose(self, only: Sequence[str]) -> list[Cell]:
        """The cells that ``only`` names, all if it is empty. Each entry names rows, columns or both: "dwmr,8puzzle"."""
        rows, columns = [row.name for row in self.rows], list(self.columns)
        chosen: set[tuple[str, str]] = set()
        for entry in only:
            names = [name.strip() for name in entry.split(",")]
            for name in names:
                if name not in rows + columns:
                    raise unknown(f"row or column of {self.name}", name, rows + columns)
            named_rows = [name for name in names if name in rows] or rows
            named_columns = [name for name in names if name in columns] or columns
            chosen |= {(row, column) for row in named_rows for column in named_columns}
        found = [cell for cell in self.cells() if not only or (cell.row.name, cell.benchmark) in chosen]
        if not found:
            raise InputError(f"{self.name} has no such cell: {' '.join(only)}")
        return found


@dataclass(frozen=True)
class Cell:
    """One row on one benchmark. Cells of any table with the same key are the same runs."""

    row: Row
    benchmark: str

    @property
    def config(self) -> Config:
        return self.row.config(self.benchmark)

    @property
    def key(self) -> str:
        """The preset and the changes that have an effect: ``8puzzle/dwmr,scheme=soft``."""
        base = self.row.preset_for(self.benchmark)
        known = base.flat()
        changes = {name: value for name, value in self.row.changed(self.benchmark).items() if known[name] != value}
        if base.factors == NO_CHANGE:
            changes.pop("schedules", None)
        words = [f"{name}={_word(value)}" for name, value in sorted(changes.items())]
        return f"{self.benchmark}/{','.join([self.row.preset.replace('/', '-'), *words])}"

    @property
    def title(self) -> str:
        return f"{self.row.name} on {self.benchmark}"


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
