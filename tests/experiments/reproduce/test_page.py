"""Tables as text and files, from runs with figures made by hand."""

from __future__ import annotations

import json
import re

import pytest

from dwmr.errors import InputError
from dwmr.provenance import code_digest
from experiments.reproduce import page
from experiments.reproduce.catalog import find_table
from experiments.reproduce.page import spread, write_table
from experiments.reproduce.store import StoredRun, add_runs, cell_file, read_table

TABLE1, TABLE3, STRONG = find_table("table1"), find_table("table3"), find_table("strong")


def store(out, table, row, benchmark, values, *, machine="a machine", fallen=0, constant=()):
    """Runs of a cell whose every figure of encoding is the given value, and of imagination one less; those of the
    values in ``constant`` have a code that never changes."""
    (cell,) = table.choose([f"{row},{benchmark}"])
    for seed, value in enumerate([*values, *[None] * fallen]):
        scores = ("f1", "f1_true_labels", "accuracy")
        figures = (
            value
            if value is None
            else {
                "encoding": dict.fromkeys(scores, value),
                "imagination": dict.fromkeys(scores, value - 1),
                "codes": {"dead": cell.config.bits if value in constant else 0, "state_share": None},
            }
        )
        run = StoredRun(
            seed=seed,
            config=cell.config.to_dict(),
            data={"fingerprint": benchmark},
            figures=figures,
            diverged=None if figures else "not finite",
            last_epoch=None,
            together=[seed],
            seconds={"training": 30.0},
            machine=machine,
            code={"digest": code_digest()},
        )
        add_runs(out, cell, [run])


def verdicts(table, results):
    return [page.verdict(table, claim, results) for claim in table.claims]


def test_mean_and_sample_standard_deviation():
    assert [spread(values) for values in ([1.0, 3.0], [1.0], [])] == ["2.0 ± 1.4", "1.0", "—"]


def test_ours_beside_the_papers_with_the_difference(tmp_path):
    store(tmp_path, TABLE1, "dwmr", "8puzzle", [90.0, 92.0])
    headings, *lines = page.grids(TABLE1, read_table(tmp_path, TABLE1))["8puzzle"]
    (line,) = [line for line in lines if line[0] == "DWMR"]
    assert headings[:5] == ["", "runs", "encoding", "paper", "difference"]
    assert line[:5] == ["DWMR", "2", "91.0 ± 1.4", "91 ± 1", "+0.0"]
    assert line[5:8] == ["90.0 ± 1.4", "84 ± 2", "+6.0"]
    assert line[8:] == ["91.0 ± 1.4", "90.0 ± 1.4"]  # over the true labels
    assert lines[0][1:5] == ["0", "—", "41 ± 26", "—"]


@pytest.mark.parametrize(
    ("value", "marked"), [(89.9, True), (90.0, False), (95.0, False)], ids=["below", "at", "above"]
)
def test_lower_than_the_papers_less_its_deviation_is_marked(tmp_path, value, marked):
    store(tmp_path, TABLE1, "dwmr", "8puzzle", [value])
    assert (page.LOWER in str(page.grids(TABLE1, read_table(tmp_path, TABLE1))["8puzzle"])) == marked


def test_a_table_by_column_has_a_line_for_each_world_that_was_run(tmp_path):
    worlds = find_table("worlds")
    store(tmp_path, worlds, "auto", "hanoi", [90.0, 92.0])
    found = page.grids(worlds, read_table(tmp_path, worlds))
    assert list(found) == ["auto"]
    headings, *lines = found["auto"]
    assert headings == ["", "runs", *worlds.shown.values()]
    assert lines == [["hanoi", "2", *["—"] * 6]]
    assert set(worlds.shown) <= set(worlds.figures)


def test_what_the_paper_does_not_print_stands_alone(tmp_path):
    store(tmp_path, TABLE3, "no-pred-step2", "8puzzle", [70.0, 72.0])
    line = page.grids(TABLE3, read_table(tmp_path, TABLE3))["8puzzle"][-1]
    assert line[2:5] == ["71.0 ± 1.4", "—", "—"]


def test_claims_are_counted_in_ours_and_in_the_papers(tmp_path):
    store(tmp_path, TABLE1, "dwmr", "8puzzle", [90.0, 91.0])
    store(tmp_path, TABLE1, "ae", "8puzzle", [60.0, 61.0])
    store(tmp_path, TABLE1, "deepcubeai", "8puzzle", [92.0, 93.0])
    first, second, third, *_ = verdicts(TABLE1, read_table(tmp_path, TABLE1))
    assert "in 2 of 4 comparisons" in first
    assert "in the paper's figures in 23 of 24" in first  # AE encodes noisy IceSlider better
    assert "in 2 of 2 comparisons" in second
    assert "nothing to compare yet" in third


def test_a_claim_about_some_columns_is_judged_there_alone(tmp_path):
    for benchmark in ("8puzzle", "8puzzle-noisy"):
        store(tmp_path, TABLE3, "no-loc", benchmark, [70.0, 72.0])
        store(tmp_path, TABLE3, "no-cor", benchmark, [60.0, 62.0])
        store(tmp_path, TABLE3, "no-cos", benchmark, [80.0, 82.0])
    (locality,) = (text for text in verdicts(TABLE3, read_table(tmp_path, TABLE3)) if "removing locality" in text)
    assert "in 2 of 4 comparisons" in locality


def test_rows_of_the_same_runs_are_not_compared(tmp_path, monkeypatch):
    from dwmr.presets import PRESETS, preset

    for name in ("8puzzle/dwmr", "8puzzle-noisy/dwmr"):
        monkeypatch.setitem(PRESETS, name, preset(name, lr_factor=1.0))
    table = find_table("table2")
    store(tmp_path, table, "soft", "8puzzle", [90.0])
    assert read_table(tmp_path, table)["soft-no-schedules", "8puzzle"].runs
    (schedules,) = (text for text in verdicts(table, read_table(tmp_path, table)) if text.startswith("Schedules"))
    assert "nothing to compare yet" in schedules
    assert "in the paper's figures in 15 of 16" in schedules


def test_a_table_without_the_papers_figures_has_nothing_to_say_of_them(tmp_path):
    assert verdicts(STRONG, read_table(tmp_path, STRONG)) == []


def test_the_files_of_a_table(tmp_path):
    store(tmp_path, TABLE1, "dwmr", "8puzzle", [90.0, 92.0], fallen=1)
    write_table(TABLE1, tmp_path)
    expected = {"dwmr": {"8puzzle": {"encoding": [90.0, 92.0], "imagination": [89.0, 91.0]}}}
    assert json.loads((tmp_path / "table1.json").read_text()) == expected
    text = (tmp_path / "table1.md").read_text()
    assert "| DWMR | 2 of 3 | 91.0 ± 1.4 | 91 ± 1 | +0.0 |" in text
    assert "23 of 24 cells have not been run yet" in text
    assert "3 runs on a machine: 1.5 minutes of loading, training and evaluation in total." in text


def test_constant_codes_are_counted_and_what_they_lack_is_null(tmp_path):
    store(tmp_path, STRONG, "ae-grid", "8puzzle", [2.0, 90.0, 2.5], constant=(2.0, 2.5))
    write_table(STRONG, tmp_path)
    text = (tmp_path / "strong.md").read_text()
    assert "| AE, grid encoder | T+G | 3, 2 constant |" in text
    assert "Constant are runs whose code never changes" in text
    rows = json.loads((tmp_path / "strong_rows.json").read_text())
    assert rows["ae-grid"]["8puzzle"]["state_share"] == [None, None, None]
    assert "the paper's mean" not in text


def test_runs_on_different_data_are_not_put_into_one_table(tmp_path):
    store(tmp_path, TABLE1, "dwmr", "8puzzle", [90.0])
    store(tmp_path, TABLE1, "ae", "8puzzle", [90.0])
    (cell,) = TABLE1.choose(["ae,8puzzle"])
    path = cell_file(tmp_path, cell.key)
    path.write_text(re.sub('"fingerprint": "8puzzle"', '"fingerprint": "other"', path.read_text()))
    with pytest.raises(InputError, match="2 different data sets"):
        read_table(tmp_path, TABLE1)
