"""What a code says before anything is learned: random first weights against slow features.

    python experiments/slow_start.py

For each of ten seeds the untrained encoder of `iceslider/strong` and `iceslider-noisy/strong` encodes 1,000 validation
images, once with random weights (each bit cut at its mean) and once after `start_slowly`. A cell's bits are taken to
mean the label that they go with most, each label weighing the same. Results go to experiments/results/slow_start.json
and docs/images/slow_start.png. Labels are used to judge alone.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch

import dwmr
from dwmr.data.collect import cached_benchmark
from dwmr.data.transitions import Transitions
from dwmr.files import atomic_write_json
from dwmr.models.encoders import CELLS
from dwmr.models.world_model import WorldModel, build_model
from dwmr.training.losses import by_cell
from dwmr.training.slow_features import settle, start_slowly

SEEDS = range(10)
IMAGES = 1000
LABELS = ("rock", "floor", "goal", "agent")


def shares(model: WorldModel, data: Transitions, cells: int, middle: bool) -> list[float]:
    """Of each label's cells, in percent, those whose bits mean it."""
    logits = by_cell(model.encode_logits(data.obs), cells)
    bits = (logits > (logits.mean(0) if middle else 0)).long().cpu().numpy()
    codes, labels = bits @ (1 << np.arange(bits.shape[1])), np.asarray(data.state).ravel()
    counts = np.stack([np.bincount(codes[labels == label], minlength=1 << bits.shape[1]) for label in range(4)])
    each = counts / counts.sum(1, keepdims=True)
    meaning = each.argmax(0)
    return [float(100 * each[label][meaning == label].sum()) for label in range(4)]


def draw(found: dict, path: Path) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True, layout="constrained")
    for axis, (name, entry) in zip(axes, found.items()):
        for shift, (start, colour) in zip((-0.15, 0.15), (("random", "#999999"), ("slow", "#0072b2"))):
            values = np.array([run[start] for run in entry["runs"]])
            for label in range(4):
                places = label + shift + np.linspace(-0.08, 0.08, len(values))
                words = f"{start} start" if label == 0 else None
                axis.plot(places, values[:, label], "o", color=colour, ms=4, label=words)
        axis.set_title(name)
        axis.set_xticks(range(4), LABELS)
        axis.grid(axis="y", alpha=0.3)
    axes[0].set_ylabel("cells whose bits mean their label, %")
    axes[0].legend(loc="lower left", frameon=False)
    figure.savefig(path, dpi=130)


def main() -> None:
    found = {}
    for name in ("iceslider", "iceslider-noisy"):
        splits = dwmr.load_splits(cached_benchmark(name))
        assert splits.val is not None
        config, seen, cells = dwmr.preset(f"{name}/strong"), splits.val[:IMAGES], CELLS["patch"](splits.val.image_shape)
        runs = []
        for seed in SEEDS:
            model = build_model(config, seen.image_shape, seen.n_actions, decoder=False, seed=seed).eval()
            settle(model, splits.train.obs[:IMAGES])
            start = {"random": shares(model, seen, cells, middle=True)}
            start_slowly(model, splits.train)
            runs.append({"seed": seed, **start, "slow": shares(model, seen, cells, middle=False)})
            print(name, runs[-1], flush=True)
        found[name] = {"labels": LABELS, "runs": runs}
    results = Path("experiments/results/slow_start.json")
    atomic_write_json(results, {"torch": torch.__version__, **found})
    draw(found, Path("docs/images/slow_start.png"))


if __name__ == "__main__":
    main()
