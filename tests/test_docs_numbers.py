"""The tables of the documentation show the numbers of the committed result files."""

import json
import statistics
from collections.abc import Iterable

import pytest

from experiments.reproduce import paper
from tests.documents import ROOT, numbers, read, results, runs_of, table

PARTS = ("encoding", "imagination")
BENCHMARKS = {
    "8-puzzle": "8puzzle",
    "noisy 8-puzzle": "8puzzle-noisy",
    "IceSlider": "iceslider",
    "noisy IceSlider": "iceslider-noisy",
    "DigitJump": "digitjump",
}
MODELS = {
    "AE": "ae",
    "β-VAE": "beta-vae",
    "DeepCubeAI": "deepcubeai",
    "DWMR": "dwmr",
    "DWMR+AE": "dwmr+ae",
    "DWMR+β-VAE": "dwmr+beta-vae",
}
BEYOND, RESULTS = "docs/explain/beyond-the-paper.md", "docs/explain/results.md"


def mean(values: Iterable[float | None]) -> float:
    return statistics.mean(value for value in values if value is not None)


def means(figures: dict, *names: str) -> list[float]:
    return [mean(figures[name]) for name in names]


def shows(cells: list[str] | str, wanted: list[float], tolerance: float = 0.051) -> None:
    text = cells if isinstance(cells, str) else " ".join(cells)
    assert numbers(text) == pytest.approx(wanted, abs=tolerance)


@pytest.mark.parametrize("title", [name for name in BENCHMARKS if name != "DigitJump"])
def test_the_readme(title):
    benchmark = BENCHMARKS[title]
    printed, strong = paper.TABLE1["dwmr"][benchmark], results("strong.json")[benchmark]
    wanted = [getattr(printed, part).mean for part in PARTS]
    wanted += means(results("table1.json")["dwmr"][benchmark], *PARTS)
    wanted += means(strong, *PARTS, "exact_next", "collisions")
    shows(table("README.md", "benchmark")[title], wanted)


@pytest.mark.parametrize("title", MODELS)
@pytest.mark.parametrize("column", range(4))
def test_table_1(title, column):
    benchmark = list(BENCHMARKS.values())[column]
    ours, printed = results("table1.json")[MODELS[title]][benchmark], paper.TABLE1[MODELS[title]][benchmark]
    wanted = []
    for part in PARTS:
        theirs = getattr(printed, part)
        wanted += [statistics.mean(ours[part]), statistics.stdev(ours[part]), theirs.mean, theirs.std]
    shows(table(RESULTS, "model", number=column)[title], wanted)


TABLE_2 = {
    "soft": "soft",
    "straight-through": "straight_through",
    "two-step, second step soft": "two_step",
    "two-step, second step straight-through": "two_step_st",
}
TABLE_3 = {
    "DWMR": "dwmr",
    "no variance term": "no-var",
    "no correlation term": "no-cor",
    "no coskewness term": "no-cos",
    "no locality term": "no-loc",
    "no EMA": "no-ema",
    "no prediction loss in step 2": "no-pred-step2",
}


@pytest.mark.parametrize("title", [*TABLE_2, *(f"{name}, no schedules" for name in TABLE_2)])
def test_table_2(title):
    row = TABLE_2.get(title) or f"{TABLE_2[title.removesuffix(', no schedules')]}-no-schedules"
    beside_the_paper("table2.json", paper.TABLE2, row, table(RESULTS, "scheme")[title])


@pytest.mark.parametrize("title", TABLE_3)
def test_table_3(title):
    beside_the_paper("table3.json", paper.TABLE3, TABLE_3[title], table(RESULTS, "removed")[title])


def beside_the_paper(file: str, printed: dict, row: str, cells: list[str]) -> None:
    wanted = []
    for benchmark in ("8puzzle", "8puzzle-noisy"):
        wanted += means(results(file)[row][benchmark], *PARTS)
        wanted += [getattr(printed[row][benchmark], part).mean for part in PARTS] if row in printed else []
    shows(cells, wanted)


@pytest.mark.parametrize("row", results("strong_rows.json"))
def test_every_row_beyond_the_paper(row):
    found = results("strong_rows.json")[row]
    wanted = [
        value
        for benchmark in ("8puzzle", "8puzzle-noisy", "iceslider", "iceslider-noisy")
        if benchmark in found
        for value in means(found[benchmark], *PARTS, "exact_next", "collisions")
    ]
    rows = table(RESULTS, "beyond the paper")
    assert any(numbers(" ".join(cells)) == pytest.approx(wanted, abs=0.051) for cells in rows.values())
    assert len(rows) == len(results("strong_rows.json"))


STRONG = {"strong": "strong", "strong, tile by tile": "strong-grid"}
STRONG["strong, tile by tile, and two views"] = "strong-grid-two-views"


def test_what_the_strong_models_bring():
    text = read(BEYOND).partition("| benchmark | model |")[2].partition("\n\n")[0]
    names = ("encoding", "imagination", "board_encoding", "board_imagination", "exact_next", "exact_1000")
    lines = [line.strip("|").split("|") for line in text.splitlines()[2:]]
    assert len(lines) == 8
    for benchmark, model, _, *cells in lines:
        figures = results("strong_rows.json")[STRONG[model.strip()]][BENCHMARKS[benchmark.strip()]]
        shows(cells, means(figures, *names))


@pytest.mark.parametrize(
    ("title", "row"),
    [
        ("nothing", "strong"),
        ("predictor (the paper's instead)", "strong-no-far"),
        ("moments across views (the usual instead)", "strong-no-cross"),
        ("agreement", "strong-no-agreement"),
        ("falling learning rate", "strong-no-cosine"),
        ("moments cell by cell", "strong-all-bits"),
        ("slow features", "strong-random-start"),
    ],
)
def test_what_each_part_is_worth(title, row):
    found = results("strong_rows.json")[row]
    wanted = means(found["8puzzle"], *PARTS, "exact_next") if "8puzzle" in found else []
    wanted += means(found["iceslider-noisy"], "true_f1_encoding", "true_f1_imagination", "exact_next")
    shows(table(BEYOND, "removed")[title], wanted)


MARGINS = {"margin 0.15": "strong-narrow-margin", "margin 0.3, the preset": "strong"}


@pytest.mark.parametrize("title", MARGINS)
def test_the_margin(title):
    figures = results("strong_rows.json")[MARGINS[title]]["iceslider-noisy"]
    names = ("exact_next", "same_code", "board_encoding", "board_imagination", "exact_1000")
    shows(table(BEYOND, "noisy IceSlider, ten test runs")[title], means(figures, *names))


@pytest.mark.parametrize("title", [*MODELS, "strong"])
def test_how_much_of_a_bit_the_state_decides(title):
    wanted = []
    for benchmark in ("8puzzle", "8puzzle-noisy", "iceslider-noisy"):
        shares = [figures["codes"]["state_share"] for figures in runs_of(benchmark, MODELS.get(title, title))]
        wanted += [statistics.mean(shares), statistics.stdev(shares)]
    shows(table(BEYOND, "state's share of a bit's variance")[title], wanted)


@pytest.mark.parametrize(("title", "row"), [("tile by tile", "grid"), ("whole board", "no grid")])
def test_a_shifted_board(title, row):
    runs = results("shifted_board.json")["8puzzle"][row].values()
    names = ("encoding", "imagination", "exact_next")
    wanted = [mean(run[name] for run in each["validation"]) for each in runs for name in names]
    shows(table(BEYOND, "board shifted by")[title], wanted)


@pytest.mark.parametrize("planner", ["breadth_first", "astar", "simulator", "greedy_step", "random"])
@pytest.mark.parametrize("title", BENCHMARKS)
def test_planning(title, planner):
    entry = results("planning.json")[BENCHMARKS[title]].get(planner)
    lines = [line for line in read(RESULTS).splitlines() if line.startswith(f"| {title} | `{planner}` |")]
    if entry is None:
        assert not lines
        return
    ((*_, solved, length, share, easy, seconds, _),) = [line.split("|") for line in lines]
    assert solved.strip() == f"{entry['solved']} of {entry['of']}"
    for cell, name, tolerance in ((length, "length_over_optimal", 0.0006), (share, "share_optimal", 0.51)):
        if entry[name] is not None:
            shows(cell, [entry[name]], tolerance)
    if easy.strip() != "–":
        easier = entry["min_solution_1"]
        assert easy.strip() == f"{easier['solved']} of {easier['of']}"
    if seconds.strip() != "–":
        shows(seconds, [entry["seconds_median"]], 0.051 if entry["seconds_median"] > 0.1 else 0.0006)


def test_planning_in_the_guide():
    text = read("docs/howto/plan.md").partition("| world, `strong` preset")[2].partition("\n\n")[0]
    for title, planner, solved, length, seconds in (
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[2:]
    ):
        entry = results("planning.json")[BENCHMARKS[title]][planner.partition(",")[0].strip("`")]
        assert solved == f"{entry['solved']} of {entry['of']}"
        shows(length, [entry["length_over_optimal"]], 0.0006)
        shows(seconds, [entry["seconds_median"]], 0.051 if entry["seconds_median"] > 0.1 else 0.0051)


@pytest.mark.parametrize("title", ["exact (control: true labels, true rules)", "iceslider/strong", "iceslider/dwmr"])
def test_rules_of_iceslider(title):
    entry = results("symbolic.json")["exact" if title.startswith("exact") else title]
    levels = entry["levels"]
    wanted = [
        entry["fidelity"]["rules"],
        entry["fidelity"]["states"],
        levels["solved"],
        levels["of"],
        levels["optimal"],
    ]
    shows(table("docs/howto/export-symbols.md", "model")[title], wanted, 0.006)


@pytest.mark.parametrize("title", ["8puzzle/strong-grid", "8puzzle/strong"])
def test_rules_of_the_8_puzzle(title):
    found = results("symbolic.json")[title]["fidelity"]
    shows(table("docs/howto/export-symbols.md", "model")[title], [found["rules"], found["states"]])


def test_certificates():
    names = ("certificate_example", "certificate_strong", "certificate_noisy")
    verdicts = [results(f"{name}.json")["verdicts"] for name in names]
    rows = table("docs/howto/check-trust.md", "question")
    for row, three in zip(rows.items(), zip(*verdicts, strict=True), strict=True):
        title, cells = row
        assert title == f"{three[0]['name']}`: {three[0]['question']}"
        for cell, verdict in zip(cells, three, strict=True):
            assert cell.partition(",")[0] == verdict["answer"]
            shows(cell, [] if verdict["figure"] is None else [verdict["figure"]], 0.0051)


@pytest.mark.parametrize("model", ["iceslider-noisy/strong", "8puzzle-noisy/strong"])
def test_repair(model):
    runs = results("repaired.json")[model]["runs"].values()
    assert len(runs) == 10

    def wanted(*names: str) -> list[float]:
        return [mean(run[name + ending] for run in runs) for name in names for ending in ("", "_repaired")]

    every = ("encoding", "board_encoding", "imagination", "board_imagination", "same_code", "exact_next")
    shows(table("docs/log.md", "ten test runs, plain → repaired")[model], wanted(*every))


@pytest.mark.parametrize("strength", ["0", "0.1", "0.15", "0.25"])
def test_repair_under_noise(strength):
    figures = results("repair_under_noise.json")["noise"][strength]
    wanted = [
        figures[part + ending][name]
        for part in PARTS
        for name in ("f1_true_labels", "board_accuracy")
        for ending in ("", "_repaired")
    ]
    wanted += [figures["codes"][name + ending] for name in ("same_code", "exact_next") for ending in ("", "_repaired")]
    shows(table("docs/log.md", "noise")[strength][1:], wanted)


@pytest.mark.parametrize("study", results("label_free.json")["studies"])
def test_choosing_without_labels(study):
    rungs = results("label_free.json")["studies"][study]
    wanted = [rungs[rung][name] for rung in list(rungs)[-2:] for name in ("best", "chosen_without_labels")]
    shows(table("docs/log.md", "study")[study], wanted)


CEILINGS = "docs/reference/metrics.md"


@pytest.mark.parametrize("title", ["tile, uniform prior", "tile, cell prior", "board", "tile, label prior"])
def test_what_an_ideal_observer_reads(title):
    found = results("ceilings.json")["iceslider-noisy"][title]["encoding"]
    names = ("f1", "f1_true_labels", "accuracy", "board_accuracy")
    shows(table(CEILINGS, "observer")[title], [found[name] for name in names], 0.0051)


@pytest.mark.parametrize(
    ("title", "benchmark", "observer", "row"),
    [
        ("whole board", "8puzzle", "supervised conv, 64 bits", "strong"),
        ("tile by tile", "8puzzle", "supervised tiles, 63 bits", "strong-grid"),
        ("whole board, noisy", "8puzzle-noisy", "supervised conv, 64 bits", "strong"),
        ("tile by tile, noisy", "8puzzle-noisy", "supervised tiles, 63 bits", "strong-grid"),
    ],
)
def test_what_labels_teach(title, benchmark, observer, row):
    taught = results("ceilings.json")[benchmark][observer]["encoding"]
    wanted = [taught["f1"], taught["board_accuracy"]]
    wanted += means(results("strong_rows.json")[row][benchmark], "encoding", "board_encoding")
    shows(table(CEILINGS, "encoder")[title], wanted)


@pytest.mark.parametrize(
    ("heading", "name", "unit", "sizes"),
    [
        ("CPU", "planning_cpu2.json", 1, (256, 1024, 4096, 16384)),
        ("H200", "planning_h200.json", 1e6, (4096, 16384, 65536, 262144, 1048576)),
    ],
)
@pytest.mark.parametrize("planner", ["breadth_first", "batch_astar"])
def test_search_speed(heading, name, unit, sizes, planner):
    found = json.loads((ROOT / "benchmarks" / "results" / name).read_text(encoding="utf-8"))
    shown = numbers(" ".join(table("docs/explain/performance.md", heading)[planner]))
    wanted = [found[f"{planner}_batch{size}_states_per_second"] / unit for size in sizes]
    assert shown == pytest.approx(wanted, rel=0.02)


def speed(name: str) -> dict:
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))


PERFORMANCE = "docs/explain/performance.md"


@pytest.mark.parametrize("world", ["8puzzle", "iceslider"])
def test_seconds_per_run_on_a_gpu(world):
    found = speed("h200")
    wanted = [found[f"{world}_{way}_seconds_per_run"] for way in ("naive", "plain", "fast", "dwmr")]
    shown = numbers(" ".join(table(PERFORMANCE, "seconds per run, H200")[f"{world}/dwmr"]))
    assert shown == pytest.approx(wanted, rel=0.02)


@pytest.mark.parametrize(("title", "world"), [("8-puzzle", "8puzzle"), ("IceSlider", "iceslider")])
def test_seconds_per_epoch_on_two_cores(title, world):
    found = speed("cpu2")
    wanted = [found[f"{world}_{way}_seconds_per_epoch"] for way in ("naive", "plain", "fast")]
    wanted += [found[f"{world}_epoch_speedup"]]
    shows(table(PERFORMANCE, "seconds per epoch, two CPU cores")[title], wanted)


@pytest.mark.parametrize("title", ["8-puzzle, H200", "IceSlider, H200", "8-puzzle, two cores", "IceSlider, two cores"])
def test_ms_per_update(title):
    found = speed("h200" if title.endswith("H200") else "cpu2")
    world = "8puzzle" if title.startswith("8") else "iceslider"
    wanted = [found[f"{world}_update_ms_n{size}"] for size in (64, 128, 256, 512)]
    shows(table(PERFORMANCE, "ms per update, one run, by minibatch")[title], wanted, 0.51 if wanted[0] > 10 else 0.051)


@pytest.mark.parametrize("bits", [64, 192, 512, 1024])
def test_the_coskewness(bits):
    names = ["dense_k{}_ms", "plain_k{}_ms", "fast_k{}_ms"]
    found = [speed("h200").get(f"coskewness_{name.format(bits)}") for name in names]
    shown = numbers(" ".join(table(PERFORMANCE, "coskewness, N = 256, H200: K")[f"{bits:,}"]))
    assert shown == pytest.approx([value for value in found if value is not None], rel=0.07)
