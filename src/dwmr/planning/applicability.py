"""Which actions are possible in a code, learned from the actions that were taken.

Data shows what was done, not what could have been done. A small network learns how likely each action is in a code,
and an action counts as possible where its likelihood reaches a threshold. The threshold is chosen on validation data as
if actions had been drawn uniformly from the possible ones: ruling out an action makes the observed ones more likely,
and ruling out an observed one costs `MISS_COST` nats. Where every action is always taken, all of them stay possible.
"""

import copy
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dwmr.seeding import rng, shuffled

MISS_COST = 20.0
HIDDEN = 128
BATCH = 256
MIN_UPDATES, MIN_EPOCHS = 1000, 8
PATIENCE = 120  # updates without a better validation loss
THRESHOLDS = np.geomspace(1e-4, 0.5, 96)
TIE = 1e-3  # nats: thresholds this close to the best one count as equally good
CODES_AT_ONCE = 1 << 14


def likelihood_network(bits: int, n_actions: int) -> nn.Sequential:
    """Float codes (N, K) to the logits (N, A) of the actions taken there."""
    return nn.Sequential(nn.Linear(bits, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, n_actions))


@dataclass(frozen=True)
class Applicability:
    """An action is possible where the network gives it at least the threshold. With threshold 0 all are."""

    network: nn.Sequential
    threshold: float

    @property
    def everything(self) -> bool:
        return self.threshold == 0

    @torch.no_grad()
    def likelihood(self, codes: Tensor) -> Tensor:
        """bool (N, K) to the likelihood (N, A) of the actions taken there."""
        return torch.cat([self.network(part.float()).softmax(-1) for part in codes.split(CODES_AT_ONCE)])

    def __call__(self, codes: Tensor) -> Tensor:
        """bool (N, K) to bool (N, A)."""
        return self.likelihood(codes) >= self.threshold

    def figures(self, codes: Tensor, actions: Tensor) -> dict[str, Any]:
        """The mean number of possible actions, and the percentage of the actions taken (N,) that were ruled out."""
        possible = self(codes)
        taken = possible.gather(1, actions[:, None])
        return {
            "everything": self.everything,
            "threshold": self.threshold,
            "mean": float(possible.sum(1).float().mean()),
            "observed_ruled_out": 100 * float((~taken).float().mean()),
        }


def fit_applicability(
    codes: Tensor, actions: Tensor, val_codes: Tensor, val_actions: Tensor, n_actions: int, seed: int = 0
) -> Applicability:
    """Learn from codes bool (N, K) and actions (N,); validation data decides when to stop, and the threshold."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng(seed, "applicability").integers(2**63)))
        network = likelihood_network(codes.shape[1], n_actions)
    network.to(codes.device)
    updates = math.ceil(len(codes) / BATCH)
    epochs = max(MIN_EPOCHS, math.ceil(MIN_UPDATES / updates))
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3, weight_decay=1e-5)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * updates)
    patience = math.ceil(PATIENCE / updates)
    best, lowest, waited = network.state_dict(), math.inf, 0
    for epoch in range(epochs):
        order = torch.from_numpy(shuffled(rng(seed, "applicability order", epoch), len(codes))).to(codes.device)
        for index in order.split(BATCH):
            loss = nn.functional.cross_entropy(network(codes[index].float()), actions[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        with torch.no_grad():
            val_loss = float(nn.functional.cross_entropy(network(val_codes.float()), val_actions))
        if val_loss < lowest:
            best, lowest, waited = copy.deepcopy(network.state_dict()), val_loss, 0
        elif (waited := waited + 1) > patience:
            break
    network.load_state_dict(best)
    network.eval().requires_grad_(False)
    likelihood = Applicability(network, 0.0).likelihood(val_codes).double().cpu().numpy()
    return Applicability(network, choose_threshold(likelihood, val_actions.cpu().numpy()))


def choose_threshold(likelihood: np.ndarray, actions: np.ndarray) -> float:
    """The likelihood from which an action counts as possible; 0 if nothing is gained by ruling any out.

    ``likelihood`` (N, A) is that of each action in each code, ``actions`` (N,) those taken there. Of equally good
    thresholds the middle one on a logarithmic scale is chosen.
    """

    def score(threshold: float) -> float:
        possible = likelihood >= threshold
        taken = possible[np.arange(len(actions)), actions]
        uniform = -np.log(np.maximum(possible.sum(1), 1))
        return float(np.where(taken, uniform, -MISS_COST).mean())

    scores = np.array([score(threshold) for threshold in THRESHOLDS])
    if scores.max() <= TIE - math.log(likelihood.shape[1]):
        return 0.0
    best = np.flatnonzero(scores >= scores.max() - TIE)
    return float(np.sqrt(THRESHOLDS[best[0]] * THRESHOLDS[best[-1]]))
