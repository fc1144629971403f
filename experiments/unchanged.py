"""The faithful models' weights after a few updates, now and at an earlier commit: equal to the last bit?

    python experiments/unchanged.py 9bb38d2~1

Every model of the paper, DWMR with all four schemes, on images of both benchmarks' shapes, two epochs on the plain path
of one CPU core, with the values written out here. 9bb38d2 brought the techniques beyond the paper. DeepCubeAI has
changed since, on purpose: its decoder reads the bits, no longer the probabilities (docs/log.md).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

import dwmr
from dwmr.config import Config

SHAPES = {"8puzzle": (1, 84, 84), "iceslider": (3, 64, 64)}
NETWORKS: dict[str, dict[str, Any]] = {
    "8puzzle": {
        "encoder": "conv",
        "predictor": "mlp",
        "decoder": "conv",
        "bits": 64,
        "standardize": True,
        "low": 4,
        "high": 10,
    },
    "iceslider": {
        "encoder": "patch",
        "predictor": "conv",
        "decoder": "patch",
        "bits": 192,
        "standardize": False,
        "low": 0,
        "high": 6,
    },
}
VALUES: dict[str, float] = {
    "epochs": 2,
    "batch_size": 16,
    "lr": 2e-3,
    "lr_factor": 0.98,
    "pred_factor": 1.05,
    "var": 2.3,
    "var_factor": 1.01,
    "cor": 0.6,
    "cos": 1.8,
    "loc": 1.4,
    "loc_factor": 0.98,
    "gamma": 0.41,
    "tau": 0.9,
    "tau_factor": 0.99,
}
SCHEMES = {
    "ae": ("two_step",),
    "beta-vae": ("two_step",),
    "deepcubeai": ("joint",),
    "dwmr": ("soft", "straight_through", "two_step", "two_step_st"),
    "dwmr+ae": ("two_step",),
    "dwmr+beta-vae": ("two_step",),
}


def transitions(shape: tuple[int, ...], count: int = 48) -> dwmr.Transitions:
    """Seven pictures in a ring, each frame with noise of its own; an action goes so many on."""
    random = np.random.default_rng(0)
    pictures = random.integers(0, 256, (7, *shape))
    place, actions = random.integers(0, 7, count), random.integers(0, 4, count)

    def frames(of: np.ndarray) -> np.ndarray:
        return np.clip(pictures[of] + random.integers(-20, 21, (count, *shape)), 0, 255).astype(np.uint8)

    return dwmr.Transitions(frames(place), actions, frames((place + actions) % 7), n_actions=4)


def trained(benchmark: str, model: str, scheme: str) -> dwmr.Run:
    """One run on the plain path."""
    config = Config().replace(benchmark=benchmark, model=model, scheme=scheme, **NETWORKS[benchmark], **VALUES)
    data = transitions(SHAPES[benchmark])
    return dwmr.train(config, train=data, seed=3, device="cpu", fast="off", progress=False)


def names() -> list[tuple[str, str, str]]:
    return [(benchmark, model, scheme) for benchmark in SHAPES for model in SCHEMES for scheme in SCHEMES[model]]


def digests() -> dict[str, str]:
    """A short name for all weights of every model."""
    torch.set_num_threads(1)
    found = {}
    for name in names():
        digest = hashlib.sha256()
        for key, value in sorted(trained(*name).model.state_dict().items()):
            digest.update(key.encode() + value.cpu().contiguous().numpy().tobytes())
        found["/".join(name)] = digest.hexdigest()[:16]
    return found


def digests_at(commit: str) -> dict[str, str]:
    root = Path(__file__).resolve().parents[1]
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", commit, "src"], cwd=root, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        environment = os.environ | {"PYTHONPATH": f"{folder}/src"}
        found = subprocess.run(
            [sys.executable, __file__], env=environment, check=True, capture_output=True, text=True
        ).stdout
    return dict(json.loads(found.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", nargs="?", help="without one, the digests of the code that is imported are printed")
    parser.add_argument("--out", type=Path, default=Path("experiments/results/unchanged.json"))
    given = parser.parse_args()
    now = digests()
    if given.commit is None:
        print(json.dumps(now))
        return
    before = digests_at(given.commit)
    for name, digest in now.items():
        print(f"{name}: {'the same to the last bit' if before.get(name) == digest else 'differs'}")
    from dwmr.files import atomic_write_json  # digests_at runs this file with code that may not have it
    from dwmr.reproduce.runs import code_words, machine_words

    machine, code = machine_words(torch.device("cpu")), code_words()
    atomic_write_json(
        given.out, {"commit": given.commit, "machine": machine, "code": code, "before": before, "now": now}
    )


if __name__ == "__main__":
    main()
