"""Decoding later frames among the codes that the first one reaches, in a ring whose right codes are known."""

import dataclasses
import importlib.util
from pathlib import Path

import numpy as np

from dwmr.evaluation.probes import fit_probe
from tests.evaluation.ring import RIGHT, ring_rollouts
from tests.evaluation.test_repair import blurred_model

FILE = Path(__file__).parents[2] / "experiments" / "repaired.py"
spec = importlib.util.spec_from_file_location("repaired", FILE)
repaired = importlib.util.module_from_spec(spec)
spec.loader.exec_module(repaired)


def test_smudged_frames_are_read_by_what_can_be_reached():
    clean = ring_rollouts([[RIGHT] * 10] * 3, (0, 1, 2, 5, 10))
    model = blurred_model()
    flat = clean.obs.reshape(-1, *clean.obs.shape[2:])
    states = clean.state.reshape(len(flat), -1)
    probe = fit_probe(model.encode(flat), states, clean.n_classes)
    plain = repaired.among_reachable(model, clean, probe)
    assert plain == {"boards": 100.0, "boards_decoded": 100.0, "codes_reached": 4.0}
    smudged = clean.obs.copy()
    smudged[:, 1:] = np.maximum(smudged[:, 1:], 140)  # later frames: every light on, the right one brightest
    found = repaired.among_reachable(model, dataclasses.replace(clean, obs=smudged), probe)
    assert found["boards"] < 50
    assert found["boards_decoded"] == 100
