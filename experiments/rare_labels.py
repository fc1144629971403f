"""What three bits say of four labels: two runs of one setting, one that keeps the agent and one that loses it.

    python experiments/rare_labels.py

DWMR on noisy IceSlider, eight epochs, two seeds; 1,500 validation images. For each label: its share of the cells, and
the mean of each bit's probability in its cells. Results go to experiments/results/rare_labels.json and
docs/images/rare_labels.png. Labels are used to judge alone.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch

import dwmr
from dwmr.data.collect import cached_benchmark
from dwmr.evaluation.evaluate import imagination_scores
from dwmr.files import atomic_write_json
from dwmr.models.encoders import CELLS
from dwmr.presets import REGULARIZED, start_values
from dwmr.training.losses import by_cell

SEEDS = {"kept": 7001, "lost": 7110}
EPOCHS = 8
IMAGES = 1500
LABELS = ("rock", "ice", "goal", "agent")


def one_run(seed: int, data: dwmr.Splits, device: str) -> dict[str, Any]:
    assert data.val is not None
    values = REGULARIZED["iceslider-noisy"] | {"lr": 2e-3, "epochs": EPOCHS}
    config = start_values("iceslider-noisy/dwmr").replace(**values)
    model = dwmr.train(config, train=data.train, seed=seed, device=device).model
    (scores,) = imagination_scores([model], train=data.train, test=data.val)
    seen = data.val[:IMAGES]
    cells = by_cell(torch.sigmoid(model.encode_logits(seen.obs)), CELLS["patch"](seen.image_shape)).cpu().numpy()
    labels = np.asarray(seen.state).ravel()
    return {
        "seed": seed,
        "encoding": scores["encoding"],
        "imagination": scores["imagination"],
        "share": {name: float(100 * (labels == label).mean()) for label, name in enumerate(LABELS)},
        "bits": {
            name: [round(float(mean), 3) for mean in cells[labels == label].mean(0)]
            for label, name in enumerate(LABELS)
        },
    }


def draw(found: dict[str, Any], path: Path) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(7, 2.6), sharey=True, layout="constrained")
    for axis, (outcome, run) in zip(axes, found.items()):
        means = np.array([run["bits"][name] for name in LABELS])
        axis.imshow(means, cmap="Blues", vmin=0, vmax=1.3, aspect="auto")
        for (row, bit), mean in np.ndenumerate(means):
            axis.text(bit, row, f"{mean:.2f}", ha="center", va="center", color="white" if mean > 0.8 else "black")
        axis.set_xticks(range(means.shape[1]), [f"bit {bit + 1}" for bit in range(means.shape[1])])
        axis.set_yticks(range(len(LABELS)), [f"{name}, {run['share'][name]:.1f}%" for name in LABELS])
        axis.set_title(f"agent {outcome}: {run['encoding']:.0f} / {run['imagination']:.0f}")
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("experiments/results/rare_labels.json"))
    parser.add_argument("--picture", type=Path, default=Path("docs/images/rare_labels.png"))
    parser.add_argument("--device", default="auto")
    chosen = parser.parse_args()
    data = dwmr.load_splits(cached_benchmark("iceslider-noisy"))
    found = {outcome: one_run(seed, data, chosen.device) for outcome, seed in SEEDS.items()}
    atomic_write_json(chosen.out, found)
    draw(found, chosen.picture)
    for outcome, run in found.items():
        print(f"{outcome}: {run['encoding']:.1f} / {run['imagination']:.1f}", run["bits"])


if __name__ == "__main__":
    main()
