"""Heuristics: estimates of how many actions are left to a goal code."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from dwmr.planning.packing import hamming, unpack
from dwmr.planning.problem import CodeGoal

CODES_AT_ONCE = 1 << 14
BLOCKS = 2


@dataclass(frozen=True)
class HammingHeuristic:
    """The number of wrong bits, divided by the most bits that one action flips.

    It never overestimates, as long as no action flips more bits than that.
    """

    goal: CodeGoal
    flips: int

    def __call__(self, words: Tensor) -> Tensor:
        wrong = (hamming(words, self.goal.words) - self.goal.radius).clamp_(min=0)
        return (wrong + self.flips - 1) // self.flips


def most_flips(flips: np.ndarray, share: float = 0.999) -> int:
    """The most bits that one action flips, from the flips (N,) of many actions. The rarest count as mistakes."""
    return max(1, math.ceil(float(np.quantile(flips, share)))) if len(flips) else 1


class HeuristicNetwork(nn.Module):
    """Float codes and goals (N, K) to the estimated number of actions between them (N,)."""

    def __init__(self, bits: int, width: int) -> None:
        super().__init__()
        self.bits = bits
        self.first = nn.Linear(3 * bits, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
            for _ in range(BLOCKS)
        )
        self.last = nn.Linear(width, 1)

    def forward(self, codes: Tensor, goals: Tensor) -> Tensor:
        hidden = torch.relu(self.first(torch.cat([codes, goals, (codes - goals).abs()], dim=-1)))
        for block in self.blocks:
            hidden = hidden + block(hidden)
        return nn.functional.softplus(self.last(hidden)).squeeze(-1)


@dataclass(frozen=True)
class LearnedHeuristic:
    """The network's estimate for one goal."""

    network: HeuristicNetwork
    goal: CodeGoal

    @torch.no_grad()
    def __call__(self, words: Tensor) -> Tensor:
        bits = self.network.bits
        wanted = unpack(self.goal.words, bits).float()
        parts = []
        for part in words.split(CODES_AT_ONCE):
            codes = unpack(part, bits).float()
            parts.append(self.network(codes, wanted.expand_as(codes)))
        return torch.where(self.goal(words), 0.0, torch.cat(parts))
