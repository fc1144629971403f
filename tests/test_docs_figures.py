"""Figures in the documentation are those of the committed results."""

import io
import json
import statistics

import pytest
from rich.console import Console

from dwmr.cli import tables
from dwmr.evaluation.verdicts import answers, summary
from experiments.reproduce import paper
from experiments.reproduce.catalog import find_table
from experiments.reproduce.cells import PARTS
from tests.documents import ROOT, line_of, means, results, words_of


@pytest.mark.parametrize("benchmark", ["iceslider", "iceslider-noisy"])
@pytest.mark.parametrize("planner", ["breadth_first", "astar", "simulator", "random", "greedy_step"])
def test_planning_on_iceslider(planner, benchmark):
    page = (ROOT / "docs" / "planning.md").read_text(encoding="utf-8").partition("### Figures")[2]
    clean, _, rest = page.partition("| noisy |")
    page = rest.partition("| 8-puzzle |")[0] if benchmark.endswith("noisy") else clean
    entry = results("planning.json")[benchmark][planner]
    easy = entry["min_solution_1"]
    line = line_of(page, f"| `{planner}` |").replace("**", "")
    assert f"| {entry['solved']} of {entry['of']} |" in line
    assert f"| {easy['solved']} of {easy['of']} |" in line
    shown = float(line.split("|")[3])
    assert shown == pytest.approx(entry["length_over_optimal"], abs=0.05 if shown > 2 else 0.0006)


@pytest.mark.parametrize("benchmark", ["8puzzle", "8puzzle-noisy"])
@pytest.mark.parametrize("planner", ["astar", "simulator", "random", "greedy_step"])
def test_planning_on_the_8_puzzle(planner, benchmark):
    start = "| noisy 8-puzzle |" if benchmark.endswith("noisy") else "| 8-puzzle |"
    page = (ROOT / "docs" / "planning.md").read_text(encoding="utf-8").partition(start)[2]
    entry = results("planning.json")[benchmark][planner]
    cells = [cell.strip(" *") for cell in line_of(page.partition("```")[0], f"| `{planner}`").split("|")]
    assert cells[2] == f"{entry['solved']} of {entry['of']}"
    if entry["length_over_optimal"] is not None:
        assert float(cells[3]) == pytest.approx(entry["length_over_optimal"], abs=0.0006)
    if planner in ("astar", "simulator"):
        assert int(cells[5].replace(",", "")) == round(entry["generated_mean"])


@pytest.mark.parametrize("planner", ["breadth_first", "astar", "simulator", "random", "greedy_step"])
def test_planning_on_digitjump(planner):
    page = (ROOT / "docs" / "planning.md").read_text(encoding="utf-8").partition("| DigitJump |")[2]
    entry = results("planning.json")["digitjump"][planner]
    cells = [cell.strip(" *") for cell in line_of(page, f"| `{planner}` |").split("|")]
    assert cells[2] == f"{entry['solved']} of {entry['of']}"
    shown = float(cells[3])
    assert shown == pytest.approx(entry["length_over_optimal"], abs=0.05 if shown > 2 else 0.0006)


@pytest.mark.parametrize(
    ("name", "start"),
    [("exact", "| exact"), ("iceslider/strong", "| `iceslider/strong`"), ("iceslider/dwmr", "| `iceslider/dwmr`")],
)
def test_symbols_of_iceslider(name, start):
    page = (ROOT / "docs" / "symbols.md").read_text(encoding="utf-8")
    entry = results("symbolic.json")[name]
    cells = [cell.strip() for cell in line_of(page, start).split("|")]
    assert int(cells[2]) == entry["fidelity"]["rules"]
    assert float(cells[3].rstrip("%")) == pytest.approx(entry["fidelity"]["states"], abs=0.006)
    assert cells[6] == f"{entry['levels']['solved']} of {entry['levels']['of']}"
    assert int(cells[7]) == entry["levels"]["optimal"]


def test_symbols_of_the_8_puzzle():
    page = " ".join((ROOT / "docs" / "symbols.md").read_text(encoding="utf-8").split())
    found = results("symbolic.json")["8puzzle/strong-grid"]["fidelity"]
    assert f"the {found['rules']} rules are the puzzle's own" in page
    assert f"whole next code in {found['states']:.2f}% of held-out cases" in page
    frames = found["frames"]
    assert f"in {frames['rules']:.1f}% where the predictor itself is right in {frames['model']:.1f}%" in page
    assert found["rules"] == 64
    whole = results("symbolic.json")["8puzzle/strong"]["fidelity"]
    assert f"There are {whole['rules']:,} of them" in page
    assert f"whole next code in {whole['states']:.1f}% of held-out cases ({whole['bits']:.1f}% of the bits)" in page


@pytest.mark.parametrize(
    ("name", "unit", "sizes"),
    [
        ("planning_cpu2.json", 1, (256, 1024, 4096, 16384)),
        ("planning_h200.json", 1e6, (4096, 16384, 65536, 262144, 1048576)),
    ],
)
@pytest.mark.parametrize("planner", ["breadth_first", "batch_astar"])
def test_the_speed_of_planning(name, unit, sizes, planner):
    page = (ROOT / "docs" / "planning.md").read_text(encoding="utf-8").partition(name)[2]
    found = json.loads((ROOT / "benchmarks" / "results" / name).read_text(encoding="utf-8"))
    line = next(line for line in page.splitlines() if line.startswith(f"| `{planner}` |"))
    shown = [float(cell.strip(" *").replace(",", "")) * unit for cell in line.split("|")[2:-1]]
    assert shown == pytest.approx([found[f"{planner}_batch{size}_states_per_second"] for size in sizes], rel=0.02)


def test_the_readme_speaks_of_them_too():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    solved = results("planning.json")["iceslider"]["breadth_first"]
    assert f"solves {solved['solved']} of {solved['of']} unseen levels" in " ".join(text.split())
    noisy = results("planning.json")["iceslider-noisy"]["breadth_first"]
    assert f"`iceslider-noisy/strong` solves {noisy['solved']}" in text
    tiles = results("planning.json")["8puzzle"]["astar"]
    assert f"`8puzzle/strong` {tiles['solved']} of {tiles['of']} pairs of boards" in " ".join(text.split())
    noise = results("planning.json")["8puzzle-noisy"]["astar"]
    assert f"and `8puzzle-noisy/strong` {noise['solved']} of {noise['of']}" in " ".join(text.split())
    jumps = results("planning.json")["digitjump"]["breadth_first"]
    assert f"`digitjump/strong` solves {jumps['solved']} of {jumps['of']} levels" in text
    assert f"its {results('symbolic.json')['iceslider/strong']['fidelity']['rules']} rules" in text
    puzzle, ice, noisy_ice = (
        statistics.mean(results("strong.json")[name]["exact_1000"])
        for name in ("8puzzle", "iceslider", "iceslider-noisy")
    )
    told = f"{puzzle:.1f}% of the codes are exact on the 8-puzzle, {ice:.2f}% on IceSlider, {noisy_ice:.1f}% with noise"
    assert told in " ".join(text.split())
    told_more = means(results("strong_rows.json")["strong-grid-two-views"]["8puzzle"], *PARTS)
    assert f"(tiers G and J), the 8-puzzle comes to {told_more}" in " ".join(text.split())


@pytest.mark.parametrize("study", results("label_free.json")["studies"])
def test_choosing_without_labels(study):
    page = (ROOT / "docs" / "tuning.md").read_text(encoding="utf-8")
    rungs = results("label_free.json")["studies"][study]
    wanted = [rungs[rung][name] for rung in list(rungs)[-2:] for name in ("best", "chosen_without_labels")]
    shown = [float(number) for cell in line_of(page, f"| `{study}` |").split("|")[2:4] for number in cell.split(",")]
    assert shown == pytest.approx(wanted, abs=0.051)


@pytest.mark.parametrize(
    ("start", "benchmark"),
    [
        ("| 8-puzzle |", "8puzzle"),
        ("| noisy 8-puzzle |", "8puzzle-noisy"),
        ("| IceSlider |", "iceslider"),
        ("| noisy IceSlider |", "iceslider-noisy"),
    ],
)
def test_the_headline_in_the_readme(start, benchmark):
    line = line_of((ROOT / "README.md").read_text(encoding="utf-8"), start)
    cells = [cell.strip(" *%") for cell in line.split("|")[4:-1]]
    shown = [float(number) for cell in cells for number in cell.split(" / ")]
    figures = results("strong.json")[benchmark]
    wanted = [statistics.mean(figures[name]) for name in ("encoding", "imagination", "exact_next")]
    assert shown == pytest.approx(wanted, abs=0.051)


@pytest.mark.parametrize("row", find_table("table1").rows, ids=lambda row: row.name)
def test_table_1_in_the_readme(row):
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("| ours (paper) |")[2]
    for cell, benchmark in zip(line_of(text, f"| {row.title} |").split("|")[2:-1], paper.ALL, strict=True):
        found, printed = results("table1.json")[row.name][benchmark], paper.TABLE1[row.name][benchmark]
        ours, _, theirs = cell.strip(" )").partition(" (")
        means = [statistics.mean(found[part]) for part in PARTS]
        assert [float(number) for number in ours.split(" / ")] == pytest.approx(means, abs=0.051)
        assert [float(number) for number in theirs.split(" / ")] == [getattr(printed, part).mean for part in PARTS]


@pytest.mark.parametrize(
    ("start", "benchmark", "observer", "row"),
    [
        ("| 8-puzzle, the board as a whole |", "8puzzle", "supervised conv, 64 bits", "strong"),
        ("| 8-puzzle, tile by tile |", "8puzzle", "supervised tiles, 63 bits", "strong-grid"),
        ("| noisy, the board as a whole |", "8puzzle-noisy", "supervised conv, 64 bits", "strong"),
        ("| noisy, tile by tile |", "8puzzle-noisy", "supervised tiles, 63 bits", "strong-grid"),
    ],
)
def test_what_labels_teach_the_encoders(start, benchmark, observer, row):
    page = (ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")
    taught, alone = results("ceilings.json")[benchmark][observer], results("strong_rows.json")[row][benchmark]
    wanted = [taught["encoding"][name] for name in ("f1", "board_accuracy")]
    wanted += [statistics.mean(alone[name]) for name in ("encoding", "board_encoding")]
    assert [float(cell) for cell in line_of(page, start).split("|")[2:-1]] == pytest.approx(wanted, abs=0.051)


def test_noisy_iceslider_beside_its_observers_and_over_true_labels():
    strong, observers = results("strong.json")["iceslider-noisy"], results("ceilings.json")["iceslider-noisy"].values()
    boards = [observer["encoding"]["board_accuracy"] for observer in observers]
    text = words_of("docs/evaluation.md")
    assert f"they read {min(boards):.1f} to {max(boards):.1f}%" in text
    assert f"reads {means(strong, 'board_encoding')}% by its linear probe" in text
    over_true = f"over the true labels it is {means(strong, 'true_f1_encoding', 'true_f1_imagination')}"
    assert over_true in words_of("README.md")
    assert over_true in words_of("docs/beyond.md")


def test_choosing_a_strong_setting_without_labels():
    found = results("label_free.json")["settings"]["8puzzle-noisy/strong"]
    words = f"{found['chosen_without_labels']:.1f} without labels, {found['best']:.1f} with them"
    assert f"{words} (Spearman {found['rank_correlation']:.2f})".replace("-", "−") in words_of("docs/tuning.md")


def test_what_choosing_without_labels_costs_in_the_log():
    studies = [list(rungs.values()) for rungs in results("label_free.json")["studies"].values()]
    last, three_seeds = ([rungs[place]["cost"] for rungs in studies] for place in (-2, -1))
    cheap = [[cost for cost in costs if cost < 5] for costs in (last, three_seeds)]
    text = words_of("docs/log.md")
    assert f"at the last rung of {len(cheap[0])} of {len(studies)} studies" in text
    assert f"0–2.6 in {len(cheap[1])} of them" in text
    assert [max(costs) for costs in cheap] == pytest.approx([3.5, 2.6], abs=0.051)


@pytest.mark.parametrize("name", ["certificate_example", "certificate_strong", "certificate_noisy"])
def test_the_certificates_shown(name):
    found, shown = results(f"{name}.json"), io.StringIO()
    assert found["verdicts"] == answers(found)
    assert found["summary"] == summary(found)
    Console(file=shown, width=100).print(tables.certificate(found)[0])
    lines = [line.rstrip() for line in shown.getvalue().splitlines()[4:] if line.strip()]
    assert "\n".join([*lines, "", found["summary"]]) in (ROOT / "docs" / "trust.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("strength", ["0", "0.1", "0.15", "0.25"])
def test_what_repair_does_under_noise(strength):
    page = (ROOT / "docs" / "trust.md").read_text(encoding="utf-8").partition("| noise | chosen |")[2]
    cells = line_of(page, f"| {strength} |").split("|")[3:-1]
    figures = results("repair_under_noise.json")["noise"][strength]
    wanted = [
        figures[part + ending][name]
        for part in PARTS
        for name in ("f1_true_labels", "board_accuracy")
        for ending in ("", "_repaired")
    ]
    wanted += [figures["codes"][name + ending] for name in ("same_code", "exact_next") for ending in ("", "_repaired")]
    assert [float(number) for cell in cells for number in cell.split("→")] == pytest.approx(wanted, abs=0.051)


@pytest.mark.parametrize("model", ["iceslider-noisy/strong", "8puzzle-noisy/strong"])
def test_what_repair_does_to_strong_models(model):
    line = line_of((ROOT / "docs" / "trust.md").read_text(encoding="utf-8"), f"| `{model}` |")
    names = ["encoding", "board_encoding", "imagination", "board_imagination", "same_code", "exact_next"]
    runs = results("repaired.json")[model]["runs"].values()
    assert len(runs) == 10
    wanted = [statistics.mean(run[name + ending] for run in runs) for name in names for ending in ("", "_repaired")]
    shown = [float(number) for cell in line.split("|")[2:-1] for number in cell.split("→")]
    assert shown == pytest.approx(wanted, abs=0.051)
