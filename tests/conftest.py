"""What the tests share: one thread each, hypothesis without a clock, small data, and the command line."""

import sys
import warnings

import numpy as np
import pytest
import torch
from hypothesis import settings

from dwmr import Transitions
from dwmr.cli import main
from dwmr.data.collect import make_transitions
from dwmr.seeding import below, rng

# The tests run in parallel processes on few cores, and everything in them is small. One thread a process is the
# fastest, and sums come out in the same order in a child process.
torch.set_num_threads(1)

settings.register_profile("dwmr", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("dwmr")


@pytest.fixture(autouse=True)
def _minigrid(request: pytest.FixtureRequest) -> None:
    if any(world in request.node.name.lower() for world in ("doorkey", "fourrooms")):
        pytest.importorskip("minigrid")


@pytest.fixture(scope="session")
def ice() -> Transitions:
    """400 training transitions of IceSlider, 3×64×64."""
    return make_transitions("iceslider", "train", 400)


@pytest.fixture(scope="session")
def ice_val() -> Transitions:
    """80 validation transitions of IceSlider."""
    return make_transitions("iceslider", "val", 80)


@pytest.fixture(scope="session")
def tiny() -> Transitions:
    """64 transitions of random 1×8×8 images with 3 actions, 4 episodes, and a board of two cells."""
    generator = rng(0, "tiny")
    images = below(generator, 256, (2, 64, 1, 8, 8)).astype(np.uint8)
    boards = below(generator, 3, (2, 64, 2))
    return Transitions(
        obs=images[0],
        actions=below(generator, 3, 64),
        next_obs=images[1],
        n_actions=3,
        state=boards[0],
        next_state=boards[1],
        n_classes=3,
        episode=np.repeat(np.arange(4), 16),
    )


@pytest.fixture
def cli(monkeypatch, capsys):
    """Run a command; its exit status, standard output and standard error."""
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["dwmr", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return ended.value.code, said.out, said.err

    return run
