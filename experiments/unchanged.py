"""Are the weights of the paper's models the same, to the last bit, as at an older commit?

    python experiments/unchanged.py --against 0619f47

Trains every model of the paper, DWMR with all four schemes, and the strong models for three epochs on small random
data, on one CPU core without any speed-up: once with this code and once with the code of the older commit, each in a
process of its own. Ends with status 1 if a weight differs. Names of tensors may differ; their values may not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[1]
SHAPES = {"8puzzle": (1, 84, 84), "iceslider": (3, 64, 64)}
MODELS = ("ae", "beta-vae", "deepcubeai", "dwmr", "dwmr+ae", "dwmr+beta-vae")
SCHEMES = ("soft", "straight_through", "two_step", "two_step_st")
STRONG = ("8puzzle/strong", "8puzzle/strong-grid", "iceslider/strong")

SMALL: dict[str, Any] = {"epochs": 3, "batch_size": 16}
EARLY: dict[str, Any] = {"cross_from": 0, "cross_to": 1, "cosine_from": 0}  # what strong models do in later epochs
RENAMED: dict[str, str] = {}  # options by their present name, with the name at older commits


def cases() -> dict[str, tuple[str, dict[str, Any]]]:
    """A preset and changed values, by the name of the case."""
    found = {f"{world}/{model}": (f"{world}/{model}", SMALL) for world in SHAPES for model in MODELS}
    found |= {f"{world}/dwmr {scheme}": (f"{world}/dwmr", SMALL | {"scheme": scheme})
              for world in SHAPES for scheme in SCHEMES}  # fmt: skip
    return found | {name: (name, SMALL | EARLY) for name in STRONG}


def transitions(shape: tuple[int, ...], count: int = 48) -> Any:
    """Seven pictures in a ring; an action moves on by 0 to 3 pictures, and every frame has noise of its own."""
    import dwmr

    random = np.random.default_rng(0)
    pictures = random.integers(0, 256, (7, *shape))
    place, actions = random.integers(0, 7, count), random.integers(0, 4, count)

    def frames(of: np.ndarray) -> np.ndarray:
        return np.clip(pictures[of] + random.integers(-20, 21, (count, *shape)), 0, 255).astype(np.uint8)

    return dwmr.Transitions(frames(place), actions, frames((place + actions) % 7), n_actions=4)


def trained(case: str) -> Any:
    """The run of a case, by the `dwmr` that is imported."""
    import dwmr
    from dwmr.config import option_names

    preset, changes = cases()[case]
    known = set(option_names())
    values = {name if name in known else RENAMED[name]: value for name, value in changes.items()}
    data = transitions(SHAPES[preset.split("/")[0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # three epochs are too few for a healthy code
        return dwmr.train(dwmr.preset(preset, **values), train=data, seed=3, device="cpu", fast="off", progress=False)


def write_weights(out: Path) -> None:
    """Train every case, and write its weights to ``out``."""
    torch.set_num_threads(1)
    for number, case in enumerate(cases()):
        weights = {name: value.numpy() for name, value in trained(case).model.state_dict().items()}
        np.savez(out / f"{number}.npz", **weights)


def weights_of(source: Path) -> dict[str, dict[str, np.ndarray]]:
    """The weights of every case, trained in a process of its own with the package under ``source``."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--write-weights", folder]
        subprocess.run(command, env=os.environ | {"PYTHONPATH": str(source)}, check=True, cwd=folder)
        return {name: dict(np.load(Path(folder, f"{number}.npz"))) for number, name in enumerate(cases())}


def weights_at(commit: str) -> dict[str, dict[str, np.ndarray]]:
    """The weights of every case, trained with the code of ``commit``."""
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        return weights_of(Path(folder, "src"))


def difference(before: dict[str, np.ndarray], now: dict[str, np.ndarray]) -> str | None:
    """How two sets of weights differ, or None. Tensors are compared by name, or in any order if they were renamed."""
    if before.keys() == now.keys():
        different = [name for name in now if now[name].tobytes() != before[name].tobytes()]
        far = max((float(abs(now[name] - before[name]).max()) for name in different), default=0.0)
        return f"{len(different)} of {len(now)} tensors differ, by up to {far:.2g}" if different else None
    same = sorted(value.tobytes() for value in before.values()) == sorted(value.tobytes() for value in now.values())
    return None if same else f"tensors were renamed, and their values differ: {sorted(before.keys() ^ now.keys())}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="COMMIT", help="the older commit")
    parser.add_argument("--out", type=Path, default=ROOT / "experiments/results/unchanged.json")
    parser.add_argument("--write-weights", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.write_weights:
        write_weights(given.write_weights)
        return
    if not given.against:
        parser.error("--against COMMIT is missing")
    before, now = weights_at(given.against), weights_of(ROOT / "src")
    differences = {name: difference(before[name], now[name]) for name in now}
    for name, found in differences.items():
        print(f"{name}: {found or 'the same to the last bit'}")
    given.out.write_text(json.dumps({"against": given.against, "differences": differences}, indent=1) + "\n")
    sys.exit(any(differences.values()))


if __name__ == "__main__":
    main()
