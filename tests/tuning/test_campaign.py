"""Tuning: real campaigns on tiny data, stopped, killed, shared and taken up again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import dwmr
from dwmr import InputError, Splits
from dwmr.cli import tables
from dwmr.evaluation import probes
from dwmr.evaluation.evaluate import imagination_scores
from dwmr.presets import preset
from dwmr.provenance import code_digest
from dwmr.tuning import campaign as running
from dwmr.tuning import halving, spaces, tune
from dwmr.tuning.campaign import Options
from dwmr.tuning.halving import survivors
from dwmr.tuning.journal import Journal, is_done, rows_of
from dwmr.tuning.spaces import Range, options

GOLDEN = Path(__file__).parents[1] / "golden"
SOURCE = str(Path(dwmr.__file__).parents[1])
NAME = "generic/dwmr"
SETTINGS = {"bits": 12, "batch_size": 16, "epochs": 6}  # compared after epochs 1, 2 and 6
TRIALS, AT_ONCE = 9, 4  # 9 trials, of which 3 and then 2 go on; these 2 are confirmed
pytestmark = pytest.mark.filterwarnings("ignore:.*bits never changed:RuntimeWarning")


@pytest.fixture(autouse=True, scope="module")
def quick():
    """Small campaigns, quickly: the scores need not be good, only the same each time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probes, "MIN_UPDATES", 1)
        patch.setattr(probes, "EPOCHS", 3)
        patch.setattr(halving, "CONFIRMED", 2)
        patch.setattr(running, "STARTUP", 4)
        patch.setattr(running, "POLL", 0.02)
        patch.setattr(os, "fsync", lambda descriptor: None)  # no test cuts the power
        yield


@pytest.fixture(scope="module")
def data(tiny):
    return Splits(tiny, val=tiny[:32])


def campaign(data, journal, **changes):
    given = {"trials": TRIALS, "at_once": AT_ONCE, "settings": SETTINGS, "progress": False, "device": "cpu"} | changes
    return tune(NAME, data, journal, Options(**given))


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory):
    """A campaign in one go: its journal and its summary."""
    journal = tmp_path_factory.mktemp("tuning") / "whole.journal"
    return journal, campaign(data, journal)


def without_times(summary):
    trials = [{key: value for key, value in trial.items() if key != "seconds"} for trial in summary["trials"]]
    return trials, summary["confirmations"], summary["chosen"]


def score(trial, epochs):
    return trial["scores"][str(epochs)]["imagination"]


def test_the_stages_of_a_campaign(whole):
    _, found = whole
    assert found["finished"]
    assert found["stages"] == {"search": 2, "epoch 3": 3, "epoch 6": 6, "confirmation": 6}
    trials = found["trials"]
    assert [trial["trial"] for trial in trials] == list(range(TRIALS))
    assert all("2" in trial["scores"] for trial in trials)
    first = {trial["trial"]: score(trial, 2) for trial in trials}
    second = {trial["trial"]: score(trial, 3) for trial in trials if "3" in trial["scores"]}
    last = {trial["trial"]: score(trial, 6) for trial in trials if "6" in trial["scores"]}
    assert set(second) == set(survivors(first))
    assert set(last) == set(survivors(second))
    assert (len(second), len(last)) == (3, 2)
    assert {trial["state"] for trial in trials} == {"stopped after epoch 2", "stopped after epoch 3", "finished"}


def test_the_first_trial_is_the_preset_as_it_starts(whole):
    _, found = whole
    first = found["trials"][0]
    assert first["start"]
    assert not any(trial["start"] for trial in found["trials"][1:])
    start = preset(NAME).replace(**SETTINGS)
    assert start.replace(**options(first["values"])) == start


def test_the_best_mean_over_fresh_seeds_is_chosen(whole):
    _, found = whole
    last = {trial["trial"] for trial in found["trials"] if "6" in trial["scores"]}
    assert {entry["trial"] for entry in found["confirmations"]} == last | {0}
    seeds = {tuple(entry["seeds"]) for entry in found["confirmations"]}
    assert len(seeds) == 1
    assert len(set(*seeds)) == 3
    assert not set(*seeds) & {trial["seed"] for trial in found["trials"]}
    means = {entry["trial"]: sum(entry["imagination"]) / 3 for entry in found["confirmations"]}
    assert found["chosen"]["mean"] == pytest.approx(max(means.values()))
    assert means[found["chosen"]["trial"]] == max(means.values())
    assert found["chosen"]["mean"] >= found["provenance"]["start_values"]


def test_a_trial_that_goes_on_is_the_run_in_one(data, whole):
    _, found = whole
    trial = next(trial for trial in found["trials"] if "6" in trial["scores"])
    config = preset(NAME).replace(**SETTINGS).replace(**options(trial["values"]))
    run = dwmr.train(config, train=data.train, seed=trial["seed"], device="cpu")
    (figures,) = imagination_scores([run.model], train=data.train, test=data.val)
    assert score(trial, 6) == round(figures["imagination"], 4)


def test_a_finished_campaign_leaves_its_journal_alone(data, whole):
    journal, found = whole
    before = journal.read_bytes()
    assert [path.name for path in journal.parent.iterdir() if path.name.startswith("whole.journal")] == [journal.name]
    assert without_times(campaign(data, journal)) == without_times(found)
    assert journal.read_bytes() == before
    assert len(before) < 1e6 * TRIALS / 64


def test_where_it_was_stopped_does_not_matter(data, whole, tmp_path, monkeypatch):
    steps = iter(range(10**6))
    monkeypatch.setattr(running._Clock, "goes_on", lambda self: next(steps) % 7 != 6)  # "no" at every seventh epoch
    calls = 0
    while not (found := campaign(data, tmp_path / "j"))["finished"]:
        calls += 1
    assert calls > 5
    assert without_times(found) == without_times(whole[1])


def test_run_folders_that_are_lost_are_made_again(data, whole, tmp_path, monkeypatch):
    steps = iter(range(10**6))
    monkeypatch.setattr(running._Clock, "goes_on", lambda self: next(steps) % 30 != 29)
    calls = 0
    while not (found := campaign(data, tmp_path / "j"))["finished"]:
        calls += 1
        (lost,) = (tmp_path / "j.work").glob("runs-*")
        shutil.rmtree(lost)
    assert calls > 1
    assert without_times(found) == without_times(whole[1])


def test_another_seed_finds_other_trials(data, whole, tmp_path):
    other = campaign(data, tmp_path / "j", seed=1, trials=2, settings=SHORT)
    values = [trial["values"] for trial in whole[1]["trials"]]
    assert other["trials"][0]["values"] == values[0]
    assert other["trials"][1]["values"] not in values


CHILD = """
import sys, torch
torch.set_num_threads(1)
import dwmr
from dwmr import tuning
from dwmr.tuning import campaign, halving
from dwmr.evaluation import probes
probes.MIN_UPDATES, probes.EPOCHS, halving.CONFIRMED, campaign.STARTUP, campaign.POLL = 1, 3, 2, 4, 0.02
train, journal = sys.argv[1:]
train = dwmr.load_transitions(train)
settings = {"bits": 12, "batch_size": 16, "epochs": 2}
options = tuning.Options(trials=9, at_once=4, settings=settings, progress=False, device="cpu")
tuning.tune("generic/dwmr", dwmr.Splits(train, val=train[:32]), journal, options)
"""


SHORT = SETTINGS | {"epochs": 2}


def child(data, journal):
    if not (journal.parent / "train").exists():
        data.train.save(journal.parent / "train")
    words = [sys.executable, "-W", "ignore", "-c", CHILD, str(journal.parent / "train"), str(journal)]
    return subprocess.Popen(words, env={**os.environ, "PYTHONPATH": SOURCE})


def lines(journal):
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def test_a_campaign_killed_at_any_moment_goes_on(data, tmp_path):
    journal = tmp_path / "j"
    for more in (40, 60):  # in the midst of asking, and of telling
        wanted = lines(journal) + more
        with child(data, journal) as process:
            try:
                while lines(journal) < wanted and process.poll() is None:
                    time.sleep(0.001)
            finally:
                process.kill()
        assert process.returncode == -signal.SIGKILL, "it was to be killed in the midst of its work"
    found = campaign(data, journal, settings=SHORT)
    assert found["finished"]
    # A row that was killed while it was asked for is given up, so later numbers may differ; the count does not.
    assert len(found["trials"]) == TRIALS
    assert sum(trial["start"] for trial in found["trials"]) == 1
    assert len(found["confirmations"]) == len({entry["trial"] for entry in found["confirmations"]})
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("j")] == ["j"]


def test_two_processes_share_a_campaign(data, tmp_path):
    journal = tmp_path / "j"
    with child(data, journal) as process:
        while lines(journal) < 3 and process.poll() is None:
            time.sleep(0.001)
        found = campaign(data, journal, settings=SHORT)
    assert process.returncode == 0
    assert found["finished"]
    assert len(found["trials"]) == TRIALS
    assert all(len(entry["seeds"]) == 3 for entry in found["confirmations"])
    told = Journal(journal)
    rows = [row for stage in found["stages"] for row in rows_of(told.stage(stage))]
    told.close(finished=True)
    assert len({row.user_attrs["worker"] for row in rows}) == 2
    assert all(map(is_done, rows))


def test_the_budget_is_kept_and_the_same_call_goes_on(data, whole, tmp_path):
    calls = 0
    found = {"finished": False}
    while not found["finished"]:
        began = time.monotonic()
        found = campaign(data, tmp_path / "j", budget=1.0)
        assert time.monotonic() - began < 6  # the last epoch, the scores of a batch, the summary
        calls += 1
    assert calls > 1
    assert without_times(found) == without_times(whole[1])


def test_time_is_judged_by_what_earlier_work_took():
    clock = running._Clock(time.monotonic() + 100)
    assert clock.goes_on()  # nothing is known yet
    clock.scoring = 200.0
    assert not clock.goes_on()
    assert running._Clock(None).left() == float("inf")


@pytest.mark.gpu
def test_on_a_gpu_a_batch_is_one_program_and_goes_on_where_it_was(data, tmp_path, monkeypatch):
    steps = iter(range(10**6))
    monkeypatch.setattr(running._Clock, "goes_on", lambda self: next(steps) % 5 != 4)
    calls = 0
    while not (found := campaign(data, tmp_path / "j", device="cuda"))["finished"]:
        calls += 1
    assert calls > 1
    assert len(found["trials"]) == TRIALS
    assert {trial["values"]["scheme"] for trial in found["trials"]} == {"two_step", "two_step_st"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_a_study_in_a_database_is_stopped_and_continued(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    steps = iter(range(10**6))
    monkeypatch.setattr(running._Clock, "goes_on", lambda self: next(steps) % 5 != 4)
    calls = 0
    while not (found := campaign(data, "sqlite:///study.db", trials=3, settings=SHORT))["finished"]:
        calls += 1
    assert calls > 0
    assert len(found["trials"]) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["study.db"]


@pytest.mark.filterwarnings("ignore:only .* bits changed:RuntimeWarning")  # at such rates codes collapse too
def test_trials_that_diverge_are_results(data, tmp_path, monkeypatch):
    monkeypatch.setitem(spaces.ALWAYS, "lr", Range(1e-3, 1e30, log=True))
    found = campaign(data, tmp_path / "j", trials=8, settings=SETTINGS | {"epochs": 2})
    assert found["finished"]
    lost = [trial for trial in found["trials"] if trial["state"].startswith("diverged: ")]
    assert 1 <= len(lost) < 8
    assert all("not a finite number" in trial["state"] for trial in lost)
    assert found["chosen"]["trial"] not in [trial["trial"] for trial in lost]


def test_nothing_is_chosen_where_everything_diverges(data, tmp_path):
    found = campaign(data, tmp_path / "j", trials=2, settings=SETTINGS | {"lr": 1e30})
    assert found["finished"]
    assert found["chosen"] is None
    assert found["confirmations"] == []


def test_one_trial_of_one_epoch(data, tmp_path):
    found = campaign(data, tmp_path / "j", trials=1, settings=SETTINGS | {"epochs": 1})
    assert found["stages"] == {"search": 1, "confirmation": 1}
    assert found["chosen"]["trial"] == 0


def test_where_it_comes_from(whole):
    provenance = whole[1]["provenance"]
    assert provenance["trials"] == TRIALS
    assert provenance["run_epochs"] == 6 * 2 + 1 * 3 + 2 * 6 + len(whole[1]["confirmations"]) * 3 * 6
    assert provenance["dwmr"] == dwmr.__version__
    assert provenance["digest"] == code_digest()
    assert len(provenance["confirmed_with_seeds"]) == 3


# What goes wrong


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trials": 12}, "holds another study, with trials 9 instead of 12"),
        ({"seed": 1}, "holds another study, with seed 0 instead of 1"),
        ({"settings": SETTINGS | {"epochs": 5}}, "holds another study, with epochs 6 instead of 5"),
        ({"trials": 0}, "trials must be at least 1, got 0"),
        ({"at_once": 0}, "at_once must be at least 1, got 0"),
        ({"budget": 0.0}, "the budget must be more than 0 seconds, got 0"),
        ({"settings": SETTINGS | {"high": 2}}, "the window low to high must be rising .*, got 3 to 2"),
        ({"settings": SETTINGS | {"tau": 0.9}}, r"the range of tau \[0.66, 0.98\] instead of None"),
        ({"settings": SETTINGS | {"scheme": "soft"}}, "with scheme two_step instead of soft"),
    ],
    ids=["trials", "seed", "epochs", "no trials", "none at once", "no budget", "window", "range", "scheme"],
)
def test_what_does_not_fit_is_refused(data, whole, changes, message):
    journal, _ = whole
    before = journal.read_bytes()
    with pytest.raises(InputError, match=message):
        campaign(data, journal, **changes)
    assert journal.read_bytes() == before


def test_a_journal_from_before_an_option_came_goes_on(data, whole, tmp_path):
    journal = tmp_path / "older.journal"
    written = whole[0].read_text()
    journal.write_text(written.replace('"warmup":0,', ""))
    assert journal.read_text() != written
    assert campaign(data, journal)["finished"]
    with pytest.raises(InputError, match="with warmup 0 instead of 1"):
        campaign(data, journal, settings=SETTINGS | {"warmup": 1})


def test_a_study_of_version_0_1_is_continued(data, tmp_path):
    """It was stopped at the last epoch of its second stage, and its run folders are gone."""
    journal = tmp_path / "older.journal"
    shutil.copy(GOLDEN / "study-0.1.journal", journal)
    found = campaign(data, journal, trials=5, at_once=2, settings=SHORT)
    assert found["finished"]
    assert len(found["confirmations"]) == 3
    assert [trial["trial"] for trial in found["trials"]] == [0, 1, 2, 3, 4]
    assert [found["trials"][number]["scores"]["2"]["imagination"] for number in (1, 2)] == [16.408, 17.5661]
    assert found["trials"][0]["scores"]["1"]["imagination"] == 16.408


def test_other_data_is_refused(data, whole):
    with pytest.raises(InputError, match="holds another study, with data"):
        campaign(Splits(data.train, val=data.train[:16]), whole[0])


def test_data_without_validation_or_labels_is_refused(data, tmp_path):
    with pytest.raises(InputError, match="needs a validation split"):
        campaign(Splits(data.train), tmp_path / "j")
    bare = dwmr.Transitions(data.train.obs, data.train.actions, data.train.next_obs, n_actions=3)
    with pytest.raises(InputError, match="needs labels"):
        campaign(Splits(bare, val=bare), tmp_path / "j")
    assert list(tmp_path.iterdir()) == []


def test_without_labels_what_is_shared_decides(data, tmp_path):
    bare = dwmr.Transitions(data.train.obs, data.train.actions, data.train.next_obs, n_actions=data.train.n_actions)
    found = campaign(Splits(bare, val=bare[:32]), tmp_path / "j", trials=3, select="shared")
    assert found["select"] == "shared"
    means = {entry["trial"]: sum(entry["shared"]) / 3 for entry in found["confirmations"]}
    assert means[found["chosen"]["trial"]] == max(means.values())
    assert "imagination" not in found["confirmations"][0]["scores"][0]
    assert "shared by predicted" in tables.tuning_line(found)
    assert tables.tuning(found)
    with pytest.raises(InputError, match="--select shared chooses without"):
        campaign(Splits(bare, val=bare[:32]), tmp_path / "j", trials=3)
    with pytest.raises(InputError, match="unknown figure to choose by"):
        campaign(data, tmp_path / "k", select="luck")


def test_a_file_that_is_no_journal_is_left_alone(data, tmp_path):
    (tmp_path / "notes").write_text("not a journal")
    with pytest.raises(InputError, match="is not the journal of a study"):
        campaign(data, tmp_path / "notes")
    assert (tmp_path / "notes").read_text() == "not a journal"
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


def test_a_line_cut_off_by_a_crash_is_dropped(data, whole, tmp_path):
    journal = tmp_path / "j"
    content = whole[0].read_bytes()
    journal.write_bytes(content + b'{"op_code":6,"work')
    assert without_times(campaign(data, journal)) == without_times(whole[1])
    assert journal.read_bytes() == content
