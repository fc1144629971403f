"""Running tables: real runs in miniature, stopped, killed, resumed, and made again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import dwmr
from dwmr.data.collect import collect_world
from dwmr.errors import InputError, TrainingDiverged
from dwmr.evaluation.evaluate import evaluate_many
from dwmr.models.verdict import Verdict
from dwmr.presets import PRESETS, preset
from experiments.reproduce import campaign
from experiments.reproduce.campaign import Options
from experiments.reproduce.catalog import find_table
from experiments.reproduce.page import write_table
from experiments.reproduce.store import OTHER_CODE, add_runs, cell_file, read_cell, read_file, read_table

TABLE = find_table("table3")
CPU = torch.device("cpu")
ONLY = ["dwmr,8puzzle", "no-var,8puzzle"]


def run(out, *only, runs=2, **options):
    cells = TABLE.choose(only)
    done = campaign.run(TABLE, cells, out, range(runs), Options(device="cpu", **options))
    write_table(TABLE, out)
    return done


def stored_run(out, cell, seed):
    (found,) = (run for run in read_file(cell_file(out, cell.key)) if run.seed == seed)
    return found


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
    stored = stored_run(reference, cell, 1)
    splits = dwmr.load_splits(Path(os.environ["DWMR_CACHE"]) / "data" / "8puzzle")
    model = dwmr.train(cell.config, train=splits.train, seed=1, device="cpu", progress=False).model
    (found,) = evaluate_many([model], train=splits.train, test=splits.test)
    assert stored.figures == json.loads(json.dumps(found.figures))
    assert set(stored.figures) == {"encoding", "imagination", "baselines", "codes"}
    assert dwmr.Config.from_dict(stored.config) == cell.config
    assert stored.data["digits"] != "mnist"
    assert stored.diverged is None
    assert set(stored.seconds) == {"loading", "training", "evaluation"}
    assert stored.code["dwmr"] == dwmr.__version__


def test_the_table_holds_a_figure_of_every_run(reference):
    found = json.loads((reference / "table3.json").read_text())
    assert set(found) == {"dwmr", "no-var"}
    assert set(found["dwmr"]) == {"8puzzle"}
    (cell,) = TABLE.choose(["no-var,8puzzle"])
    each = [stored_run(reference, cell, seed).figures for seed in (0, 1)]
    assert found["no-var"]["8puzzle"] == {
        part: [figures[part]["accuracy"] for figures in each] for part in ("encoding", "imagination")
    }


def test_nothing_is_made_twice(reference, monkeypatch):
    monkeypatch.setattr(dwmr, "train_many", lambda *words, **more: pytest.fail("trained again"))
    assert run(reference, *ONLY)


def test_a_killed_reproduction_goes_on_and_gives_the_same_table(reference, tmp_path):
    words = ["reproduce", "table3", "--runs", "2", "--out", str(tmp_path), "--device", "cpu"]
    words += [word for cell in ONLY for word in ("--only", cell)]
    script = [sys.executable, "-m", "tests.experiments.reproduce.small", *words]
    root = Path(__file__).parents[3]
    paths = os.pathsep.join([str(root), str(Path(dwmr.__file__).parents[1])])
    child = subprocess.Popen(
        script, cwd=tmp_path, env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}, stderr=subprocess.DEVNULL
    )
    waited = time.monotonic() + 60
    while not list(tmp_path.rglob("*.jsonl")):
        assert child.poll() is None
        assert time.monotonic() < waited
        time.sleep(0.02)
    child.send_signal(signal.SIGKILL)
    child.wait()
    kept = {path: read_file(path) for path in tmp_path.rglob("*.jsonl")}
    assert 1 <= sum(map(len, kept.values())) < 4
    assert run(tmp_path, *ONLY)
    assert all(read_file(path)[: len(runs)] == runs for path, runs in kept.items())
    assert (tmp_path / "table3.json").read_bytes() == (reference / "table3.json").read_bytes()


def test_on_a_gpu_the_missing_runs_of_a_cell_are_trained_together(tmp_path, monkeypatch):
    groups = []
    really_train = dwmr.train_many

    def train(config, *, seeds, device, **more):
        groups.append(list(seeds))
        return really_train(config, seeds=seeds, device="cpu", **more)

    monkeypatch.setattr(dwmr, "train_many", train)
    monkeypatch.setattr(campaign, "resolve_device", lambda name: torch.device("cuda"))
    monkeypatch.setattr(campaign, "describe_machine", lambda device: "a machine")
    run(tmp_path, "dwmr,8puzzle", runs=2)
    run(tmp_path, "dwmr,8puzzle", runs=3)
    assert groups == [[0, 1], [2]]
    (cell,) = TABLE.choose(["dwmr,8puzzle"])
    assert [each.together for each in read_cell(tmp_path, cell).runs] == [[0, 1], [0, 1], [2]]


def test_a_budget_ends_in_order_and_a_later_call_goes_on(tmp_path, monkeypatch):
    assert run(tmp_path, "dwmr,8puzzle", runs=1)  # from now on there is an estimate
    monkeypatch.setattr(campaign, "MARGIN", 1e6)
    assert not run(tmp_path, "dwmr,8puzzle", budget=60)
    (cell,) = TABLE.choose(["dwmr,8puzzle"])
    assert [each.seed for each in read_cell(tmp_path, cell).runs] == [0]
    assert len(json.loads((tmp_path / "table3.json").read_text())["dwmr"]["8puzzle"]["encoding"]) == 1
    assert run(tmp_path, "dwmr,8puzzle")
    assert [each.seed for each in read_cell(tmp_path, cell).runs] == [0, 1]


def test_runs_of_other_values_are_marked_and_not_mixed_with_new_ones(tmp_path, monkeypatch):
    (cell,) = TABLE.choose(["dwmr,8puzzle"])
    run(tmp_path, "dwmr,8puzzle", runs=1)
    first = stored_run(tmp_path, cell, 0)
    monkeypatch.setitem(PRESETS, "8puzzle/dwmr", preset("8puzzle/dwmr", lr=2e-3))
    with pytest.raises(InputError, match=r"dwmr on 8puzzle \(lr 0.001 instead of 0.002\); --again"):
        run(tmp_path, "dwmr,8puzzle", runs=1)
    stored = read_table(tmp_path, TABLE)["dwmr", "8puzzle"]
    assert (stored.runs, stored.stale) == ([first], {0: "lr 0.001 instead of 0.002"})
    (entry,) = campaign.plan(TABLE, [cell], tmp_path, range(1), CPU)
    assert (entry.done, entry.missing, list(entry.stale)) == ([], [0], [0])
    assert run(tmp_path, "dwmr,8puzzle", runs=1, again=True)
    stored = read_cell(tmp_path, cell)
    assert stored.stale == {}
    assert [each.config["hyper"]["lr"] for each in stored.runs] == [2e-3]


def test_runs_of_older_code_are_kept_and_marked_until_they_are_made_again(tmp_path, monkeypatch):
    (cell,) = TABLE.choose(["dwmr,8puzzle"])
    run(tmp_path, "dwmr,8puzzle", runs=1)
    older = replace(stored_run(tmp_path, cell, 0), code={"digest": "older"})
    add_runs(tmp_path, cell, [older])
    assert run(tmp_path, "dwmr,8puzzle")
    stored = read_cell(tmp_path, cell)
    assert (stored.runs[0], stored.stale) == (older, {0: OTHER_CODE})
    shown = (tmp_path / "table3.md").read_text()
    assert "| DWMR | 2 † |" in shown
    assert "† 1 runs are stale: 1 were made with older code" in shown
    assert run(tmp_path, "dwmr,8puzzle", again=True)
    assert read_cell(tmp_path, cell).stale == {}
    assert "†" not in (tmp_path / "table3.md").read_text()


def test_a_file_holds_what_runs_share_once_and_loses_nothing(tmp_path):
    (cell,) = TABLE.choose(["dwmr,8puzzle"])
    run(tmp_path, "dwmr,8puzzle")
    path = cell_file(tmp_path, cell.key)
    shared, *lines = map(json.loads, path.read_text().splitlines())
    assert set(shared) == {"config", "data", "machine", "code"}
    assert [set(line) & set(shared) for line in lines] == [set(), set()]
    elsewhere = replace(stored_run(tmp_path, cell, 1), machine="another")
    before = stored_run(tmp_path, cell, 0)
    add_runs(tmp_path, cell, [elsewhere])
    assert read_file(path) == [before, elsewhere]


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
    assert [each.diverged for each in runs.runs] == [None, "the loss is not finite", None]
    assert len(json.loads((tmp_path / "table3.json").read_text())["dwmr"]["8puzzle"]["encoding"]) == 2
    shown = (tmp_path / "table3.md").read_text()
    assert "| DWMR | 2 of 3 |" in shown
    assert "1 runs diverged" in shown


def test_the_plan_says_what_is_there_and_what_is_not(reference):
    planned = campaign.plan(TABLE, TABLE.choose(["dwmr", "no-cor"]), reference, range(3), CPU)
    assert [(entry.cell.title, entry.done, entry.missing) for entry in planned] == [
        ("dwmr on 8puzzle", [0, 1], [2]),
        ("dwmr on 8puzzle-noisy", [], [0, 1, 2]),
        ("no-cor on 8puzzle", [], [0, 1, 2]),
        ("no-cor on 8puzzle-noisy", [], [0, 1, 2]),
    ]
    each = read_cell(reference, planned[0].cell).runs
    assert planned[0].seconds == pytest.approx(sum(one.took for one in each) / 2)
    slowest = max(sum(run.took for run in read_cell(reference, cell).runs) / 2 for cell in TABLE.choose(ONLY))
    assert planned[2].seconds == pytest.approx(3 * slowest)


def test_a_plan_without_any_figures_knows_no_time(tmp_path):
    planned = campaign.plan(TABLE, TABLE.cells(), tmp_path, range(10), CPU)
    assert {entry.seconds for entry in planned} == {None}
    assert campaign.total_seconds(planned) is None


def test_rows_that_share_their_runs_are_planned_once(monkeypatch, tmp_path):
    monkeypatch.setitem(PRESETS, "8puzzle/dwmr", preset("8puzzle/dwmr", lr_factor=1.0))
    table = find_table("table2")
    planned = campaign.plan(table, table.choose(["soft,soft-no-schedules,8puzzle"]), tmp_path, range(2), CPU)
    assert [entry.missing for entry in planned] == [[0, 1], []]


def test_a_file_that_is_no_run_is_named(tmp_path):
    (cell,) = TABLE.choose(["dwmr,8puzzle"])
    path = cell_file(tmp_path, cell.key)
    path.parent.mkdir(parents=True)
    path.write_text("{}\n{}\n")
    with pytest.raises(InputError, match=r"dwmr\.jsonl does not hold stored runs"):
        read_table(tmp_path, TABLE)


def test_the_strong_table_keeps_all_figures_of_its_headline(tmp_path):
    strong = find_table("strong")
    cells = strong.choose(["strong,iceslider"])
    assert campaign.run(strong, cells, tmp_path, range(2), Options(device="cpu"))
    write_table(strong, tmp_path)
    headline = json.loads((tmp_path / "strong.json").read_text())
    assert list(headline) == ["iceslider"]
    rows = json.loads((tmp_path / "strong_rows.json").read_text())
    assert rows == {"strong": headline}
    figures = headline["iceslider"]
    assert len(figures["exact_next"]) == len(figures["board_imagination"]) == 2
    assert set(figures) == set(strong.figures)
    assert "exact next" in (tmp_path / "strong.md").read_text()


def test_tasks_are_planned_with_exact_models_only(tiny_cache):
    splits = dwmr.load_splits(tiny_cache / "data" / "8puzzle")
    done = dwmr.train(preset("generic/dwmr", epochs=1, batch_size=32), train=splits.train, device="cpu", progress=False)
    readable = replace(done, verdict=Verdict("readable", "", {}))
    assert campaign._of_verdict(readable, splits, "8puzzle") == {"verdict": "readable", "planned": None}
    assert campaign._of_verdict(done, splits, "8puzzle") == {}


@pytest.mark.slow
def test_an_exact_model_solves_tasks(tmp_path):
    collect_world("lightsout", tmp_path / "lights", transitions=4000)
    splits = dwmr.load_splits(tmp_path / "lights")
    done = dwmr.train(preset("auto", epochs=60), train=splits.train, val=splits.val, device="cpu", progress=False)
    assert done.verdict is not None
    assert done.verdict.word == "exact", done.verdict
    assert campaign.planned_tasks(done.model, splits, "lightsout", trials=5) == 100
