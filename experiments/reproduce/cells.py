"""What a table consists of: rows and columns of cells, each cell a configuration and the figures it shows.

A row is a preset's name and the values it changes; a column is a benchmark. The hyperparameters are the presets',
read when a table is asked for. The tables there are stand in `catalog`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dwmr.config import NO_CHANGE, Config
from dwmr.errors import InputError, unknown
from dwmr.presets import preset
from experiments.reproduce.paper import Paper

PARTS = ("encoding", "imagination")


@dataclass(frozen=True)
class Row:
    """A line of a table: ``preset("<column>/<preset>")`` with the values of ``changes``, and those of ``by_family``
    for benchmarks of one family, clean or noisy; where some are named, the line stands under these alone."""

    name: str
    title: str
    preset: str = "dwmr"
    changes: Mapping[str, Any] = field(default_factory=dict)
    by_family: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def stands(self, benchmark: str) -> bool:
        return not self.by_family or family(benchmark) in self.by_family

    def changed(self, benchmark: str) -> dict[str, Any]:
        return {**self.changes, **self.by_family.get(family(benchmark), {})}

    def tier(self, benchmark: str) -> str:
        """What the line uses: T transitions alone, J frames of one state in a trajectory, G a grid the paper does not
        use."""
        config = self.config(benchmark)
        joined = config.two_views or config.steps > 1
        return "+".join(
            ["T", *(["J"] if joined else []), *(["G"] if "tiles" in (config.encoder, config.predictor) else [])]
        )

    def config(self, benchmark: str) -> Config:
        return preset(f"{benchmark}/{self.preset}").replace(**self.changed(benchmark))


def family(benchmark: str) -> str:
    return benchmark.removesuffix("-noisy")


@dataclass(frozen=True)
class Claim:
    """Something the paper says, or prints, of a table: each ``(better, worse)`` pair of rows is ordered so, in these
    parts and columns; without columns in all of the table's."""

    text: str
    pairs: tuple[tuple[str, str], ...]
    parts: tuple[str, ...] = PARTS
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """``figure`` is the score that the cells show, ``beside`` are those shown next to it without the paper's.

    ``wide`` names figures by where they lie in a run's: they are shown instead, and ``headline`` is the row whose
    figures have the table's JSON file to themselves.
    """

    name: str
    title: str
    figure: str
    rows: tuple[Row, ...]
    columns: tuple[str, ...]
    paper: Paper
    beside: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    remarks: tuple[str, ...] = ()
    wide: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    headline: str | None = None

    def cells(self) -> list[Cell]:
        return [Cell(row, column) for row in self.rows for column in self.columns if row.stands(column)]

    def choose(self, only: Sequence[str]) -> list[Cell]:
        """The cells named by ``only``: each entry some rows and columns, ``"dwmr,8puzzle"``; none names them all.

        Raises:
            InputError: a name is neither a row nor a column, or there is no cell where they meet.
        """
        if not only:
            return self.cells()
        chosen: set[tuple[str, str]] = set()
        for entry in only:
            names = [name.strip() for name in entry.split(",") if name.strip()]
            if not names:
                raise InputError(f"--only takes rows and columns, such as {self.rows[0].name},{self.columns[0]}")
            rows, columns = [row.name for row in self.rows], list(self.columns)
            for name in names:
                if name not in rows and name not in columns:
                    raise unknown(f"row or column of {self.name}", name, [*rows, *columns])
            named_rows = [name for name in names if name in rows] or rows
            named_columns = [name for name in names if name in columns] or columns
            chosen |= {(row, column) for row in named_rows for column in named_columns}
        found = [cell for cell in self.cells() if (cell.row.name, cell.benchmark) in chosen]
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
        """``8puzzle/dwmr,scheme=soft``: the preset, and the changes that do change something."""
        base = preset(f"{self.benchmark}/{self.row.preset}")
        known = base.flat()
        changes = {name: value for name, value in self.row.changed(self.benchmark).items() if known[name] != value}
        if base.factors == NO_CHANGE:
            changes.pop("schedules", None)
        words = [f"{name}={_word(value)}" for name, value in sorted(changes.items())]
        return f"{self.benchmark}/{','.join([self.row.preset, *words])}"

    @property
    def title(self) -> str:
        return f"{self.row.name} on {self.benchmark}"


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)
