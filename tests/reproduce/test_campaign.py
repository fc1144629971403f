"""Running tables: real runs in miniature, stopped, killed, resumed, and made again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import dwmr
from dwmr.errors import InputError, TrainingDiverged
from dwmr.evaluation import probes
from dwmr.evaluation.evaluate import evaluate_many
from dwmr.presets import PRESETS, preset
from dwmr.reproduce import campaign
from dwmr.reproduce.catalog import find_table
from dwmr.reproduce.page import write_table
from dwmr.reproduce.runs import read_cell, read_table, run_file

TABLE = find_table("table3")
CPU = torch.device("cpu")
USUAL_UPDATES = probes.MIN_UPDATES
ONLY = ["dwmr,8puzzle", "no-var,8puzzle"]


def run(out, *only, runs=2, **options):
    cells = TABLE.choose(only)
    done = campaign.run(TABLE, cells, out, range(runs), device="cpu", progress=False, **options)
    write_table(TABLE, out)
    return done


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A place for the runs that several tests read."""
    return tmp_path_factory.mktemp("made")


@pytest.fixture
def reference(made):
    """Two runs of two cells, made at one go."""
    assert run(made, *ONLY)
    return made


def test_a_run_is_what_training_and_evaluation_give(reference):
    (cell,) = TABLE.choose(["dwmr,8puzzle"])
    stored = json.loads(run_file(reference, cell, 1).read_text())
    splits = dwmr.load_splits(Path(os.environ["DWMR_CACHE"]) / "data" / "8puzzle")
    model = dwmr.train(cell.config, train=splits.train, seed=1, device="cpu", progress=False).model
    (found,) = evaluate_many([model], train=splits.train, test=splits.test)
    assert stored["figures"] == json.loads(json.dumps(found.figures))
    assert set(stored["figures"]) == {"encoding", "imagination", "baselines", "codes"}
    assert dwmr.Config.from_dict(stored["config"]) == cell.config
    assert stored["data"]["digits"] != "mnist"
    assert stored["diverged"] is None
    assert set(stored["seconds"]) == {"loading", "training", "evaluation"}
    assert stored["code"]["dwmr"] == dwmr.__version__


def test_models_are_kept_when_asked_for(tmp_path):
    (cell,) = TABLE.choose(["dwmr,8puzzle"])
    left = tmp_path / "models" / cell.key / "seed-1"
    left.mkdir(parents=True)  # what a stopped campaign may leave
    assert run(tmp_path, "dwmr,8puzzle", models=tmp_path / "models")
    splits = dwmr.load_splits(Path(os.environ["DWMR_CACHE"]) / "data" / "8puzzle")
    model = campaign.kept_or_trained("8puzzle/dwmr", 1, splits.train, "cpu", tmp_path / "models")
    (found,) = evaluate_many([model], train=splits.train, test=splits.test)
    stored = json.loads(run_file(tmp_path, cell, 1).read_text())
    assert stored["figures"] == json.loads(json.dumps(found.figures))
    with pytest.raises(InputError, match="cannot be trained further"):
        dwmr.train(cell.config, train=splits.train, seed=1, out=left, resume=True, device="cpu", progress=False)


def test_the_table_holds_a_figure_of_every_run(reference):
    found = json.loads((reference / "table3.json").read_text())
    assert set(found) == {"dwmr", "no-var"}
    assert set(found["dwmr"]) == {"8puzzle"}
    (cell,) = TABLE.choose(["no-var,8puzzle"])
    each = [json.loads(run_file(reference, cell, seed).read_text())["figures"] for seed in (0, 1)]
    assert found["no-var"]["8puzzle"] == {
        part: [figures[part]["accuracy"] for figures in each] for part in ("encoding", "imagination")
    }


def test_nothing_is_made_twice(reference, monkeypatch):
    monkeypatch.setattr(dwmr, "train_many", lambda *words, **more: pytest.fail("trained again"))
    assert run(reference, *ONLY)


def test_side_by_side_gives_the_same_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(probes, "MIN_UPDATES", USUAL_UPDATES)  # as in the other processes
    threads = torch.get_num_threads()
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // 2))
    try:
        assert run(tmp_path / "one", *ONLY)
    finally:
        torch.set_num_threads(threads)
    assert run(tmp_path / "two", *ONLY, jobs=2)
    for cell in TABLE.choose(ONLY):
        one, two = (read_cell(tmp_path / name, cell).fresh for name in ("one", "two"))
        assert [each.seed for each in one] == [each.seed for each in two] == [0, 1]
        assert [each.figures for each in one] == [each.figures for each in two]


def test_a_killed_reproduction_goes_on_and_gives_the_same_table(reference, tmp_path):
    words = ["reproduce", "table3", "--runs", "2", "--out", str(tmp_path), "--device", "cpu"]
    words += [word for cell in ONLY for word in ("--only", cell)]
    script = [sys.executable, "-m", "tests.reproduce.small", *words]
    root = Path(__file__).parents[2]
    paths = os.pathsep.join([str(root), str(Path(dwmr.__file__).parents[1])])
    child = subprocess.Popen(
        script, cwd=tmp_path, env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}, stderr=subprocess.DEVNULL
    )
    waited = time.monotonic() + 60
    while len(list(tmp_path.rglob("seed-*.json"))) < 1:
        assert child.poll() is None
        assert time.monotonic() < waited
        time.sleep(0.02)
    child.send_signal(signal.SIGKILL)
    child.wait()
    kept = {path: path.read_bytes() for path in tmp_path.rglob("seed-*.json")}
    assert 1 <= len(kept) < 4
    assert run(tmp_path, *ONLY)
    assert all(path.read_bytes() == content for path, content in kept.items())
    for name in ("table3.json", "table3.tex", "table3.svg"):
        assert (tmp_path / name).read_bytes() == (reference / name).read_bytes()


def test_a_group_that_was_cut_off_is_made_again_as_a_whole(tmp_path, monkeypatch):
    """As on a GPU, where the runs of a cell are one program."""
    groups = []
    really_train = dwmr.train_many

    def train(config, *, seeds, device, **more):
        groups.append(list(seeds))
        return really_train(config, seeds=seeds, device="cpu", **more)

    monkeypatch.setattr(dwmr, "train_many", train)
    monkeypatch.setattr(campaign, "resolve_device", lambda name: torch.device("cuda"))
    monkeypatch.setattr(campaign, "machine_words", lambda device: "a machine")
    run(tmp_path, "dwmr,8puzzle", runs=2)
    (cell,) = TABLE.choose(["dwmr,8puzzle"])
    before = [each.figures for each in read_cell(tmp_path, cell).fresh]
    run_file(tmp_path, cell, 1).unlink()
    run(tmp_path, "dwmr,8puzzle", runs=3)
    assert groups == [[0, 1], [0, 1], [2]]
    assert [each.figures for each in read_cell(tmp_path, cell).fresh][:2] == before


def test_a_budget_ends_in_order_and_a_later_call_goes_on(tmp_path, monkeypatch):
    assert run(tmp_path, "dwmr,8puzzle", runs=1)  # from now on there is an estimate
    monkeypatch.setattr(campaign, "MARGIN", 1e6)
    assert not run(tmp_path, "dwmr,8puzzle", budget=60)
    (cell,) = TABLE.choose(["dwmr,8puzzle"])
    assert [each.seed for each in read_cell(tmp_path, cell).fresh] == [0]
    assert len(json.loads((tmp_path / "table3.json").read_text())["dwmr"]["8puzzle"]["encoding"]) == 1
    assert run(tmp_path, "dwmr,8puzzle")
    assert [each.seed for each in read_cell(tmp_path, cell).fresh] == [0, 1]


def test_runs_of_other_values_are_not_mixed_in(tmp_path, monkeypatch):
    (cell,) = TABLE.choose(["dwmr,8puzzle"])
    run(tmp_path, "dwmr,8puzzle", runs=1)
    first = run_file(tmp_path, cell, 0).read_text()
    monkeypatch.setitem(PRESETS, "8puzzle/dwmr", preset("8puzzle/dwmr", lr=2e-3))
    with pytest.raises(InputError, match=r"dwmr on 8puzzle \(lr 0.001 instead of 0.002\); --again"):
        run(tmp_path, "dwmr,8puzzle", runs=1)
    assert read_table(tmp_path, TABLE)["dwmr", "8puzzle"].fresh == []
    (entry,) = campaign.plan(TABLE, [cell], tmp_path, range(1), CPU)
    assert (entry.done, entry.missing, list(entry.stale)) == ([], [0], [0])
    assert run(tmp_path, "dwmr,8puzzle", runs=1, again=True)
    assert run_file(tmp_path, cell, 0).read_text() != first
    assert len(read_cell(tmp_path, cell).fresh) == 1


def test_other_data_is_refused(tmp_path, monkeypatch, tiny_cache):
    run(tmp_path, "dwmr,8puzzle", runs=1)
    other = tmp_path / "cache"
    for split in ("train", "test"):
        source = dwmr.load_transitions(tiny_cache / "data" / "8puzzle" / split)
        source[:64].save(other / "data" / "8puzzle" / split)
    monkeypatch.setenv("DWMR_CACHE", str(other))
    with pytest.raises(InputError, match="other data"):
        run(tmp_path, "dwmr,8puzzle", runs=2)


def test_a_diverged_run_is_kept_and_counted(tmp_path, monkeypatch):
    really_train = dwmr.train_many

    def train(config, *, seeds, **more):
        if seeds == [1]:
            return [TrainingDiverged("the loss is not finite")]
        return really_train(config, seeds=seeds, **more)

    monkeypatch.setattr(dwmr, "train_many", train)
    assert run(tmp_path, "dwmr,8puzzle", runs=3)
    runs = read_table(tmp_path, TABLE)["dwmr", "8puzzle"]
    assert [each.diverged for each in runs.fresh] == [None, "the loss is not finite", None]
    assert len(json.loads((tmp_path / "table3.json").read_text())["dwmr"]["8puzzle"]["encoding"]) == 2
    shown = (tmp_path / "table3.md").read_text()
    assert "| DWMR | 2 of 3 |" in shown
    assert "Of the runs 1 diverged" in shown


def test_the_plan_says_what_is_there_and_what_is_not(reference):
    planned = campaign.plan(TABLE, TABLE.choose(["dwmr", "no-cor"]), reference, range(3), CPU)
    assert [(entry.cell.title, entry.done, entry.missing) for entry in planned] == [
        ("dwmr on 8puzzle", [0, 1], [2]),
        ("dwmr on 8puzzle-noisy", [], [0, 1, 2]),
        ("no-cor on 8puzzle", [], [0, 1, 2]),
        ("no-cor on 8puzzle-noisy", [], [0, 1, 2]),
    ]
    each = read_cell(reference, planned[0].cell).fresh
    assert planned[0].seconds == pytest.approx(sum(one.took for one in each) / 2)
    assert planned[2].seconds == pytest.approx(3 * planned[0].seconds)


def test_a_plan_without_any_figures_knows_no_time(tmp_path):
    planned = campaign.plan(TABLE, TABLE.cells(), tmp_path, range(10), CPU)
    assert {entry.seconds for entry in planned} == {None}
    assert campaign.total_seconds(planned) is None


def test_a_plan_takes_the_machines_benchmarks(tmp_path):
    folder = tmp_path / "benchmarks" / "results"
    folder.mkdir(parents=True)
    here = campaign.machine_words(CPU).split(", Python")[0]
    figures = {"8puzzle_fast_seconds_per_run": 7.0, "8puzzle_plain_seconds_per_run": 70.0}
    (folder / "here.json").write_text(json.dumps({"machine": f"{here}, Python 1", **figures}))
    (folder / "there.json").write_text(json.dumps({"machine": "another", "8puzzle_dwmr_seconds_per_run": 1.0}))
    planned = campaign.plan(TABLE, TABLE.choose(["dwmr,8puzzle"]), tmp_path, range(10), CPU)
    assert planned[0].seconds == 70


def test_rows_that_share_their_runs_are_planned_once(monkeypatch, tmp_path):
    monkeypatch.setitem(PRESETS, "8puzzle/dwmr", preset("8puzzle/dwmr", lr_factor=1.0))
    table = find_table("table2")
    planned = campaign.plan(table, table.choose(["soft,soft-no-schedules,8puzzle"]), tmp_path, range(2), CPU)
    assert [entry.missing for entry in planned] == [[0, 1], []]


def test_a_file_that_is_no_run_is_named(tmp_path):
    (cell,) = TABLE.choose(["dwmr,8puzzle"])
    path = run_file(tmp_path, cell, 0)
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    with pytest.raises(InputError, match=r"seed-0\.json is not the file of a run"):
        read_table(tmp_path, TABLE)


def test_the_strong_table_keeps_all_figures_of_its_headline(tmp_path):
    strong = find_table("strong")
    cells = strong.choose(["strong,iceslider"])
    assert campaign.run(strong, cells, tmp_path, range(2), device="cpu", progress=False)
    write_table(strong, tmp_path)
    headline = json.loads((tmp_path / "strong.json").read_text())
    assert list(headline) == ["iceslider"]
    rows = json.loads((tmp_path / "strong_rows.json").read_text())
    assert rows == {"strong": headline}
    figures = headline["iceslider"]
    assert len(figures["exact_next"]) == len(figures["board_imagination"]) == 2
    assert set(figures) == set(strong.wide)
    assert "exact next" in (tmp_path / "strong.md").read_text()
