"""What an encoder reads when it is trained with labels: the ceiling of the same network without them.

    python experiments/supervised_ceilings.py --out experiments/results/ceilings.json

The encoder, its bits straight-through, and a linear reading of each cell are trained together by cross-entropy on all
frames of the training split, for as many epochs as the benchmark's models have, at a few learning rates. The rate that
reads the validation split best is judged once on the test split. The file is that of `ceilings.py`; an observer is
called "supervised ENCODER, K bits".
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
from dwmr.nets.bits import straight_through
from dwmr.nets.encoders import ENCODERS
from dwmr.world_model import image_statistics, resolve_device

OBSERVERS = [
    ("8puzzle", "conv", 64),
    ("8puzzle", "tiles", 63),
    ("8puzzle-noisy", "conv", 64),
    ("8puzzle-noisy", "tiles", 63),
]
RATES = (2e-3, 1e-3, 5e-4)


class Observer(nn.Module):
    """Images as bytes to logits (N, cells, classes)."""

    def __init__(self, images: np.ndarray, encoder: str, bits: int, cells: int, classes: int) -> None:
        super().__init__()
        self.encoder = ENCODERS[encoder](images.shape[1:], bits)
        self.reading = nn.Linear(bits, cells * classes)
        self.cells = cells
        mean, std = image_statistics(images)
        self.register_buffer("mean", mean[:, None, None])
        self.register_buffer("std", std[:, None, None])

    def forward(self, images: Tensor) -> Tensor:
        logits = self.encoder((images.float() / 255 - self.mean) / self.std)
        return self.reading(straight_through(torch.sigmoid(logits))).unflatten(-1, (self.cells, -1))


def trained(
    train: dwmr.Transitions, encoder: str, bits: int, epochs: int, rate: float, seed: int, device: torch.device
) -> Observer:
    """An observer that has seen every frame of the transitions, now and next, with its state."""
    torch.manual_seed(seed)
    images = torch.from_numpy(np.concatenate([train.obs, train.next_obs])).to(device)
    labels = torch.from_numpy(np.concatenate([train.state, train.next_state])).to(device).flatten(1).long()
    observer = Observer(np.asarray(train.obs), encoder, bits, labels.shape[1], int(train.n_classes or 0)).to(device)
    optimizer = torch.optim.Adam(observer.parameters(), lr=torch.tensor(rate, device=device), fused=True)
    for epoch in range(epochs):
        optimizer.param_groups[0]["lr"].fill_(rate * (1 + math.cos(math.pi * epoch / epochs)) / 2)
        for index in torch.randperm(len(images), device=device)[: len(images) // 256 * 256].view(-1, 256):
            loss = F.cross_entropy(observer(images[index]).flatten(0, 1), labels[index].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return observer.eval()


@torch.no_grad()
def scores(observer: Observer, split: dwmr.Transitions, device: torch.device) -> dict[str, float]:
    parts = [observer(part.to(device)).argmax(-1) for part in torch.from_numpy(np.array(split.obs)).split(512)]
    now, then = (np.asarray(part).reshape(len(split), -1).astype(np.int64) for part in (split.state, split.next_state))
    return board_scores(now, torch.cat(parts).cpu().numpy(), int(split.n_classes or 0), now != then)


def ceiling(data: dwmr.Splits, encoder: str, bits: int, epochs: int, seed: int, device: torch.device) -> dict[str, Any]:
    assert data.val is not None
    assert data.test is not None
    started = time.perf_counter()
    observers = {rate: trained(data.train, encoder, bits, epochs, rate, seed, device) for rate in RATES}
    validation = {rate: scores(observer, data.val, device)["f1"] for rate, observer in observers.items()}
    best = max(validation, key=lambda rate: validation[rate])
    return {
        "encoding": scores(observers[best], data.test, device),
        "frames": len(data.test),
        "epochs": epochs,
        "rate": best,
        "validation_f1": {str(rate): f1 for rate, f1 in validation.items()},
        "seconds": time.perf_counter() - started,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="results file; what others put there stays")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    chosen = parser.parse_args()
    for benchmark, encoder, bits in OBSERVERS:
        results = json.loads(chosen.out.read_text()) if chosen.out.exists() else {}
        name = f"supervised {encoder}, {bits} bits"
        if name in results.get(benchmark, {}):
            continue
        data = dwmr.load_splits(cached_benchmark(benchmark))
        found = ceiling(data, encoder, bits, chosen.epochs, chosen.seed, resolve_device(chosen.device))
        results.setdefault(benchmark, {})[name] = found
        atomic_write_json(chosen.out, results)
        print(benchmark, name, json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
