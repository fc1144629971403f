"""The exact stand-in for a model, and the committed figures."""

import json

import numpy as np

from tests.symbolic.exact import FILE, experiment, ice_encode, ice_predict


def test_the_stand_in_is_exact(ice):
    codes = ice_encode(ice.obs)
    assert np.array_equal(ice_predict(codes, ice.actions), ice_encode(ice.next_obs))
    labels = np.unique(np.asarray(ice.state).reshape(len(ice), -1), axis=0)
    assert len(np.unique(codes, axis=0)) == len(labels)


def test_levels_are_summed_up():
    fine = {"outcome": "solved", "plan": ["up"], "length": 3, "shortest": 2, "reached": True, "seconds": 1.0}
    wrong = fine | {"reached": False}
    found = experiment.summary({"1": fine, "2": wrong, "3": {"outcome": "exhausted", "plan": None, "seconds": 3.0}})
    assert (found["solved"], found["of"], found["wrong_plan"], found["exhausted"]) == (1, 3, 1, 1)
    assert (found["length_over_optimal"], found["optimal"], found["seconds_median"]) == (1.5, 0, 1.0)


def test_the_committed_file_has_the_control():
    exact = json.loads((FILE.parent / "results" / "symbolic.json").read_text())["exact"]
    assert exact["fidelity"]["states"] >= 99
    assert exact["levels"]["of"] == 100
