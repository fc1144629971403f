"""What repair at inference is worth when the camera is worse than in training: pixel noise added to all frames.

    python experiments/repair_under_noise.py RUN --data data/iceslider

The model is left as it is. Probe and repair are fitted on noisy training frames, the latter without labels; the figures
are those of ``dwmr evaluate --repair`` on noisy test frames, by the noise's standard deviation on the [0, 1] scale.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

import dwmr
from dwmr.files import atomic_write_json
from dwmr.models.checkpoint import read_info
from dwmr.seeding import rng
from dwmr.worlds.noise import add_noise

STRENGTHS = (0.0, 0.1, 0.15, 0.25)
TRAIN, TEST = 4_000, 4_000  # transitions


def noisy(transitions: dwmr.Transitions, strength: float, split: str) -> dwmr.Transitions:
    def added(images: np.ndarray, part: str) -> np.ndarray:
        return add_noise(np.asarray(images), rng(0, "repair under noise", split, part), strength)

    return dataclasses.replace(
        transitions, obs=added(transitions.obs, "obs"), next_obs=added(transitions.next_obs, "next_obs")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("experiments/results/repair_under_noise.json"))
    given = parser.parse_args()
    model, splits = dwmr.WorldModel.load(given.run, device="cpu"), dwmr.load_splits(given.data)
    info = read_info(given.run)
    assert splits.test is not None
    found: dict[str, Any] = {"preset": info.config.name, "seed": info.seed, "epochs": info.config.epochs, "noise": {}}
    for strength in STRENGTHS:
        train, test = (
            noisy(part, strength, split)
            for part, split in ((splits.train[:TRAIN], "train"), (splits.test[:TEST], "test"))
        )
        found["noise"][f"{strength:g}"] = dwmr.evaluate(model, train=train, test=test, repair=True)
    atomic_write_json(given.out, found)


if __name__ == "__main__":
    main()
