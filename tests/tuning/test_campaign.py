"""Tuning: real campaigns on tiny data, stopped, killed, shared and taken up again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from optuna.storages.journal import JournalFileSymlinkLock

import dwmr
from dwmr import InputError, Splits
from dwmr.cli import tables
from dwmr.evaluation import probes
from dwmr.presets import preset
from dwmr.provenance import code_digest
from dwmr.tuning import campaign as running
from dwmr.tuning import spaces, tune
from dwmr.tuning.campaign import survivors
from dwmr.tuning.spaces import Range, options

GOLDEN = Path(__file__).parents[1] / "golden"
SOURCE = str(Path(dwmr.__file__).parents[1])
NAME = "generic/dwmr"
SETTINGS = {"bits": 12, "batch_size": 16, "epochs": 6}  # compared after epochs 1, 2 and 6
TRIALS = 9  # in batches of 4, 4 and 1, of each of which one continues; two trials are confirmed


@pytest.fixture(autouse=True, scope="module")
def quick():
    """Small campaigns, quickly: the scores need not be good, only the same each time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probes, "MIN_UPDATES", 1)
        patch.setattr(probes, "EPOCHS", 3)
        patch.setattr(running, "CONFIRMED", 2)
        patch.setattr(running, "AT_ONCE", 4)
        patch.setattr(running, "STARTUP", 4)
        patch.setattr(JournalFileSymlinkLock.__init__, "__defaults__", (3,))  # seconds until a dead process's lock ends
        patch.setattr(os, "fsync", lambda descriptor: None)  # no test cuts the power
        yield


@pytest.fixture(scope="module")
def data(tiny):
    return Splits(tiny, val=tiny[:32])


def campaign(data, journal, **changes):
    given = {"trials": TRIALS, "settings": SETTINGS, "device": "cpu"} | changes
    return tune(NAME, data, journal, **given)


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory):
    """A campaign in one go: its journal and its summary."""
    journal = tmp_path_factory.mktemp("tuning") / "whole.journal"
    return journal, campaign(data, journal)


def interrupted_every(calls, monkeypatch, data, journal, **changes):
    """A campaign that is interrupted in every ``calls``-th training: its summary at last, and how often it was."""
    count, interrupts = iter(range(1, 10**6)), 0

    def train_many(*words, **options):
        if next(count) % calls == 0:
            raise KeyboardInterrupt
        return dwmr.train_many(*words, **options)

    monkeypatch.setattr(running, "train_many", train_many)
    while True:
        try:
            return campaign(data, journal, **changes), interrupts
        except KeyboardInterrupt:
            interrupts += 1


def outcome(summary):
    return summary["trials"], summary["confirmations"], summary["chosen"]


def score(trial, epochs):
    return trial["scores"][str(epochs)]


def test_the_stages_of_a_campaign(whole):
    _, found = whole
    assert found["rungs"] == [2, 3, 6]
    trials = found["trials"]
    assert [trial["trial"] for trial in trials] == list(range(TRIALS))
    assert all("2" in trial["scores"] for trial in trials)
    for batch in (trials[:4], trials[4:8], trials[8:]):
        kept = survivors({trial["trial"]: score(trial, 2) for trial in batch})
        assert [trial["trial"] for trial in batch if list(trial["scores"]) == ["2", "3", "6"]] == kept
        assert [trial["trial"] for trial in batch if trial["state"] == "complete"] == kept
        assert [trial["state"] for trial in batch].count("pruned") == len(batch) - 1


def test_a_third_of_a_batch_continues():
    assert survivors({number: float(number) for number in range(16)}) == [15, 14, 13, 12, 11]
    assert survivors({3: 50.0, 1: 70.0, 2: 50.0}) == [1]
    assert survivors({3: 50.0, 1: 50.0}) == [1]
    assert survivors({}) == []


def test_the_first_trial_is_the_preset_as_it_starts(whole):
    _, found = whole
    first = found["trials"][0]
    assert first["start"]
    assert not any(trial["start"] for trial in found["trials"][1:])
    start = preset(NAME).replace(**SETTINGS)
    assert start.replace(**options(first["values"])) == start


def test_the_best_mean_over_fresh_seeds_is_chosen(whole):
    _, found = whole
    last = {trial["trial"]: score(trial, 6) for trial in found["trials"] if "6" in trial["scores"]}
    best = sorted(last, key=lambda number: (-last[number], number))[:2]
    assert {entry["trial"] for entry in found["confirmations"]} == {*best, 0}
    seeds = {tuple(entry["seeds"]) for entry in found["confirmations"]}
    assert len(seeds) == 1
    assert len(set(*seeds)) == 3
    assert not set(*seeds) & {trial["seed"] for trial in found["trials"]}
    means = {entry["trial"]: sum(entry["scores"]) / 3 for entry in found["confirmations"]}
    assert found["chosen"]["mean"] == pytest.approx(max(means.values()))
    assert means[found["chosen"]["trial"]] == max(means.values())
    assert found["chosen"]["mean"] >= found["provenance"]["start_values"]


def test_a_trial_that_goes_on_is_the_run_in_one(data, whole):
    _, found = whole
    trial = next(trial for trial in found["trials"] if "6" in trial["scores"])
    config = preset(NAME).replace(**SETTINGS).replace(**options(trial["values"]))
    run = dwmr.train(config, train=data.train, seed=trial["seed"], device="cpu")
    figures = dwmr.evaluate(run.model, train=data.train, test=data.val)
    assert score(trial, 6) == pytest.approx(figures["imagination"]["f1"], abs=1e-4)


def test_a_finished_campaign_leaves_its_journal_alone(data, whole):
    journal, found = whole
    before = journal.read_bytes()
    assert [path.name for path in journal.parent.iterdir() if path.name.startswith("whole.journal")] == [journal.name]
    assert outcome(campaign(data, journal)) == outcome(found)
    assert journal.read_bytes() == before
    assert len(before) < 1e6 * TRIALS / 64


def test_a_campaign_that_is_stopped_goes_on(data, whole, tmp_path, monkeypatch):
    found, interrupts = interrupted_every(5, monkeypatch, data, tmp_path / "j")
    assert interrupts > 1
    assert len(found["trials"]) == TRIALS
    assert [trial["start"] for trial in found["trials"]].count(True) == 1
    assert found["trials"][0] == whole[1]["trials"][0]  # the first batch was not interrupted
    assert found["chosen"]["mean"] >= found["provenance"]["start_values"]
    assert {trial["state"] for trial in found["trials"]} == {"complete", "pruned"}


def test_another_seed_finds_other_trials(data, whole, tmp_path):
    other = campaign(data, tmp_path / "j", seed=1, trials=2, settings=SHORT)
    values = [trial["values"] for trial in whole[1]["trials"]]
    assert other["trials"][0]["values"] == values[0]
    assert other["trials"][1]["values"] not in values


CHILD = """
import sys, torch
torch.set_num_threads(1)
import dwmr
from optuna.storages.journal import JournalFileSymlinkLock
from dwmr import tuning
from dwmr.tuning import campaign
from dwmr.evaluation import probes
probes.MIN_UPDATES, probes.EPOCHS = 1, 3
campaign.CONFIRMED, campaign.STARTUP, campaign.AT_ONCE = 2, 4, 4
JournalFileSymlinkLock.__init__.__defaults__ = (3,)
train, journal = sys.argv[1:]
train = dwmr.load_transitions(train)
settings = {"bits": 12, "batch_size": 16, "epochs": 2}
data = dwmr.Splits(train, val=train[:32])
tuning.tune("generic/dwmr", data, journal, trials=9, settings=settings, device="cpu")
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
    # A batch that was killed does not count, so later numbers differ; the count does not.
    assert len(found["trials"]) == TRIALS
    assert sum(trial["start"] for trial in found["trials"]) == 1
    assert len(found["confirmations"]) == len({entry["trial"] for entry in found["confirmations"]})
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("j")] == ["j"]


def test_a_journal_is_unlocked_in_one_step(data, tmp_path, monkeypatch):
    """Killed between two, a process would leave a file behind."""

    renamed, rename = [], os.rename
    monkeypatch.setattr(os, "rename", lambda source, target: renamed.append(str(source)) or rename(source, target))
    campaign(data, tmp_path / "j", trials=1, settings=SETTINGS | {"epochs": 1})
    assert not [source for source in renamed if source.startswith(str(tmp_path))]
    assert [path.name for path in tmp_path.iterdir()] == ["j"]


def test_two_processes_share_a_campaign(data, tmp_path):
    journal = tmp_path / "j"
    with child(data, journal) as process:
        while lines(journal) < 3 and process.poll() is None:
            time.sleep(0.001)
        found = campaign(data, journal, settings=SHORT)
    assert process.returncode == 0
    assert len(found["trials"]) >= TRIALS  # each finishes the batch it has begun
    assert all(len(entry["seeds"]) == 3 for entry in found["confirmations"])
    scored = [json.loads(line) for line in journal.read_text().splitlines() if '"intermediate_value"' in line]
    assert len({entry["worker_id"] for entry in scored}) == 2
    assert "running" not in {trial["state"] for trial in found["trials"]}


@pytest.mark.gpu
def test_on_a_gpu_a_batch_is_one_program(data, tmp_path):
    found = campaign(data, tmp_path / "j", device="cuda")
    assert len(found["trials"]) == TRIALS
    assert {trial["values"]["scheme"] for trial in found["trials"]} == {"two_step", "two_step_st"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_a_study_in_a_database_is_stopped_and_continued(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found, interrupts = interrupted_every(4, monkeypatch, data, "sqlite:///study.db", trials=3, settings=SHORT)
    assert interrupts > 0
    assert len(found["trials"]) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["study.db"]


def test_trials_that_diverge_are_results(data, tmp_path, monkeypatch):
    monkeypatch.setitem(spaces.ALWAYS, "lr", Range(1e-3, 1e30, log=True))
    found = campaign(data, tmp_path / "j", trials=8, settings=SETTINGS | {"epochs": 2})
    lost = [trial for trial in found["trials"] if trial["state"].startswith("diverged: ")]
    assert 1 <= len(lost) < 8
    assert all("not a finite number" in trial["state"] for trial in lost)
    assert found["chosen"]["trial"] not in [trial["trial"] for trial in lost]


def test_nothing_is_chosen_where_everything_diverges(data, tmp_path):
    found = campaign(data, tmp_path / "j", trials=2, settings=SETTINGS | {"lr": 1e30})
    assert found["chosen"] is None
    assert found["confirmations"] == []
    assert "none chosen" in tables.tuning(found)


def test_one_trial_of_one_epoch(data, tmp_path):
    found = campaign(data, tmp_path / "j", trials=1, settings=SETTINGS | {"epochs": 1})
    assert found["rungs"] == [1]
    assert found["chosen"]["trial"] == 0


def test_where_it_comes_from(whole):
    provenance = whole[1]["provenance"]
    assert provenance["trials"] == TRIALS
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
        ({"settings": SETTINGS | {"high": 2}}, "the window low to high must be rising .*, got 3 to 2"),
        ({"settings": SETTINGS | {"tau": 0.9}}, r"the range of tau \[0.66, 0.98\] instead of None"),
        ({"settings": SETTINGS | {"scheme": "soft"}}, "with scheme two_step instead of soft"),
    ],
    ids=["trials", "seed", "epochs", "no trials", "window", "range", "scheme"],
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
    assert campaign(data, journal)["chosen"]
    with pytest.raises(InputError, match="with warmup 0 instead of 1"):
        campaign(data, journal, settings=SETTINGS | {"warmup": 1})


def test_a_study_of_version_0_1_is_refused_and_left_alone(data, tmp_path):
    journal = tmp_path / "older.journal"
    shutil.copy(GOLDEN / "study-0.1.journal", journal)
    before = journal.read_bytes()
    with pytest.raises(InputError, match=r"was begun with dwmr 0\.1.*; finish it with that version"):
        campaign(data, journal, trials=5, settings=SHORT)
    assert journal.read_bytes() == before


def test_other_data_is_refused(data, whole):
    with pytest.raises(InputError, match="holds another study, with data"):
        campaign(Splits(data.train, val=data.train[:16]), whole[0])


def test_data_without_validation_is_refused(data, tmp_path):
    with pytest.raises(InputError, match="needs a validation split"):
        campaign(Splits(data.train), tmp_path / "j")
    assert list(tmp_path.iterdir()) == []


def test_without_labels_what_is_shared_decides(data, tmp_path):
    bare = dwmr.Transitions(data.train.obs, data.train.actions, data.train.next_obs, n_actions=data.train.n_actions)
    found = campaign(Splits(bare, val=bare[:32]), tmp_path / "j", trials=3)
    best = found["confirmations"][0]
    assert found["chosen"]["trial"] == best["trial"]
    assert 0 <= best["mean"] == pytest.approx(sum(best["scores"]) / 3)
    assert "shared by predicted" in tables.tuning(found)


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
    assert outcome(campaign(data, journal)) == outcome(whole[1])
    assert journal.read_bytes() == content
