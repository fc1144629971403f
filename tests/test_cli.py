"""The command line as a user meets it: whole commands, their output, and their one-line refusals."""

from __future__ import annotations

import dataclasses
import json
import re

import numpy as np
import pytest

import dwmr
from dwmr.cli import main
from dwmr.cli.common import print_json
from dwmr.models.run_folder import read_info
from dwmr.presets import PRESETS

SMALL = ["--set", "epochs=1", "--set", "batch_size=64"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "ice"
    from dwmr.data.collect import collect_world

    collect_world("iceslider", folder, transitions=400)
    return folder


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "run"
    splits = dwmr.load_splits(data)
    dwmr.train(dwmr.preset("iceslider/dwmr", epochs=1, batch_size=64), train=splits.train, val=splits.val, out=folder)
    return folder


def test_collect_writes_a_data_folder(cli, tmp_path):
    status, out, _ = cli("collect", "iceslider", "--transitions", 80, "--out", tmp_path / "d")
    assert status == 0
    assert "train 80" in out
    assert dwmr.load_splits(tmp_path / "d").rollout is not None


def test_collect_from_a_gymnasium_environment(cli, tmp_path):
    status, _, _ = cli("collect", "--env", "dwmr/DigitJump-v0", "--transitions", 50, "--out", tmp_path / "d")
    assert status == 0
    assert len(dwmr.load_splits(tmp_path / "d").train) == 50


def test_train_then_evaluate_with_every_promised_figure(cli, data, tmp_path):
    run, page = tmp_path / "run", tmp_path / "report.html"
    status, out, _ = cli("train", "iceslider/dwmr", "--data", data, "--out", run, *SMALL)
    assert status == 0
    assert "1 epoch;" in out
    status, out, _ = cli("evaluate", run, "--data", data, "--json", "--report", page)
    assert status == 0
    figures = json.loads(out)
    scores = {"f1", "f1_true_labels", "accuracy", "board_accuracy", "changed_cells_f1"}
    assert set(figures["encoding"]) == set(figures["imagination"]) == scores
    assert set(figures["intervals"]["encoding"]) == set(figures["intervals"]["imagination"]) == scores
    assert set(figures["baselines"]) == {"copy", "majority"}
    health = {"dead", "duplicate", "flips_mean", "collisions", "splits", "same_code", "exact_next", "state_share"} | {
        "exact_unique"
    }
    assert health <= set(figures["codes"])
    assert list(figures["rollout"]) == ["1", "2", "5", "10", "20", "50", "100", "200", "500", "1000"]
    compared = {"copy_bits", "copy_exact", "copy_f1", "reencode_f1", "exact_unique"}
    assert set(figures["rollout"]["1"]) == {"bits", "exact", "f1"} | compared
    assert "<html" in page.read_text()
    assert "Reliability" in page.read_text()


def test_certify_answers_in_words_and_in_figures(cli, data, trained):
    words = ["certify", trained, "--data", data, "--levels", 3, "--horizon", 20]
    status, out, _ = cli(*words)
    assert status == 0
    assert "Reliability" in out
    assert "Is the next code predicted correctly?" in out
    assert "questions could not be tested: stability (" in out
    status, out, _ = cli(*words, "--json")
    assert status == 0
    found = json.loads(out)
    assert found["graphs"]["levels"] == 3
    assert list(found["drift"]) == ["1", "2", "5", "10", "20"]
    assert {"collisions", "splits", "exact_next", "noise"} <= set(found)
    status, out, _ = cli(*words[:4], "--levels", 0, "--split", "val", "--horizon", 1, "--json")
    assert status == 0
    assert "graphs" not in json.loads(out)


def test_evaluate_shows_tables_and_shortens_the_horizon(cli, data, trained):
    status, out, _ = cli("evaluate", trained, "--data", data, "--split", "val", "--horizon", 10)
    assert status == 0
    assert "imagination" in out
    assert " copy " in out
    assert " 10 " in out
    assert " 20 " not in out
    assert "exact codes (collisions: " in out


def test_without_labels_exactness_says_that_collisions_are_not_measured(cli, data, trained, tmp_path):
    test = dataclasses.replace(dwmr.load_transitions(data / "test"), state=None, next_state=None, n_classes=None)
    test.save(tmp_path / "test.npz")
    words = [trained, "--data", tmp_path / "test.npz", "--split", "train"]
    status, out, _ = cli("evaluate", *words)
    assert status == 0
    assert re.search(r"collisions +not measured, no labels", out)
    status, out, _ = cli("certify", *words, "--levels", 0)
    assert status == 0
    assert " questions could not be tested: " in out
    assert "collisions (the data has no labels)" in out
    assert "– %" not in out


def test_labels_in_groups_are_shown_one_by_one(cli, data, trained, tmp_path, monkeypatch):
    monkeypatch.setattr("dwmr.evaluation.probes.MIN_UPDATES", 1)
    plain = dwmr.load_transitions(data / "test")
    state, next_state = ({"board": part, "corner": part[:, 0, 0]} for part in (plain.state, plain.next_state))
    names = ("up", "right", "down", "left")
    dataclasses.replace(plain, state=state, next_state=next_state, n_classes=None, action_names=names).save(
        tmp_path / "data" / "train"
    )
    words = ["evaluate", trained, "--data", tmp_path / "data", "--split", "train"]
    status, out, _ = cli(*words)
    assert status == 0
    assert "imagination: corner" in out
    assert cli(*words, "--report", tmp_path / "report.html")[0] == 0
    assert "Board scores" in (tmp_path / "report.html").read_text()


def test_several_seeds_make_a_folder_each(cli, data, tmp_path):
    status, out, _ = cli(
        "train", "iceslider/dwmr", "--data", data, "--out", tmp_path, "--seeds", "0,2", "--json", *SMALL
    )
    assert status == 0
    assert [name.rsplit("/", 1)[1] for name in json.loads(out)] == ["seed-0", "seed-2"]
    weights = [dwmr.WorldModel.load(tmp_path / f"seed-{seed}").encoder.state_dict() for seed in (0, 2)]
    assert any(not np.array_equal(a, b) for a, b in zip(weights[0].values(), weights[1].values()))
    status, _, err = cli("evaluate", tmp_path, "--data", data)
    assert status == 2
    assert "seed-0" in err


def test_a_lone_npz_trains_without_validation(cli, data, tmp_path):
    dwmr.load_transitions(data / "train").save(tmp_path / "mine.npz")
    status, _, _ = cli("train", "generic/dwmr", "--data", tmp_path / "mine.npz", "--out", tmp_path / "run", *SMALL)
    assert status == 0
    status, _, err = cli("evaluate", tmp_path / "run", "--data", tmp_path / "mine.npz")
    assert status == 2
    assert "no split 'test'" in err
    status, out, _ = cli("evaluate", tmp_path / "run", "--data", tmp_path / "mine.npz", "--split", "train", "--json")
    assert status == 0
    assert json.loads(out)["codes"]["bits"] == 64


def test_tune_then_train_with_what_was_chosen(cli, data, tmp_path, monkeypatch):
    monkeypatch.setattr("dwmr.evaluation.probes.MIN_UPDATES", 1)
    monkeypatch.setattr("dwmr.tuning.campaign.CONFIRMED", 1)
    words = ["tune", "iceslider/dwmr", "--data", data, "--storage", tmp_path / "s.journal", "--trials", 2, *SMALL]
    status, out, err = cli(*words, "--set", "triplets=50")
    assert status == 0
    assert "2 trials done" in out
    assert "chosen: trial" in out
    assert "search 2/2" in err
    status, out, _ = cli(*words, "--set", "triplets=50", "--json")
    assert status == 0
    found = json.loads(out)
    assert found == json.loads((tmp_path / "s.json").read_text())
    run = tmp_path / "run"
    status, _, _ = cli("train", "iceslider/dwmr", "--data", data, "--out", run, "--config", tmp_path / "s.json", *SMALL)
    assert status == 0
    assert read_info(run).config.hyper.lr == found["chosen"]["values"]["lr"]
    (tmp_path / "list.json").write_text("[1]")
    status, _, err = cli("train", "iceslider/dwmr", "--out", tmp_path / "x", "--config", tmp_path / "list.json")
    assert status == 2
    assert "holds no values" in err


def test_presets_say_which_are_tuned(cli, monkeypatch):
    monkeypatch.setattr("dwmr.cli.learning.TUNED", {"8puzzle/ae": {"provenance": {"trials": 77}}})
    _, out, _ = cli("presets")
    (line,) = [line for line in out.splitlines() if " 77" in line]
    assert "8puzzle/ae" in line


def test_presets_are_listed(cli):
    _, out, _ = cli("presets", "--json")
    assert set(json.loads(out)) == set(PRESETS)
    status, out, _ = cli("presets")
    assert status == 0
    assert all(name in out for name in PRESETS)


PLANNING = ["plan", "plan-level", "plan-tasks", "train-heuristic"]


@pytest.mark.parametrize("command", ["collect", "train", "evaluate", "certify", "export", "tune", "presets", *PLANNING])
def test_help_has_an_example(cli, command):
    status, out, _ = cli(command, "--help")
    assert status == 0
    assert f"$ dwmr {command}" in out


@pytest.mark.parametrize("words", [[], ["train"], ["reproduce"]])
def test_help_shows_no_type_beside_flags(cli, words):
    _, out, _ = cli(*words, "--help")
    assert "--help" in out
    assert "bool" not in out


def test_commands_are_listed_in_the_order_of_use(cli):
    _, out, _ = cli("--help")
    places = [out.index(f" {name} ") for name in ("collect", "train", "evaluate", "certify", "plan", "reproduce")]
    assert places == sorted(places)


def test_json_has_null_for_what_is_no_finite_number(capsys):
    print_json({"a": [float("nan"), 1.5], "b": {"c": -np.inf}})
    assert json.loads(capsys.readouterr().out) == {"a": [None, 1.5], "b": {"c": None}}


def test_without_data_that_of_the_world_is_collected_into_the_cache(cli, tmp_path, monkeypatch, capsys):
    cached = tmp_path / "cache" / "data" / "digitjump"
    monkeypatch.setenv("DWMR_CACHE", str(tmp_path / "cache"))
    status, _, err = cli("train", "iceslider/dwmr", "--out", tmp_path / "run", "--set", "epochs=0")
    assert status == 2
    assert "epochs" in err
    assert not (tmp_path / "cache").exists()

    from dwmr.cli.common import load_data
    from dwmr.worlds.digit_jump import DigitJump
    from dwmr.worlds.registry import WORLDS

    class Small(DigitJump):
        sizes = {"train": 80, "val": 40, "test": 40}  # noqa: RUF012

    monkeypatch.setitem(WORLDS, "digitjump", Small())
    assert len(load_data(None, "digitjump").train) == 80
    assert "no --data: using the full data of digitjump (train 80, val 40, test 40" in capsys.readouterr().err
    written = (cached / "train" / "header.json").stat().st_mtime_ns
    assert len(load_data(None, "digitjump").train) == 80
    assert (cached / "train" / "header.json").stat().st_mtime_ns == written


BAD = [
    (["trian"], "train"),
    (["train", "iceslider/dwmrr", "--out", "x"], "iceslider/dwmr"),
    (["train", "iceslider/dwmr", "--out", "x", "--set", "lrr=1"], "'lr'"),
    (["train", "iceslider/dwmr", "--out", "x", "--set", "lr"], "name=value"),
    (["train", "iceslider/dwmr", "--out", "x", "--set", "lr=fast"], "must be a number"),
    (["train", "iceslider/dwmr", "--out", "x", "--set", "tau=1.5"], "tau"),
    (["train", "iceslider/dwmr", "--out", "x", "--outt", "y"], "--out"),
    (["train", "iceslider/dwmr"], "--out"),
    (["train", "iceslider/dwmr", "--out", "x", "--set", "scheme=two_steps"], "two_step"),
    (["train", "iceslider/dwmr", "--out", "x", "--set", "encoder=conf"], "conv"),
    (["train", "iceslider/dwmr", "--out", "x", "--set", "benchmark=mine"], "preset's name"),
    (["train", "iceslider/deepcubeai", "--out", "x", "--set", "scheme=soft"], "'joint'"),
    (["train", "iceslider/dwmr", "--out", "x", "--set", "gamma_factor=1.5"], "gamma in epoch 20"),
    (["train", "iceslider/dwmr", "--out", "x", "--seed", "1", "--seeds", "0-9"], "not both"),
    (["train", "iceslider/dwmr", "--out", "x", "--seeds", "0-99999999999"], "1000"),
    (["train", "iceslider/dwmr", "--out", "x", "--fast", "very"], "'auto' or 'off'"),
    (["train", "iceslider/dwmr", "--out", "x", "--device", "meta"], "meta"),
    (["evaluate", "nowhere", "--split", "tset"], "'test'"),
    (["certify", "nowhere", "--split", "tset"], "'test'"),
    (["certify", "nowhere"], "not a run folder"),
    (["certify", "nowhere", "--levels", "251"], "--levels"),
    (["evaluate", "nowhere", "--report", "."], "--report"),
    (["train", "iceslider/dwmr", "--out", "x", "--data", "nowhere"], "nowhere does not exist"),
    (["train", "iceslider/dwmr", "--out", "x", "--device", "gpu"], "gpu"),
    (["train", "iceslider/dwmr", "--out", "x", "--seeds", "a-b"], "0-9"),
    (["train", "generic/dwmr", "--out", "x"], "--data"),
    (["evaluate", "nowhere"], "not a run folder"),
    (["tune", "iceslider/dwmr"], "--storage"),
    (["tune", "iceslider/dwmrr", "--storage", "j"], "iceslider/dwmr"),
    (["tune", "iceslider/dwmr", "--storage", "j.json"], "journal file"),
    (["tune", "iceslider/dwmr", "--storage", "."], "journal file"),
    (["tune", "iceslider/dwmr", "--storage", "j", "--trials", "0"], "--trials"),
    (["tune", "iceslider/dwmr", "--storage", "j", "--trials", "0"], "trials"),
    (["tune", "iceslider/dwmr", "--storage", "j", "--set", "lrr=1"], "'lr'"),
    (["tune", "iceslider/dwmr", "--storage", "j", "--set", "bits=8"], "8 bits"),
    (["tune", "iceslider/dwmr", "--storage", "j", "--device", "gpu"], "gpu"),
    (["tune", "iceslider/dwmr", "--storage", "j", "--data", "nowhere"], "nowhere does not exist"),
    (["tune", "generic/dwmr", "--storage", "j"], "--data"),
    (["train", "iceslider/dwmr", "--out", "x", "--config", "absent.json"], "absent.json"),
    (["collect", "icesliderr", "--out", "x"], "iceslider"),
    (["collect", "--out", "x"], "name a world"),
    (["collect", "--env", "dwmr/IceSlider-v0", "--out", "x"], "--transitions"),
    (["collect", "--env", "dwmr/IceSlider-v9", "--transitions", "9", "--out", "x"], "environments: [ `v0` ]"),
    (["collect", "iceslider", "--transitions", "1", "--out", "x"], "40"),
    (["collect", "iceslider", "--seed", "-1", "--out", "x"], "--seed"),
    (["collect", "8puzzle", "--digits", "nowhere", "--out", "x"], "nowhere"),
]


@pytest.mark.parametrize(("words", "named"), BAD, ids=[" ".join(words) for words, _ in BAD])
def test_wrong_input_is_one_clear_line_and_status_2(cli, tmp_path, monkeypatch, words, named):
    monkeypatch.chdir(tmp_path)
    status, out, err = cli(*words)
    assert status == 2
    assert out == ""
    assert len(err.strip().splitlines()) == 1
    assert err.startswith("error: ")
    assert named in err
    assert list(tmp_path.iterdir()) == []


def test_resuming_a_folder_that_does_not_exist_says_that_a_new_run_starts(cli, data, tmp_path):
    run = tmp_path / "run"
    status, out, err = cli("train", "iceslider/dwmr", "--data", data, "--out", run, "--resume", *SMALL)
    assert status == 0, err
    assert f"{run} does not exist yet, so a new run starts there" in err
    assert f"{run}: 1 epoch; pred" in out


def test_an_existing_folder_is_not_overwritten(cli, data, trained):
    before = (trained / "checkpoint.safetensors").read_bytes()
    status, _, err = cli("train", "iceslider/dwmr", "--data", data, "--out", trained, *SMALL)
    assert status == 2
    assert "--resume" in err
    status, _, err = cli("collect", "iceslider", "--out", data)
    assert status == 2
    assert "exists" in err
    assert (trained / "checkpoint.safetensors").read_bytes() == before


def test_a_run_folder_of_another_version_is_refused(cli, data, trained, tmp_path):
    import shutil

    other = tmp_path / "run"
    shutil.copytree(trained, other)
    info = json.loads((other / "run.json").read_text())
    (other / "run.json").write_text(json.dumps(info | {"version": 99}))
    status, _, err = cli("evaluate", other, "--data", data)
    assert status == 2
    assert "version 99" in err


def test_a_full_disk_while_collecting_leaves_nothing(cli, tmp_path, monkeypatch):
    import errno
    import os

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("dwmr.files.os.fsync", full)
    status, _, err = cli("collect", "iceslider", "--transitions", 80, "--out", tmp_path / "d")
    assert status == 2
    assert "No space left" in err
    assert list(tmp_path.iterdir()) == []


def test_a_preset_for_any_world_plans_in_the_world_of_its_data(cli, data, tmp_path):
    train = dwmr.load_splits(data).train
    dwmr.train(dwmr.preset("generic/dwmr", epochs=1, bits=16), train=train, out=tmp_path / "run")
    assert read_info(tmp_path / "run").benchmark == "iceslider"
    arguments = ["--data", data, "--seconds", 1, "--json"]
    status, out, _ = cli("plan-tasks", tmp_path / "run", "--trials", 1, "--planner", "random", *arguments)
    assert status == 0
    assert set(json.loads(out)) == {"iceslider"}
    own = dataclasses.replace(train[:256], about={})
    dwmr.train(dwmr.preset("generic/dwmr", epochs=1, bits=16), train=own, out=tmp_path / "own")
    status, _, err = cli("plan-tasks", tmp_path / "own", *arguments)
    assert status == 2
    assert "was not trained on a built-in world" in err


def test_auto_ends_with_a_verdict_and_its_exit_status(tmp_path, capsys, monkeypatch):
    """Noise has no cells and nothing to predict, so the run failed, which the exit status says."""
    noise = np.random.default_rng(0).integers(0, 256, (2, 300, 1, 16, 16), dtype=np.uint8)
    data = dwmr.Transitions(noise[0], np.arange(300) % 2, noise[1], n_actions=2)
    data.save(tmp_path / "noise.npz")
    arguments = ["train", "auto", "--data", str(tmp_path / "noise.npz"), "--out", str(tmp_path / "run")]
    monkeypatch.setattr("sys.argv", ["dwmr", *arguments, "--set", "epochs=1"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 3
    assert capsys.readouterr().out.splitlines()[-1].startswith("verdict: failed: ")
