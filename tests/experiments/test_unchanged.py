"""With every technique off, the faithful models train as they did before there were any."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("unchanged", ROOT / "experiments" / "unchanged.py")
unchanged = importlib.util.module_from_spec(spec)
spec.loader.exec_module(unchanged)

GOLDEN = json.loads((ROOT / "tests" / "golden" / "faithful.json").read_text(encoding="utf-8"))


def test_the_weights_were_those_of_before():
    """DeepCubeAI was changed since, on purpose."""
    found = json.loads((ROOT / "experiments" / "results" / "unchanged.json").read_text(encoding="utf-8"))
    assert set(found["now"]) == {"/".join(name) for name in unchanged.names()}
    differing = {name for name, digest in found["now"].items() if found["before"][name] != digest}
    assert differing == {"8puzzle/deepcubeai/joint", "iceslider/deepcubeai/joint"}


@pytest.mark.filterwarnings("ignore:.*never changed:RuntimeWarning")
@pytest.mark.parametrize("name", unchanged.names(), ids="/".join)
def test_the_losses_are_those_of_before(name):
    """To a machine's rounding; `unchanged.py` itself compares the weights of two commits to the last bit."""
    found = [epoch["terms"] for epoch in unchanged.trained(*name).metrics]
    for now, before, rounding in zip(found, GOLDEN["/".join(name)], (1e-2, 3e-2), strict=True):  # bits turn over
        assert now == pytest.approx(before, rel=rounding)
