"""Linear probes: how much of the symbolic board can be read from the bits.

Fitted on training encodings only: one affine layer, or for grid-aligned codes a 1×1 convolution; cross-entropy,
15 epochs of Adam at 0.01 with weight decay 0.001. On data so small that this would be fewer than `MIN_UPDATES` updates
(the paper's splits have more), epochs are added until it is not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dwmr.errors import InputError
from dwmr.seeding import rng, shuffled

EPOCHS = 15
LEARNING_RATE = 0.01
WEIGHT_DECAY = 0.001
BATCH_SIZE = 256
MIN_UPDATES = 1500


@dataclass(frozen=True)
class Probe:
    """A fitted probe: bits (N, K) to labels (N, cells)."""

    layer: nn.Linear
    kind: str
    cells: int
    n_classes: int

    def logits(self, codes: Tensor) -> Tensor:
        """codes (N, K) to class logits (N, cells, n_classes)."""
        values = codes.to(self.layer.weight)
        if self.kind == "grid":
            # (N, channels, cells): each cell is read from its own channels, by weights that all cells share.
            return self.layer(values.unflatten(-1, (-1, self.cells)).mT)
        return self.layer(values).unflatten(-1, (self.cells, self.n_classes))

    @torch.no_grad()
    def read(self, codes: Tensor, batch: int = 8192) -> np.ndarray:
        """The most likely labels, int64 (N, cells)."""
        return torch.cat([self.logits(part).argmax(-1) for part in codes.split(batch)]).cpu().numpy()


def fit_probe(codes: Tensor, states: np.ndarray, n_classes: int, kind: str = "affine", seed: int = 0) -> Probe:
    """A probe for codes bool (N, K) of frames with the states (N, …), fitted on the codes' device."""
    labels = torch.from_numpy(states.reshape(len(states), -1).astype(np.int64)).to(codes.device)
    cells, bits = labels.shape[1], codes.shape[1]
    if kind == "grid" and bits % cells:
        raise InputError(f"a grid probe needs bits divisible by the {cells} cells, got {bits} bits")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng(seed, "probe").integers(2**63)))
        layer = nn.Linear(bits // cells, n_classes) if kind == "grid" else nn.Linear(bits, cells * n_classes)
    probe = Probe(layer.to(codes.device), kind, cells, n_classes)
    optimizer = torch.optim.Adam(layer.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=True)
    values = codes.to(torch.float32)
    epochs = max(EPOCHS, math.ceil(MIN_UPDATES / math.ceil(len(codes) / BATCH_SIZE)))
    for epoch in range(epochs):
        order = torch.from_numpy(shuffled(rng(seed, "probe order", epoch), len(codes))).to(codes.device)
        for index in order.split(BATCH_SIZE):
            loss = F.cross_entropy(probe.logits(values[index]).flatten(0, 1), labels[index].flatten())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
    layer.requires_grad_(False)
    return probe
