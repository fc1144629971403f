"""What each table consists of: rows and columns of cells, each cell a configuration and the figure it shows.

A row is a preset's name and the values it changes; a column is a benchmark. The hyperparameters are the presets',
read when a table is asked for. A further table is one more `Table` in `_TABLES`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dwmr.config import NO_CHANGE, Config
from dwmr.errors import InputError, unknown
from dwmr.presets import preset
from dwmr.reproduce import paper
from dwmr.reproduce.paper import Paper

PARTS = ("encoding", "imagination")


@dataclass(frozen=True)
class Row:
    """A line of a table: ``preset("<column>/<preset>")`` with the values of ``changes``."""

    name: str
    title: str
    preset: str = "dwmr"
    changes: Mapping[str, Any] = field(default_factory=dict)

    def config(self, benchmark: str) -> Config:
        return preset(f"{benchmark}/{self.preset}").replace(**self.changes)


@dataclass(frozen=True)
class Claim:
    """Something the paper says of a table: each ``(better, worse)`` pair of rows is ordered so, in these parts."""

    text: str
    pairs: tuple[tuple[str, str], ...]
    parts: tuple[str, ...] = PARTS


@dataclass(frozen=True)
class Table:
    """``figure`` is the score that the cells show, ``beside`` are those shown next to it without the paper's."""

    name: str
    title: str
    figure: str
    rows: tuple[Row, ...]
    columns: tuple[str, ...]
    paper: Paper
    beside: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    remarks: tuple[str, ...] = ()

    def cells(self) -> list[Cell]:
        return [Cell(row, column) for row in self.rows for column in self.columns]

    def choose(self, only: Sequence[str]) -> list[Cell]:
        """The cells named by ``only``: each entry some rows and columns, ``"dwmr,8puzzle"``; none names them all.

        Raises:
            InputError: a name is neither a row nor a column.
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
        return [cell for cell in self.cells() if (cell.row.name, cell.benchmark) in chosen]


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
        changes = {name: value for name, value in self.row.changes.items() if known[name] != value}
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


_MODELS = {
    "ae": "AE",
    "beta-vae": "β-VAE",
    "deepcubeai": "DeepCubeAI",
    "dwmr": "DWMR",
    "dwmr+ae": "DWMR+AE",
    "dwmr+beta-vae": "DWMR+β-VAE",
}
_RIVALS = ("ae", "beta-vae", "deepcubeai")

_SCHEMES = {
    "soft": "fully differentiable",
    "straight_through": "straight-through",
    "two_step": "two steps, the second soft",
    "two_step_st": "two steps, the second straight-through",
}
_FIXED = "-no-schedules"

_REMOVALS: dict[str, tuple[str, dict[str, float]]] = {
    "no-var": ("no variance term", {"var": 0.0}),
    "no-cor": ("no correlation term", {"cor": 0.0}),
    "no-cos": ("no coskewness term", {"cos": 0.0}),
    "no-loc": ("no locality term", {"loc": 0.0}),
    "no-ema": ("no EMA", {"tau": 0.0}),
    "no-pred-step2": ("no prediction loss in step 2", {"pred": 0.0}),
}


def _scheme_rows() -> tuple[Row, ...]:
    rows = []
    for scheme, title in _SCHEMES.items():
        rows.append(Row(scheme, f"{title}, schedules", changes={"scheme": scheme}))
        off = {"scheme": scheme, "schedules": False}
        rows.append(Row(scheme + _FIXED, f"{title}, no schedules", changes=off))
    return tuple(rows)


def _ladder(two_step: str, suffix: str) -> tuple[tuple[str, str], ...]:
    steps = [name + suffix for name in (two_step, "straight_through", "soft")]
    return (steps[0], steps[1]), (steps[1], steps[2])


_TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        Table(
            name="table1",
            title="Table 1: six models",
            figure="f1",
            beside=("f1_true_labels",),
            rows=tuple(Row(name, title, preset=name) for name, title in _MODELS.items()),
            columns=paper.ALL,
            paper=paper.TABLE1,
            claims=(
                Claim("DWMR is above the models that only reconstruct", tuple(("dwmr", name) for name in _RIVALS)),
                Claim("DeepCubeAI is above AE and β-VAE", (("deepcubeai", "ae"), ("deepcubeai", "beta-vae"))),
                Claim("a decoder beside DWMR's terms improves them (DWMR+AE)", (("dwmr+ae", "dwmr"),)),
            ),
        ),
        Table(
            name="table2",
            title="Table 2: training schemes",
            figure="accuracy",
            rows=_scheme_rows(),
            columns=paper.PUZZLE,
            paper=paper.TABLE2,
            claims=(
                *(
                    Claim(
                        f"{_SCHEMES[scheme]}, imagine at least as well as straight-through, and that as soft",
                        (*_ladder(scheme, ""), *_ladder(scheme, _FIXED)),
                        parts=("imagination",),
                    )
                    for scheme in ("two_step", "two_step_st")
                ),
                Claim("schedules help, or do no harm", tuple((name, name + _FIXED) for name in _SCHEMES)),
            ),
            remarks=("The paper prints one two-step scheme; both kinds are compared with it.",),
        ),
        Table(
            name="table3",
            title="Table 3: removals",
            figure="accuracy",
            rows=(
                Row("dwmr", "DWMR"),
                *(Row(name, title, changes=changes) for name, (title, changes) in _REMOVALS.items()),
            ),
            columns=paper.PUZZLE,
            paper=paper.TABLE3,
            claims=(
                Claim("every removal hurts", tuple(("dwmr", name) for name in _REMOVALS)),
                Claim(
                    "removing the variance term hurts most",
                    tuple((name, "no-var") for name in _REMOVALS if name != "no-var"),
                ),
            ),
            remarks=("The paper does not print the removal of the prediction loss from step 2.",),
        ),
    )
}


def table_names() -> list[str]:
    return list(_TABLES)


def find_table(name: str) -> Table:
    if name not in _TABLES:
        raise unknown("table", name, _TABLES)
    return _TABLES[name]
