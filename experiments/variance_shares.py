"""Of each bit's variance, how much is the state's, how much its drawing's: the models of Table 1, and the strong one.

    python experiments/variance_shares.py

One run of every preset, seed 0, judged on the validation split by two frames of the same state. On clean IceSlider a
state has one drawing only, so nothing is to be seen there. The picture is docs/images/variance_shares.png. What is in
the results file is not repeated; --draw draws it and trains nothing. With --models FOLDER, models that
`dwmr reproduce … --models FOLDER` kept are not trained again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import dwmr
from dwmr.data.collect import cached_benchmark
from dwmr.evaluation.variance import same_state_codes, variance_parts
from dwmr.files import atomic_write_json
from dwmr.reproduce.campaign import kept_or_trained

BENCHMARKS = ("8puzzle", "8puzzle-noisy", "iceslider-noisy")
MODELS = ("ae", "beta-vae", "deepcubeai", "dwmr", "dwmr+ae", "dwmr+beta-vae", "strong")
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "variance_shares.png"


def shares(model: dwmr.WorldModel, data: dwmr.Splits, seed: int) -> dict[str, Any]:
    """Percent of each live bit's variance that the state decides, the largest first."""
    assert data.val is not None
    codes, next_codes = (model.encode(images).cpu().numpy() for images in (data.val.obs, data.val.next_obs))
    parts = variance_parts(*same_state_codes(codes, next_codes, data.val.episode))
    live = parts.state_share[~np.isnan(parts.state_share)]
    dead = len(parts.total) - len(live)
    return {"seed": seed, "dead": dead, "mean": float(live.mean()), "bits": np.sort(live)[::-1].round(2).tolist()}


def draw(found: dict[str, dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(found), figsize=(4 * len(found), 3.2), sharey=True, layout="constrained")
    for axis, (benchmark, models) in zip(np.atleast_1d(axes), found.items()):
        for name, entry in models.items():
            place = (np.arange(len(entry["bits"])) + 0.5) / len(entry["bits"]) * 100
            strong = {"color": "black", "linewidth": 2.5} if name == "strong" else {"linewidth": 1.3}
            axis.plot(place, entry["bits"], label=name, **strong)
        axis.set(title=benchmark, xlabel="live bits, %", ylim=(0, 102))
    first = np.atleast_1d(axes)[0]
    first.set_ylabel("variance that is the state's, %")
    first.legend(frameon=False, fontsize=8, loc="lower left")
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("experiments/results/variance_shares.json"))
    parser.add_argument("--benchmarks", default=",".join(BENCHMARKS))
    parser.add_argument("--of", default=",".join(MODELS), metavar="MODELS", help="which models, separated by commas")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--models", type=Path, help="run folders as `dwmr reproduce --models` keeps them")
    parser.add_argument("--draw", action="store_true", help="draw what is there")
    chosen = parser.parse_args()
    if chosen.draw and not chosen.out.exists():
        parser.error(f"{chosen.out} does not exist, so there is nothing to draw")
    for benchmark in [] if chosen.draw else chosen.benchmarks.split(","):
        data = dwmr.load_splits(cached_benchmark(benchmark))
        for model in chosen.of.split(","):
            results = json.loads(chosen.out.read_text()) if chosen.out.exists() else {}
            if model not in results.setdefault(benchmark, {}):
                found = kept_or_trained(f"{benchmark}/{model}", chosen.seed, data.train, chosen.device, chosen.models)
                results[benchmark][model] = shares(found, data, chosen.seed)
                atomic_write_json(chosen.out, results)
                print(benchmark, model, results[benchmark][model]["mean"], flush=True)
    known = json.loads(chosen.out.read_text())
    draw(
        {name: {m: known[name][m] for m in MODELS if m in known[name]} for name in BENCHMARKS if name in known}, PICTURE
    )


if __name__ == "__main__":
    main()
