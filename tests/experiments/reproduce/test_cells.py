"""What the tables consist of, and what the paper prints in them."""

from __future__ import annotations

import pytest

from dwmr.errors import InputError
from dwmr.presets import PRESETS, preset
from dwmr.training.trainer import check_choices
from experiments.reproduce import paper
from experiments.reproduce.catalog import find_table, table_names
from experiments.reproduce.cells import Cell, Row


def cell(table: str, row: str, benchmark: str) -> Cell:
    (found,) = find_table(table).choose([f"{row},{benchmark}"])
    return found


@pytest.mark.parametrize("name", table_names())
def test_every_cell_is_a_configuration_that_can_be_trained(name):
    for each in find_table(name).cells():
        check_choices(each.config)
        assert each.config.benchmark in (each.benchmark, "auto", "generic")


def test_the_tables_have_the_papers_shape():
    assert [len(find_table(name).cells()) for name in ("table1", "table2", "table3")] == [24, 16, 14]
    assert {f"{each.benchmark}/{each.row.name}" for each in find_table("table1").cells()} <= set(PRESETS)


def test_table_1_is_the_presets_as_they_are():
    assert all(each.config == preset(each.config.name) for each in find_table("table1").cells())


def test_schedules_off_is_the_same_values_with_all_factors_one():
    on, off = cell("table2", "soft", "8puzzle"), cell("table2", "soft-no-schedules", "8puzzle")
    assert on.config.hyper == off.config.hyper
    assert (on.config.schedules, off.config.schedules) == (True, False)
    assert on.key != off.key


def test_without_factors_schedules_on_and_off_are_the_same_runs(monkeypatch):
    monkeypatch.setitem(PRESETS, "8puzzle/dwmr", preset("8puzzle/dwmr", lr_factor=1.0))
    assert cell("table2", "soft", "8puzzle").key == cell("table2", "soft-no-schedules", "8puzzle").key


def test_each_removal_is_one_value():
    base = preset("8puzzle/dwmr").flat()
    removed = {
        row.name: [name for name, value in row.config("8puzzle").flat().items() if value != base[name]]
        for row in find_table("table3").rows
    }
    assert removed == {
        "dwmr": [],
        "no-var": ["var"],
        "no-cor": ["cor"],
        "no-cos": ["cos"],
        "no-loc": ["loc"],
        "no-ema": ["tau"],
        "no-pred-step2": ["pred"],
    }


def test_the_model_itself_is_run_once_for_all_tables():
    scheme = preset("8puzzle/dwmr").scheme
    assert cell("table1", "dwmr", "8puzzle").key == "8puzzle/dwmr"
    assert cell("table2", scheme, "8puzzle").key == "8puzzle/dwmr"
    assert cell("table3", "dwmr", "8puzzle").key == "8puzzle/dwmr"
    assert cell("table2", "soft-no-schedules", "8puzzle").key == "8puzzle/dwmr,schedules=false,scheme=soft"
    assert Cell(Row("x", "x", changes={"tau": 0.0}), "8puzzle").key == "8puzzle/dwmr,tau=0"


def test_only_names_rows_columns_or_both():
    table = find_table("table1")

    def names(*only):
        return [(each.row.name, each.benchmark) for each in table.choose(only)]

    assert names("dwmr,8puzzle") == [("dwmr", "8puzzle")]
    assert [row for row, _ in names("8puzzle")] == list(paper.TABLE1)
    assert [column for _, column in names("dwmr")] == list(paper.ALL)
    assert names("iceslider,ae", "ae,8puzzle") == [("ae", "8puzzle"), ("ae", "iceslider")]
    assert len(names("ae,dwmr,8puzzle,iceslider")) == 4


@pytest.mark.parametrize("only", ["dwmr,9puzzle", "nothing", ","], ids=["column", "neither", "empty"])
def test_only_refuses_what_is_neither(only):
    with pytest.raises(InputError, match=r"row|column"):
        find_table("table1").choose([only])


def test_only_refuses_a_row_where_it_does_not_stand():
    with pytest.raises(InputError, match="strong has no such cell: strong-grid,iceslider"):
        find_table("strong").choose(["strong-grid,iceslider"])


def test_figures_of_the_paper():
    """A few figures read from the paper by eye, and sums that a slip in any other would change."""
    assert paper.TABLE1["dwmr"]["8puzzle"] == ((91, 1), (84, 2))
    assert paper.TABLE1["dwmr+beta-vae"]["iceslider-noisy"] == ((73, 12), (70, 9))
    assert paper.TABLE2["straight_through"]["8puzzle-noisy"] == ((88, 15), (81, 13))
    assert paper.TABLE2["two_step"] == paper.TABLE2["two_step_st"] == paper.TABLE3["dwmr"]
    assert paper.TABLE3["no-loc"]["8puzzle-noisy"] == ((38, 24), (33, 23))

    def sums(table):
        figures = [figure for row in table.values() for pair in row.values() for figure in pair]
        return sum(figure.mean for figure in figures), sum(figure.std for figure in figures)

    assert sums(paper.TABLE1) == (3834, 313)
    assert sums(paper.TABLE2) == (2769, 153)
    assert sums(paper.TABLE3) == (1376, 198)


def test_a_row_stands_where_its_changes_mean_something():
    strong = find_table("strong")
    columns = {row.name: [cell.benchmark for cell in strong.cells() if cell.row is row] for row in strong.rows}
    assert columns["strong-grid"] == ["8puzzle", "8puzzle-noisy"]
    assert columns["strong"] == list(strong.columns)
    assert cell("strong", "strong-grid", "8puzzle-noisy").config.encoder == "tiles"
    assert cell("strong", "dwmr-far", "iceslider").config.predictor == "far"
    assert cell("strong", "dwmr-far", "8puzzle").config.predictor == "residual"
    assert cell("strong", "dwmr", "8puzzle").key == cell("table1", "dwmr", "8puzzle").key


def test_every_row_of_strong_says_what_it_used():
    tiers = {(cell.row.name, cell.benchmark): cell.row.tier(cell.benchmark) for cell in find_table("strong").cells()}
    assert tiers["strong-two-views", "8puzzle"] == "T+J"
    assert tiers["strong-grid", "8puzzle-noisy"] == "T+G"
    assert tiers["dwmr-two-views", "iceslider"] == "T+J"
    assert {tiers["dwmr", "8puzzle"], tiers["strong", "iceslider"], tiers["strong", "8puzzle"]} == {"T"}


def test_any_world_has_presets_that_know_no_world():
    worlds = find_table("worlds")
    assert {each.config.benchmark for each in worlds.cells()} == {"auto", "generic"}
    assert cell("worlds", "auto", "sokoban").key == "sokoban/auto"
    assert cell("worlds", "generic/strong", "sokoban").key == "sokoban/generic-strong"
