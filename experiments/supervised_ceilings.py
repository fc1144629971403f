"""What an encoder reads when it is trained with labels: the ceiling of the same network without them.

    python experiments/supervised_ceilings.py

The encoder, its bits straight-through, and a linear reading of each cell (from all bits, or from the cell's own, as the
benchmark's probe has it) are trained together by cross-entropy on all frames of the training split, for as many epochs
as the benchmark's models have, at a few learning rates side by side. The rate that reads the validation split best, by
F1 over the true labels, is judged once on the test split. The file is that of `ceilings.py`; an observer is called
"supervised ENCODER, K bits".
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import dwmr
from dwmr.data.collect import cached_benchmark
from dwmr.evaluation.metrics import board_scores
from dwmr.files import atomic_write_json
from dwmr.models.bits import straight_through
from dwmr.models.encoders import ENCODERS
from dwmr.models.world_model import image_statistics, resolve_device
from dwmr.ops.capture import capture
from dwmr.ops.optimizer import FlatAdam
from dwmr.ops.stacked import stack
from dwmr.ops.terms import has_triton

OBSERVERS = [
    ("8puzzle", "conv", 64),
    ("8puzzle", "tiles", 63),
    ("8puzzle-noisy", "conv", 64),
    ("8puzzle-noisy", "tiles", 63),
    ("iceslider-noisy", "patch", 192),
]
RATES = (4e-3, 2e-3, 1e-3, 5e-4, 2.5e-4)
BATCH = 256


class Observers(nn.Module):
    """One observer a learning rate, alike at first: images as bytes to logits (S, N, cells, classes).

    ``own`` reads each cell from its own bits, by weights that all cells share.
    """

    def __init__(
        self, images: np.ndarray, encoder: str, bits: int, cells: int, classes: int, own: bool, fused: bool
    ) -> None:
        super().__init__()
        first = ENCODERS[encoder](images.shape[1:], bits)
        reading = nn.Linear(bits // cells, classes) if own else nn.Linear(bits, cells * classes)
        self.encoder, self.reading = (stack([part] * len(RATES), fused) for part in (first, reading))
        self.cells, self.own = cells, own
        mean, std = image_statistics(images)
        self.register_buffer("mean", mean[:, None, None])
        self.register_buffer("std", std[:, None, None])

    def forward(self, images: Tensor) -> Tensor:
        frames = (images.float() / 255 - self.mean) / self.std
        logits = self.encoder(frames.expand(len(RATES), *frames.shape))
        bits = straight_through(torch.sigmoid(logits))
        if not self.own:
            return self.reading(bits).unflatten(-1, (self.cells, -1))
        by_cell = bits.unflatten(-1, (-1, self.cells)).transpose(-1, -2)
        return self.reading(by_cell.flatten(1, 2)).unflatten(1, by_cell.shape[1:3])


def trained(
    train: dwmr.Transitions, encoder: str, bits: int, own: bool, epochs: int, seed: int, device: torch.device
) -> Observers:
    """Observers that have seen every frame of the transitions, now and next, with its state."""
    torch.manual_seed(seed)
    images = torch.from_numpy(np.concatenate([train.obs, train.next_obs])).to(device)
    labels = torch.from_numpy(np.concatenate([train.state, train.next_state])).to(device).flatten(1).long()
    fused = device.type == "cuda" and has_triton()
    first = np.asarray(train.obs)
    observers = Observers(first, encoder, bits, labels.shape[1], int(train.n_classes or 0), own, fused).to(device)
    rates = torch.tensor(RATES, device=device)
    optimizer = FlatAdam(list(observers.parameters()), rates.clone(), fused)
    counter = torch.zeros(1, dtype=torch.int64, device=device)
    order = torch.zeros(len(images) // BATCH, BATCH, dtype=torch.int64, device=device)

    def update() -> None:
        index = order.index_select(0, counter)[0]
        logits, known = observers(images[index]), labels[index].flatten().repeat(len(RATES))
        optimizer.zero_grad()
        (F.cross_entropy(logits.flatten(0, 2), known) * len(RATES)).backward()
        optimizer.step()
        counter.add_(1)

    def changing() -> list[Tensor]:
        return [*observers.buffers(), optimizer.flat, optimizer.mean, optimizer.square, optimizer.steps, counter]

    again = capture(update, changing, rewind=counter.zero_).replay if device.type == "cuda" else update
    for epoch in range(epochs):
        optimizer.lr.copy_(rates * ((1 + math.cos(math.pi * epoch / epochs)) / 2))
        order.copy_(torch.randperm(len(images), device=device)[: order.numel()].view_as(order))
        counter.zero_()
        for _ in range(len(order)):
            again()
    return observers.eval()


@torch.no_grad()
def scores(observers: Observers, split: dwmr.Transitions, device: torch.device) -> list[dict[str, float]]:
    parts = [observers(part.to(device)).argmax(-1) for part in torch.from_numpy(np.array(split.obs)).split(512)]
    now, then = (np.asarray(part).reshape(len(split), -1).astype(np.int64) for part in (split.state, split.next_state))
    read = torch.cat(parts, 1).cpu().numpy()
    return [board_scores(now, boards, int(split.n_classes or 0), now != then) for boards in read]


def ceiling(
    data: dwmr.Splits, encoder: str, bits: int, own: bool, epochs: int, seed: int, device: torch.device
) -> dict[str, Any]:
    assert data.val is not None
    assert data.test is not None
    started = time.perf_counter()
    observers = trained(data.train, encoder, bits, own, epochs, seed, device)
    validation = [found["f1_true_labels"] for found in scores(observers, data.val, device)]
    best = int(np.argmax(validation))
    return {
        "encoding": scores(observers, data.test, device)[best],
        "frames": len(data.test),
        "epochs": epochs,
        "rate": RATES[best],
        "validation_f1_true_labels": {str(rate): f1 for rate, f1 in zip(RATES, validation)},
        "seconds": time.perf_counter() - started,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("experiments/results/ceilings.json"),
        help="results file; what others put there stays",
    )
    parser.add_argument("--epochs", type=int, help="instead of those of the benchmark's models")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    chosen = parser.parse_args()
    for benchmark, encoder, bits in OBSERVERS:
        results = json.loads(chosen.out.read_text()) if chosen.out.exists() else {}
        name = f"supervised {encoder}, {bits} bits"
        if name in results.get(benchmark, {}):
            continue
        data = dwmr.load_splits(cached_benchmark(benchmark))
        faithful = dwmr.preset(f"{benchmark}/dwmr")
        epochs, own = chosen.epochs or faithful.epochs, faithful.probe == "grid"
        found = ceiling(data, encoder, bits, own, epochs, chosen.seed, resolve_device(chosen.device))
        results.setdefault(benchmark, {})[name] = found
        atomic_write_json(chosen.out, results)
        print(benchmark, name, json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
