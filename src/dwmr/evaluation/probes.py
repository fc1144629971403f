"""Linear probes: how much of the symbolic board can be read from the bits.

A probe is one affine layer, or for grid-aligned codes a 1×1 convolution, fitted on training codes alone: cross-entropy,
15 epochs of Adam at 0.01 with weight decay 0.001. On small data there are more epochs, so that there are at least
`MIN_UPDATES` updates (the paper's splits have more).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

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

    weight: Tensor
    bias: Tensor
    kind: str
    cells: int
    n_classes: int

    @torch.no_grad()
    def read(self, codes: Tensor, batch: int = 8192) -> np.ndarray:
        """The most likely labels, int64 (N, cells)."""
        labels = []
        for part in codes.split(batch):
            inputs = _inputs(part[None].to(self.weight.dtype), self.kind, self.cells)[0]
            logits = torch.addmm(self.bias, inputs, self.weight.T)
            labels.append(logits.view(len(part), self.cells, self.n_classes).argmax(-1))
        return torch.cat(labels).cpu().numpy()


def fit_probes(codes: Tensor, states: np.ndarray, n_classes: int, kind: str = "affine", seed: int = 0) -> list[Probe]:
    """Fit one probe per model to the codes bool (S, N, K) of S models, for the same N frames with states (N, …)."""
    labels = torch.from_numpy(states.reshape(len(states), -1).astype(np.int64)).to(codes.device)
    runs, count, bits = codes.shape
    cells = labels.shape[1]
    if kind == "grid" and bits % cells:
        raise InputError(f"a grid probe needs bits divisible by the {cells} cells, got {bits} bits")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng(seed, "probe").integers(2**63)))
        layer = nn.Linear(bits // cells, n_classes) if kind == "grid" else nn.Linear(bits, cells * n_classes)
    weight, bias = (torch.stack([value.detach()] * runs).to(codes.device) for value in (layer.weight, layer.bias))
    on_gpu = codes.device.type == "cuda"
    optimizer = torch.optim.Adam(
        [weight, bias], lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=True, capturable=on_gpu
    )
    values = codes.to(weight.dtype)

    def update(index: Tensor) -> None:
        inputs = _inputs(values[:, index], kind, cells)
        logits = torch.baddbmm(bias.unsqueeze(1), inputs, weight.mT).view(runs, len(index), cells, n_classes)
        # The gradient of each run's cross-entropy, a mean over samples and cells.
        wanted = labels[index].expand(runs, -1, -1).unsqueeze(-1)
        error = torch.softmax(logits, -1)
        error.scatter_add_(-1, wanted, error.new_full((), -1).expand_as(wanted))
        error = error.div_(len(index) * cells).view(runs, inputs.shape[1], -1)
        weight.grad, bias.grad = torch.bmm(error.mT, inputs), error.sum(1)
        optimizer.step()

    step = _captured(update, optimizer, codes.device) if on_gpu and count >= BATCH_SIZE else update
    epochs = max(EPOCHS, math.ceil(MIN_UPDATES / math.ceil(count / BATCH_SIZE)))
    for epoch in range(epochs):
        order = torch.from_numpy(shuffled(rng(seed, "probe order", epoch), count)).to(codes.device)
        for index in order.split(BATCH_SIZE):
            step(index)
    return [Probe(w, b, kind, cells, n_classes) for w, b in zip(weight.detach(), bias.detach())]


def _captured(
    update: Callable[[Tensor], None], optimizer: torch.optim.Optimizer, device: torch.device
) -> Callable[[Tensor], None]:
    """The update of whole minibatches as a CUDA graph: launching its small kernels one by one would take most time."""
    from dwmr.ops.capture import capture

    place = torch.zeros(BATCH_SIZE, dtype=torch.int64, device=device)

    def changing() -> list[Tensor]:
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        return [*parameters, *(kept for state in optimizer.state.values() for kept in state.values())]

    graph = capture(lambda: update(place), changing)

    def replay(index: Tensor) -> None:
        if len(index) == len(place):
            place.copy_(index)
            graph.replay()
        else:
            update(index)

    return replay


def _inputs(codes: Tensor, kind: str, cells: int) -> Tensor:
    """Codes (S, N, K) as the rows (S, rows, in) that one set of weights reads."""
    if kind == "grid":
        # One row per cell holds its channels; all cells share the weights.
        return codes.unflatten(-1, (-1, cells)).mT.flatten(1, 2)
    return codes
