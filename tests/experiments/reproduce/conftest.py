"""A cache with tiny benchmarks, and presets to match."""

from __future__ import annotations

import pytest

from dwmr.data.collect import make_transitions
from dwmr.evaluation import probes
from dwmr.presets import PRESETS
from tests.experiments.reproduce.small import PROBE_UPDATES, small_presets


@pytest.fixture(scope="session")
def tiny_cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    for name in ("8puzzle", "8puzzle-noisy", "iceslider", "iceslider-noisy"):
        for split in ("train", "test"):
            make_transitions(name, split, 80, digits="sklearn").save(folder / "data" / name / split)
    return folder


@pytest.fixture(autouse=True)
def small(monkeypatch, tiny_cache, tmp_path):
    """Everything in miniature, far from the repository's own results and benchmarks."""
    monkeypatch.setenv("DWMR_CACHE", str(tiny_cache))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(probes, "MIN_UPDATES", PROBE_UPDATES)
    for name, config in small_presets().items():
        monkeypatch.setitem(PRESETS, name, config)
