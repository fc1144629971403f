"""All tables: the paper's three, and the one beyond it. To add a table, add a `Table` here."""

from __future__ import annotations

from dwmr.errors import unknown
from experiments.reproduce import paper
from experiments.reproduce.cells import Claim, Row, Table
from experiments.reproduce.strong import STRONG

_MODELS = {
    "ae": "AE",
    "beta-vae": "β-VAE",
    "deepcubeai": "DeepCubeAI",
    "dwmr": "DWMR",
    "dwmr+ae": "DWMR+AE",
    "dwmr+beta-vae": "DWMR+β-VAE",
}
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

TABLE1 = Table(
    name="table1",
    title="Table 1: six models",
    figure="f1",
    beside=("f1_true_labels",),
    rows=tuple(Row(name, title, preset=name) for name, title in _MODELS.items()),
    columns=paper.ALL,
    paper=paper.TABLE1,
    claims=(
        Claim(
            "DWMR is above the models that only reconstruct",
            tuple(("dwmr", name) for name in ("ae", "beta-vae", "deepcubeai")),
        ),
        Claim("DeepCubeAI is above AE and β-VAE", (("deepcubeai", "ae"), ("deepcubeai", "beta-vae"))),
        Claim("on the 8-puzzle β-VAE is above AE", (("beta-vae", "ae"),), columns=paper.PUZZLE),
        Claim("on IceSlider AE is above β-VAE", (("ae", "beta-vae"),), columns=("iceslider", "iceslider-noisy")),
        Claim("a decoder beside DWMR's terms improves them (DWMR+AE)", (("dwmr+ae", "dwmr"),)),
        Claim(
            "DWMR's terms beside a decoder improve on the decoder alone",
            (("dwmr+ae", "ae"), ("dwmr+beta-vae", "beta-vae")),
        ),
    ),
)


def _ladder(two_step: str, suffix: str) -> tuple[tuple[str, str], ...]:
    steps = [name + suffix for name in (two_step, "straight_through", "soft")]
    return (steps[0], steps[1]), (steps[1], steps[2])


TABLE2 = Table(
    name="table2",
    title="Table 2: training schemes",
    figure="accuracy",
    rows=tuple(
        Row(scheme + suffix, f"{title}, {words}", changes={"scheme": scheme} | off)
        for scheme, title in _SCHEMES.items()
        for suffix, words, off in (("", "schedules", {}), (_FIXED, "no schedules", {"schedules": False}))
    ),
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
        Claim(
            "on clean boards straight-through encodes at least as well as soft, and that as two steps",
            (("straight_through", "soft"), ("soft", "two_step"), ("soft", "two_step_st")),
            parts=("encoding",),
            columns=("8puzzle",),
        ),
        Claim("schedules help, or do no harm", tuple((name, name + _FIXED) for name in _SCHEMES)),
    ),
    remarks=(
        "The paper prints one two-step scheme; both kinds are compared with it.",
        "All rows have the values that were tuned for the preset's own scheme.",
    ),
)

TABLE3 = Table(
    name="table3",
    title="Table 3: removals",
    figure="accuracy",
    rows=(Row("dwmr", "DWMR"), *(Row(name, title, changes=off) for name, (title, off) in _REMOVALS.items())),
    columns=paper.PUZZLE,
    paper=paper.TABLE3,
    claims=(
        Claim("every removal hurts", tuple(("dwmr", name) for name in _REMOVALS)),
        Claim(
            "removing the variance term hurts most",
            tuple((name, "no-var") for name in _REMOVALS if name != "no-var"),
        ),
        Claim("removing correlation hurts more than removing coskewness", (("no-cos", "no-cor"),)),
        Claim(
            "with noise, removing locality hurts more than removing correlation or coskewness",
            (("no-cor", "no-loc"), ("no-cos", "no-loc")),
            columns=("8puzzle-noisy",),
        ),
    ),
    remarks=("The paper does not print the removal of the prediction loss from step 2.",),
)

_TABLES = {table.name: table for table in (TABLE1, TABLE2, TABLE3, STRONG)}


def table_names() -> list[str]:
    return list(_TABLES)


def find_table(name: str) -> Table:
    if name not in _TABLES:
        raise unknown("table", name, _TABLES)
    return _TABLES[name]
