"""More seeds for what a study confirmed."""

import importlib.util
import json
from pathlib import Path

import pytest

from dwmr import Splits

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("confirm_again", ROOT / "experiments" / "confirm_again.py")
confirm_again = importlib.util.module_from_spec(spec)
spec.loader.exec_module(confirm_again)

STUDY = json.loads((ROOT / "experiments" / "studies" / "iceslider" / "dwmr.json").read_text())


def test_the_two_best_and_the_start_are_compared():
    compared = confirm_again.candidates(STUDY)
    means = {entry["trial"]: entry["mean"] for entry in STUDY["confirmations"]}
    (start,) = (entry["trial"] for entry in STUDY["confirmations"] if entry["start"])
    *best, last = compared
    assert last == start
    assert len(best) == 2
    assert min(means[trial] for trial in best) >= max(means[trial] for trial in means if trial not in compared)
    assert compared[STUDY["chosen"]["trial"]] == STUDY["chosen"]["values"]


def test_the_highest_mean_is_chosen_and_a_divergence_counts():
    runs = [{"trial": 3, "imagination": value} for value in (90.0, 92.0)]
    runs += [{"trial": 0, "imagination": 99.0}, {"trial": 0, "diverged": "after epoch 2"}]
    found = confirm_again.chosen(runs, {3: {"lr": 1e-3}, 0: {"lr": 2e-3}})
    assert found["trial"] == 3
    assert found["mean"] == 91.0
    assert found["std"] == pytest.approx(2**0.5)
    assert found["values"] == {"lr": 1e-3}


def test_the_provenance_counts_both_rounds_and_keeps_the_first():
    compared = list(confirm_again.candidates(STUDY))
    runs = [{"trial": trial, "seed": seed, "imagination": 90.0 + seed} for trial in compared for seed in (0, 1)]
    own = STUDY["provenance"]
    found = confirm_again.provenance(STUDY, {"seeds": [0, 1], "runs": runs})
    assert found["run_epochs"] == own["run_epochs"] + 3 * 2 * 20
    assert found["confirmed_with_seeds"] == [0, 1]
    assert found["start_values"] == 90.5
    assert found["compared"] == compared
    assert found["study_confirmed"]["with_seeds"] == own["confirmed_with_seeds"]
    assert found["study_confirmed"]["start_values"] == own["start_values"]
    assert found["study_confirmed"]["mean"] == STUDY["chosen"]["mean"]
    assert found["commit"] == own["commit"]


@pytest.mark.filterwarnings("ignore:.*bits never changed:RuntimeWarning")
def test_runs_of_different_schemes_are_trained_and_judged(tiny, monkeypatch):
    monkeypatch.setattr(confirm_again, "cached_benchmark", lambda name: name)
    monkeypatch.setattr(confirm_again.dwmr, "load_splits", lambda folder: Splits(tiny, val=tiny[:32]))
    small = {"bits": 12, "batch_size": 16, "epochs": 1}
    compared = {7: small | {"scheme": "two_step"}, 5: small | {"scheme": "soft"}, 0: small}
    runs = confirm_again.judged("generic/dwmr", compared, [1, 2], "cpu")
    assert sorted((run["trial"], run["seed"]) for run in runs) == [(t, s) for t in (0, 5, 7) for s in (1, 2)]
    by = {(run["trial"], run["seed"]): run["imagination"] for run in runs}
    assert by[7, 1] == by[0, 1]  # two steps are the default
    assert all(0 <= score <= 100 for score in by.values())
