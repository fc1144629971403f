"""Are the weights of the paper's models the same, to the last bit, as at an older commit?

    python experiments/unchanged.py --against 0619f47              # the presets
    python experiments/unchanged.py --against 0619f47 --restamp    # every stored cell of the tables

Trains each configuration for three epochs on small random data, on one CPU core without any speed-up: once with this
code and once with the code of the older commit, each in a process of its own. Ends with status 1 if a weight differs.
Names of tensors may differ; their values may not.

With --restamp, runs in results/runs that were made with the code of the older commit, and whose weights are the same,
are marked as up to date. Runs stored before 0.2 do not name their code; they count as made with the older commit if
that is older than 0.2 too.
"""

from __future__ import annotations

import argparse
import dataclasses
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
sys.path.append(str(ROOT))
SHAPES = {"8puzzle": (1, 84, 84), "iceslider": (3, 64, 64)}
MODELS = ("ae", "beta-vae", "deepcubeai", "dwmr", "dwmr+ae", "dwmr+beta-vae", "strong")
SCHEMES = ("soft", "straight_through", "two_step", "two_step_st")
SMALL = {"epochs": 3, "batch_size": 16}
EARLY = {"cross_from": 0, "cross_to": 1, "cosine_from": 0}  # so that three epochs reach what comes late
RENAMED: dict[str, str] = {}  # options by their present name, with the name at older commits

Values = dict[str, Any]
Weights = dict[str, np.ndarray]


def presets() -> dict[str, Values]:
    """The values of every case, by its name: all models, DWMR with all schemes."""
    import dwmr

    configs = {f"{world}/{model}": dwmr.preset(f"{world}/{model}") for world in SHAPES for model in MODELS}
    configs["8puzzle/strong-grid"] = dwmr.preset("8puzzle/strong-grid")
    for world in SHAPES:
        for scheme in SCHEMES:
            configs[f"{world}/dwmr {scheme}"] = dwmr.preset(f"{world}/dwmr", scheme=scheme)
    return {name: shortened(config) for name, config in configs.items()}


def shortened(config: Any) -> Values:
    """What a configuration changes of the defaults, for three short epochs."""
    default = type(config)().flat()
    changed = {name: value for name, value in config.flat().items() if value != default[name]}
    return changed | SMALL | EARLY


def transitions(shape: tuple[int, ...], count: int = 48) -> Any:
    """A walk over seven pictures in a ring. An action moves on by 0 to 3 pictures; every frame has its own noise."""
    import dwmr

    random = np.random.default_rng(0)
    pictures = random.integers(0, 256, (7, *shape))
    actions = random.integers(0, 4, count)
    place = np.concatenate([[0], actions.cumsum()])

    def frames(of: np.ndarray) -> np.ndarray:
        return np.clip(pictures[of % 7] + random.integers(-20, 21, (count, *shape)), 0, 255).astype(np.uint8)

    episode = np.zeros(count, np.int64)
    return dwmr.Transitions(frames(place[:-1]), actions, frames(place[1:]), n_actions=4, episode=episode)


def trained(values: Values) -> Any:
    """A run, by the `dwmr` that is imported."""
    import dwmr
    from dwmr.config import Config, option_names

    known = set(option_names())
    config = Config().replace(**{name if name in known else RENAMED[name]: value for name, value in values.items()})
    data = transitions(SHAPES[config.benchmark.removesuffix("-noisy")])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # three epochs are too few for a healthy code
        return dwmr.train(config, train=data, seed=3, device="cpu", fast="off", progress=False)


def write_weights(folder: Path) -> None:
    """Train every case in ``folder``, and write its weights there."""
    torch.set_num_threads(1)
    for number, values in enumerate(json.loads((folder / "cases.json").read_text()).values()):
        weights = {name: value.numpy() for name, value in trained(values).model.state_dict().items()}
        np.savez(folder / f"{number}.npz", **weights)


def weights_of(source: Path, cases: dict[str, Values]) -> dict[str, Weights]:
    """The weights of every case, trained in a process of its own with the package in ``source``."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "cases.json").write_text(json.dumps(cases))
        command = [sys.executable, __file__, "--write-weights", folder]
        subprocess.run(command, env=os.environ | {"PYTHONPATH": str(source)}, check=True, cwd=folder)
        return {name: dict(np.load(Path(folder, f"{number}.npz"))) for number, name in enumerate(cases)}


def difference(before: Weights, now: Weights) -> str | None:
    """How two sets of weights differ, or None. Tensors are compared by name, or in any order if they were renamed."""
    if before.keys() == now.keys():
        different = [name for name in now if now[name].tobytes() != before[name].tobytes()]
        far = max((float(abs(now[name] - before[name]).max()) for name in different), default=0.0)
        return f"{len(different)} of {len(now)} tensors differ, by up to {far:.2g}" if different else None
    same = sorted(value.tobytes() for value in before.values()) == sorted(value.tobytes() for value in now.values())
    return None if same else f"tensors were renamed, and their values differ: {sorted(before.keys() ^ now.keys())}"


def stored_cells() -> dict[str, Values]:
    """The values of every stored cell, by its file."""
    from dwmr.config import Config
    from experiments.reproduce.command import RESULTS
    from experiments.reproduce.store import read_file

    paths = sorted((RESULTS / "runs").rglob("*.jsonl"))
    return {str(path): shortened(Config.from_dict(read_file(path)[0].config)) for path in paths}


def restamp(path: Path, commit: str, older_digest: str | None) -> None:
    """Mark the runs of a file that were made with the older code as up to date."""
    from dwmr.provenance import code_digest
    from experiments.reproduce.store import read_file, write_file

    stamp = {"digest": code_digest(), "unchanged_since": commit}
    runs = read_file(path)
    write_file(
        path,
        [
            dataclasses.replace(run, code=run.code | stamp) if run.code.get("digest") == older_digest else run
            for run in runs
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="COMMIT", help="the older commit")
    parser.add_argument("--restamp", action="store_true", help="check the stored cells, and mark what is up to date")
    parser.add_argument("--write-weights", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.write_weights:
        write_weights(given.write_weights)
        return
    if not given.against:
        parser.error("--against COMMIT is missing")
    sys.path.insert(0, str(ROOT / "src"))  # this code, whatever is installed
    from dwmr.provenance import code_digest

    cases = stored_cells() if given.restamp else presets()
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", given.against, "src"], cwd=ROOT, check=True, capture_output=True)
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        package = Path(folder, "src", "dwmr")
        older_digest = code_digest(package=package) if (package / "provenance.py").exists() else None
        before, now = weights_of(package.parent, cases), weights_of(ROOT / "src", cases)
    differences = {name: difference(before[name], now[name]) for name in cases}
    for name, found in differences.items():
        print(f"{name}: {found or 'the same to the last bit'}")
        if given.restamp and found is None:
            restamp(Path(name), given.against, older_digest)
    if not given.restamp:
        out = ROOT / "experiments" / "results" / "unchanged.json"
        out.write_text(json.dumps({"against": given.against, "differences": differences}, indent=1) + "\n")
    sys.exit(any(differences.values()))


if __name__ == "__main__":
    main()
