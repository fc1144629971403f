"""Which actions are possible in a code, learned from the actions that were taken.

The data shows what was done, never what could not be done. So a small network learns how likely each action is in a
code, and an action counts as possible where it is likely enough. How much is enough is chosen on validation data, as if
actions had been drawn evenly from the possible ones: each action ruled out makes the observed ones likelier, and each
observed action that is ruled out costs `MISS` nats. Where every action is always taken, all of them stay possible.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from dwmr.seeding import rng, shuffled

MISS = 20.0
HIDDEN = 128
BATCH = 256
MIN_UPDATES, EPOCHS = 1000, 8
PATIENCE = 120  # updates without a better score on the validation data
THRESHOLDS = np.geomspace(1e-4, 0.5, 96)
PLATEAU = 1e-3  # nats: thresholds this near to the best count as equally good


@dataclass(frozen=True)
class Applicability:
    """Possible where the network gives an action at least the threshold; with threshold 0 everything is possible."""

    network: nn.Module
    threshold: float

    @property
    def everything(self) -> bool:
        return self.threshold == 0

    @torch.no_grad()
    def likelihood(self, codes: Tensor) -> Tensor:
        """bool (N, K) to the shares (N, A) of the actions taken there."""
        parts = [self.network(part.float()).softmax(-1) for part in codes.split(1 << 14)]
        return torch.cat(parts)

    def __call__(self, codes: Tensor) -> Tensor:
        """bool (N, K) to bool (N, A)."""
        return self.likelihood(codes) >= self.threshold


def fit_applicability(
    codes: Tensor, actions: Tensor, val_codes: Tensor, val_actions: Tensor, n_actions: int, seed: int = 0
) -> Applicability:
    """Learned from codes bool (N, K) and the actions (N,) taken there; when to stop, and the threshold, are chosen on
    others."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng(seed, "applicability").integers(2**63)))
        network = nn.Sequential(nn.Linear(codes.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, n_actions))
    network.to(codes.device)
    updates = -(-len(codes) // BATCH)
    epochs = max(EPOCHS, math.ceil(MIN_UPDATES / updates))
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3, weight_decay=1e-5)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * updates)
    patience = math.ceil(PATIENCE / updates)
    best, lowest, since = network.state_dict(), math.inf, 0
    for epoch in range(epochs):
        order = torch.from_numpy(shuffled(rng(seed, "applicability order", epoch), len(codes))).to(codes.device)
        for index in order.split(BATCH):
            loss = nn.functional.cross_entropy(network(codes[index].float()), actions[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        with torch.no_grad():
            loss = nn.functional.cross_entropy(network(val_codes.float()), val_actions)
        if float(loss) < lowest:
            best, lowest, since = copy.deepcopy(network.state_dict()), float(loss), 0
        elif (since := since + 1) > patience:
            break
    network.load_state_dict(best)
    network.eval().requires_grad_(False)
    learned = Applicability(network, 0.0)
    likelihood = learned.likelihood(val_codes).double().cpu().numpy()
    return Applicability(network, choose_threshold(likelihood, val_actions.cpu().numpy()))


def choose_threshold(likelihood: np.ndarray, actions: np.ndarray) -> float:
    """From how likely each action is in each of N codes, (N, A), and which was taken, (N,): the likelihood from which
    on an action counts as possible, or 0 where nothing is gained by ruling any out.

    Of the thresholds that are equally good the middle one, by its logarithm, is taken."""

    def score(threshold: float) -> float:
        possible = likelihood >= threshold
        taken = possible[np.arange(len(actions)), actions]
        evenly = -np.log(np.maximum(possible.sum(1), 1))
        return float(np.where(taken, evenly, -MISS).mean())

    nothing = -math.log(likelihood.shape[1])
    scores = np.array([score(threshold) for threshold in THRESHOLDS])
    if scores.max() <= nothing + PLATEAU:
        return 0.0
    best = np.flatnonzero(scores >= scores.max() - PLATEAU)
    return float(np.sqrt(THRESHOLDS[best[0]] * THRESHOLDS[best[-1]]))
