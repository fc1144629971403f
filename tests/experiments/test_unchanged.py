"""The faithful models train as they did at the commit that the golden losses come from."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from dwmr.provenance import code_digest
from experiments.reproduce.store import StoredRun, read_file, write_file

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("unchanged", ROOT / "experiments" / "unchanged.py")
unchanged = importlib.util.module_from_spec(spec)
spec.loader.exec_module(unchanged)

GOLDEN = json.loads((ROOT / "tests" / "golden" / "faithful.json").read_text(encoding="utf-8"))


def test_no_weight_differs_in_the_committed_file():
    found = json.loads((ROOT / "experiments" / "results" / "unchanged.json").read_text(encoding="utf-8"))
    assert found["differences"] == dict.fromkeys(unchanged.presets())


def test_weights_and_figures_are_compared_to_the_last_bit():
    weights, figures = {"a": np.array([1.0, 2.0], np.float32), "b": np.array([3], np.int64)}, {"/f1": 0.1, "/old": 1}
    assert unchanged.difference((weights, figures), (dict(weights), {"/f1": 0.1, "/new": 2})) is None
    renamed = {"x": weights["b"], "y": weights["a"]}
    assert unchanged.difference((weights, figures), (renamed, figures)) is None
    now = weights | {"a": np.nextafter(weights["a"], np.float32(9))}
    assert "1 of 2 tensors differ" in unchanged.difference((weights, figures), (now, figures))
    assert "renamed" in unchanged.difference((renamed, figures), (now, figures))
    assert "not the figures ['/f1']" in unchanged.difference((weights, figures), (weights, {"/f1": 0.1 + 1e-16}))


@pytest.mark.parametrize("case", GOLDEN)
def test_the_losses_are_those_of_before(case):
    """Up to rounding, which differs between processors; `unchanged.py` itself compares weights to the last bit.

    A term near 0 moves by more than its share: locality sums what few bits exceed a threshold by.
    """
    found = [epoch["terms"] for epoch in unchanged.trained(unchanged.presets()[case]).metrics[:2]]
    for now, before, rounding in zip(found, GOLDEN[case], (1e-2, 3e-2), strict=True):  # rounding errors grow
        assert now == pytest.approx(before, rel=rounding, abs=rounding / 20)


def test_only_runs_of_the_older_code_are_marked_as_up_to_date(tmp_path):
    path = tmp_path / "cell.jsonl"
    codes = [{"digest": "older"}, {"digest": "other"}, {"digest": "before", "unchanged_since": "0619f47"}]
    blank = dict.fromkeys(("config", "data", "machine", "figures", "diverged", "last_epoch", "together", "seconds"), "")
    write_file(path, [StoredRun(seed=seed, code=code, **blank) for seed, code in enumerate(codes)])
    unchanged.restamp(path, "0619f47", "older")
    first, other, again = (run.code for run in read_file(path))
    assert first == {"digest": code_digest(), "unchanged_since": "0619f47"}
    assert other == codes[1]
    assert again["digest"] == code_digest()
