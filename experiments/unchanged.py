"""Are the weights of the paper's models and their figures the same, to the last bit, as at an older commit?

    python experiments/unchanged.py --against 0619f47              # the presets
    python experiments/unchanged.py --against 0619f47 --restamp    # every stored cell of the tables

Trains each configuration for three epochs on small random data, on one CPU core without any speed-up: once with this
code and once with that of the older commit, each in a process of its own. Ends with status 1 if a weight differs, or
a figure of `dwmr.evaluate` that both have. Names of tensors may differ; their values may not.

With --restamp, runs in results/runs that were made with the code of the older commit, and whose weights are the same,
are marked as up to date.
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
from collections.abc import Iterator
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
RENAMED = {"init_from_slow_features": "slow_start"}  # options by their present name, with the name at older commits

Values = dict[str, Any]
Outcome = tuple[dict[str, np.ndarray], dict[str, Any]]  # weights and figures


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

    states = place[:, None] % 7 >= np.arange(1, 3)  # two cells with two labels
    return dwmr.Transitions(
        frames(place[:-1]),
        actions,
        frames(place[1:]),
        n_actions=4,
        state=states[:-1].astype(np.int64),
        next_state=states[1:].astype(np.int64),
        n_classes=2,
        episode=np.zeros(count, np.int64),
    )


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


def write_outcomes(folder: Path) -> None:
    """Train and evaluate every case in ``folder``, and write weights and figures there."""
    import dwmr

    torch.set_num_threads(1)
    for number, values in enumerate(json.loads((folder / "cases.json").read_text()).values()):
        run = trained(values)
        data = transitions(SHAPES[run.config.benchmark.removesuffix("-noisy")])
        figures = dwmr.evaluate(run.model, train=data, test=data)
        (folder / f"{number}.json").write_text(json.dumps(figures))
        np.savez(folder / f"{number}.npz", **{name: value.numpy() for name, value in run.model.state_dict().items()})


def outcomes_of(source: Path, cases: dict[str, Values]) -> dict[str, Outcome]:
    """Weights and figures of every case, made in a process of its own with the package in ``source``."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "cases.json").write_text(json.dumps(cases))
        command = [sys.executable, __file__, "--worker", folder]
        subprocess.run(command, env=os.environ | {"PYTHONPATH": str(source)}, check=True, cwd=folder)
        return {
            name: (
                dict(np.load(Path(folder, f"{number}.npz"))),
                dict(flattened(json.loads(Path(folder, f"{number}.json").read_text()))),
            )
            for number, name in enumerate(cases)
        }


def flattened(figures: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Nested figures as pairs of path and value."""
    if isinstance(figures, dict):
        for name, value in figures.items():
            yield from flattened(value, f"{path}/{name}")
    else:
        yield path, figures


def difference(before: Outcome, now: Outcome) -> str | None:
    """How two outcomes differ, or None. Tensors are compared by name, or in any order if they were renamed."""
    older, newer = before[0], now[0]
    if older.keys() != newer.keys():
        if sorted(map(np.ndarray.tobytes, older.values())) != sorted(map(np.ndarray.tobytes, newer.values())):
            return f"tensors were renamed, and their values differ: {sorted(older.keys() ^ newer.keys())}"
    elif different := [name for name in newer if newer[name].tobytes() != older[name].tobytes()]:
        far = max(float(abs(newer[name] - older[name]).max()) for name in different)
        return f"{len(different)} of {len(newer)} tensors differ, by up to {far:.2g}"
    figures = [name for name, value in now[1].items() if name in before[1] and before[1][name] != value]
    return f"the weights are the same, but not the figures {figures}" if figures else None


def stored_cells() -> dict[str, Values]:
    """The values of every stored cell, by its file."""
    from dwmr.config import Config
    from experiments.reproduce.command import RESULTS
    from experiments.reproduce.store import read_file

    paths = sorted((RESULTS / "runs").rglob("*.jsonl"))
    return {str(path): shortened(Config.from_dict(read_file(path)[0].config)) for path in paths}


def restamp(path: Path, commit: str, older_digest: str) -> None:
    """Mark the runs of a file that were made with the code of ``commit``, or marked by it before, as up to date."""
    from dwmr.provenance import code_digest
    from experiments.reproduce.store import StoredRun, read_file, write_file

    def stamped(run: StoredRun) -> StoredRun:
        if run.code.get("digest") != older_digest and run.code.get("unchanged_since") != commit:
            return run
        return dataclasses.replace(run, code=run.code | {"digest": code_digest(), "unchanged_since": commit})

    write_file(path, [stamped(run) for run in read_file(path)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="COMMIT", help="the older commit")
    parser.add_argument("--restamp", action="store_true", help="check the stored cells, and mark what is up to date")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        write_outcomes(given.worker)
        return
    if not given.against:
        parser.error("--against COMMIT is missing")
    sys.path.insert(0, str(ROOT / "src"))  # this code, whatever is installed
    from dwmr.provenance import code_digest

    cases = stored_cells() if given.restamp else presets()
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", given.against, "src"], cwd=ROOT, check=True, capture_output=True)
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        older = Path(folder, "src")
        older_digest = code_digest(package=older / "dwmr")
        before, now = outcomes_of(older, cases), outcomes_of(ROOT / "src", cases)
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
