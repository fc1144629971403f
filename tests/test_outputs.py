"""No command replaces what is there: outputs are refused before any work, and with --overwrite only dwmr's own go."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import dwmr
from dwmr import InputError
from dwmr.files import RUN_FILES, check_output
from dwmr.models.run_folder import CHECKPOINT, METRICS, RUN


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    from dwmr.data.collect import collect_world

    folder = tmp_path_factory.mktemp("outputs") / "ice"
    collect_world("iceslider", folder, transitions=400)
    return folder


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("outputs") / "run"
    config = dwmr.preset("iceslider/dwmr", epochs=1, batch_size=64)
    dwmr.train(config, train=dwmr.load_transitions(data / "train"), out=folder, progress=False)
    return folder


@pytest.fixture
def no_work(monkeypatch):
    """Nothing is loaded, trained or judged."""
    for name in ("common.open_run", "plans.open_model", "exporting.open_run", "common.load_data"):
        monkeypatch.setattr(f"dwmr.cli.{name}", lambda *words, **more: pytest.fail("work was done"))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(cli, *words) -> str:
    status, out, err = cli(*words)
    assert status == 2
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err


def test_the_names_of_run_files_are_the_run_folders():
    assert {RUN, CHECKPOINT, METRICS} == set(RUN_FILES)


def test_a_report_replaces_a_report_alone(cli, run, data, tmp_path, monkeypatch):
    monkeypatch.setattr("dwmr.evaluation.probes.MIN_UPDATES", 1)
    page = tmp_path / "report.html"
    words = ["evaluate", run, "--data", data, "--split", "val", "--horizon", 1, "--report", page]
    assert cli(*words)[0] == 0
    first = page.stat().st_ino
    assert "--overwrite" in refused(cli, *words)
    assert page.stat().st_ino == first
    assert cli(*words, "--overwrite")[0] == 0
    assert page.stat().st_ino != first
    page.write_text("<!doctype html><title>mine</title>")
    assert "was not written by dwmr" in refused(cli, *words, "--overwrite")
    assert page.read_text() == "<!doctype html><title>mine</title>"


@pytest.mark.parametrize("overwrite", [[], ["--overwrite"]])
@pytest.mark.parametrize("name", RUN_FILES)
def test_a_report_never_replaces_a_file_of_the_run(cli, run, data, no_work, name, overwrite):
    before = contents(run)
    assert "belongs to the run" in refused(cli, "evaluate", run, "--data", data, "--report", run / name, *overwrite)
    assert contents(run) == before


def test_links_and_devices_are_not_written_to(cli, run, tmp_path, no_work):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "link.html").symlink_to(tmp_path / "notes.txt")
    (tmp_path / "dangling.html").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.html")
    for name in ("link.html", "dangling.html"):
        assert "symbolic link" in refused(cli, "evaluate", run, "--report", tmp_path / name, "--overwrite")
    for path in (tmp_path / "pipe.html", "/dev/null"):
        assert "not a regular file" in refused(cli, "evaluate", run, "--report", path, "--overwrite")
    assert "is not a folder" in refused(cli, "evaluate", run, "--report", tmp_path / "notes.txt" / "report.html")
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()


def test_a_strip_never_replaces_an_image_that_is_read(cli, run, data, tmp_path, no_work):
    Image.fromarray(np.zeros((64, 64, 3), np.uint8)).save(tmp_path / "now.png")
    before = contents(tmp_path)
    words = ["plan", run, "--data", data, "--start", tmp_path / "now.png", "--goal", tmp_path / "now.png"]
    assert "is an input" in refused(cli, *words, "--strip", tmp_path / "now.png", "--overwrite")
    (tmp_path / "mine.png").write_bytes(before["now.png"])
    assert "mine.png exists already" in refused(cli, *words, "--strip", tmp_path / "mine.png")
    assert "not written by dwmr" in refused(cli, *words, "--strip", tmp_path / "mine.png", "--overwrite")
    assert contents(tmp_path) == before | {"mine.png": before["now.png"]}


def test_a_strip_is_replaced_when_asked(cli, run, data, tmp_path):
    frame = np.zeros((3, 64, 64), np.uint8)
    np.save(tmp_path / "now.npy", frame)
    words = ["plan", run, "--data", data, "--start", tmp_path / "now.npy", "--goal", tmp_path / "now.npy"]
    words += ["--strip", tmp_path / "plan.png"]
    assert cli(*words)[0] == 0
    assert "plan.png exists already" in refused(cli, *words)
    assert cli(*words, "--overwrite")[0] == 0


def test_planning_results_are_replaced_when_asked(cli, run, data, tmp_path):
    results = tmp_path / "planning.json"
    words = ["plan-tasks", run, "--data", data, "--trials", 1, "--out", results, "--planner", "random"]
    assert cli(*words, "--seconds", 3)[0] == 0
    before = results.read_bytes()
    assert "has entries of iceslider already: random" in refused(cli, *words, "--seconds", 4)
    assert results.read_bytes() == before
    assert cli(*words, "--seconds", 4, "--overwrite")[0] == 0
    assert json.loads(results.read_bytes())["iceslider"]["random"]["made_with"]["setting"]["seconds"] == 4
    results.write_text("my notes")
    assert "not a file of planning results" in refused(cli, *words, "--overwrite")
    assert results.read_text() == "my notes"


def test_a_heuristic_is_replaced_when_asked(cli, run, data):
    words = ["train-heuristic", run, "--data", data, "--updates", 2, "--batch", 4]
    assert cli(*words)[0] == 0
    assert "heuristic.safetensors exists already" in refused(cli, *words)
    assert cli(*words, "--overwrite")[0] == 0
    (run / "planning" / "heuristic.safetensors").unlink()


def test_an_export_replaces_an_export_alone(cli, run, data, tmp_path):
    out = tmp_path / "symbols"
    words = ["export", run, "--data", data, "--to", "pddl", "--out", out]
    assert cli(*words)[0] == 0
    assert "--overwrite" in refused(cli, *words)
    first = (out / "domain.pddl").stat().st_ino
    assert cli(*words, "--overwrite")[0] == 0
    assert (out / "domain.pddl").stat().st_ino != first
    assert os.listdir(tmp_path) == ["symbols"]
    (out / "notes.txt").write_text("mine")
    before = contents(out)
    assert "holds more than this command writes" in refused(cli, *words, "--overwrite")
    assert contents(out) == before
    before = contents(run)
    for place in (run, run.parent, data):
        assert "is an input" in refused(cli, *words[:-1], place, "--overwrite")
    assert contents(run) == before


def test_data_and_runs_are_never_replaced(cli, run, data, tmp_path, no_work):
    assert "exists already" in refused(cli, "collect", "iceslider", "--out", data)
    assert "not a run folder" in refused(cli, "train", "iceslider/dwmr", "--out", tmp_path, "--data", data, "--resume")


def test_a_study_replaces_no_files_of_the_users_own(cli, data, tmp_path, no_work):
    (tmp_path / "study.json").write_text('{"mine": true}')
    words = ["tune", "iceslider/dwmr", "--data", data, "--storage", tmp_path / "study.journal"]
    assert "study.json exists already" in refused(cli, *words)
    assert "not written by dwmr" in refused(cli, *words, "--overwrite")
    assert contents(tmp_path) == {"study.json": b'{"mine": true}'}


def test_a_table_replaces_no_files_of_the_users_own(cli, tmp_path, monkeypatch):
    monkeypatch.setattr("experiments.reproduce.campaign.run", lambda *words, **more: pytest.fail("work was done"))
    (tmp_path / "table1.md").write_text("mine")
    words = ["reproduce", "table1", "--out", tmp_path, "--device", "cpu"]
    assert "table1.md exists already" in refused(cli, *words)
    assert (tmp_path / "table1.md").read_text() == "mine"


def test_the_demo_can_be_made_twice():
    makefile = (Path(__file__).parents[1] / "Makefile").read_text()
    (line,) = re.findall(r"dwmr evaluate .*", makefile)
    assert "--overwrite" in line


def test_what_exists_is_refused_without_the_option(tmp_path):
    (tmp_path / "a").write_text("")
    check_output(tmp_path / "b")
    check_output(tmp_path / "new" / "b", inputs=[tmp_path / "a", None])
    with pytest.raises(InputError, match=r"exists already; choose another name$"):
        check_output(tmp_path / "a")
    with pytest.raises(InputError, match="folder that holds more"):
        check_output(tmp_path, overwrite=True)
    os.link(tmp_path / "a", tmp_path / "same")
    with pytest.raises(InputError, match="is an input"):
        check_output(tmp_path / "same", overwrite=True, inputs=[tmp_path / "a"], written=True)
