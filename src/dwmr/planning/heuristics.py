"""Heuristics: estimates of how many actions are left to a goal code, and training one on imagined random walks.

Start and goal come from the same walk, so the goal can be reached, in at most the number of actions that the walk
took. The target is one more than the estimate for the best next code, by a slowly updated copy of the network, and
at most the walk's own count.
"""

from __future__ import annotations

import copy
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from dwmr.planning.packing import hamming, unpack
from dwmr.planning.problem import CodeGoal, Dynamics
from dwmr.progress import bar
from dwmr.seeding import rng

if TYPE_CHECKING:
    from dwmr.planning.agent import Agent

BLOCKS = 2


@dataclass(frozen=True)
class HammingHeuristic:
    """The number of wrong bits, divided by the most bits that one action flips; so it never overestimates."""

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
        codes = unpack(words, self.network.bits).float()
        wanted = unpack(self.goal.words, self.network.bits).float().expand_as(codes)
        return torch.where(self.goal(words), 0.0, self.network(codes, wanted))


@dataclass(frozen=True)
class HeuristicTraining:
    """How a heuristic is trained."""

    updates: int = 4000
    batch: int = 1024
    walk: int = 64  # actions of an imagined walk
    width: int = 512
    lr: float = 1e-3
    copy_every: int = 100  # updates between two copies of the weights to the target network


def train_heuristic(
    agent: Agent, starts: Tensor, setting: HeuristicTraining = HeuristicTraining(), *, seed: int = 0
) -> tuple[HeuristicNetwork, dict[str, Any]]:
    """A network for the codes on imagined walks from the codes (N, W), and its settings and losses by tenths."""
    device = starts.device
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng(seed, "value weights").integers(2**63)))
        network = HeuristicNetwork(agent.bits, setting.width)
    network.to(device)
    target = copy.deepcopy(network).requires_grad_(False)
    optimizer = torch.optim.Adam(network.parameters(), lr=setting.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, setting.updates)
    generator = torch.Generator(device).manual_seed(int(rng(seed, "value walks").integers(2**62)))
    losses = torch.zeros(setting.updates, device=device)
    walks = torch.empty(0)
    with bar("heuristic", setting.updates) as shown:
        for update in range(setting.updates):
            if update % max(1, setting.walk // 2) == 0:
                first = torch.randint(len(starts), (setting.batch,), generator=generator, device=device)
                walks = imagined_walks(agent.dynamics, starts[first], setting.walk, generator)
            states, goals, steps = _pairs(walks, setting.batch, generator)
            estimates = network(unpack(states, agent.bits).float(), unpack(goals, agent.bits).float())
            loss = nn.functional.smooth_l1_loss(estimates, _targets(agent, target, states, goals, steps))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses[update] = loss.detach()
            if (update + 1) % setting.copy_every == 0:
                target.load_state_dict(network.state_dict())
                shown.describe(f"loss {float(losses[update]):.3f}")
            shown.advance()
    tenths = losses.split(max(1, setting.updates // 10))
    about = {**asdict(setting), "loss": [float(part.mean()) for part in tenths], "seed": seed, "radius": agent.radius}
    return network.eval().requires_grad_(False), about


@torch.no_grad()
def imagined_walks(dynamics: Dynamics, words: Tensor, steps: int, generator: torch.Generator) -> Tensor:
    """From codes (N, W), random possible actions: codes (steps + 1, N, W). Where nothing is possible it stays."""
    path = [words]
    for _ in range(steps):
        children, possible = dynamics.successors(words)
        weights = torch.ones(children.shape[:2], device=words.device) if possible is None else possible.float()
        stuck = weights.sum(1, keepdim=True) == 0
        action = torch.multinomial(weights + stuck, 1, generator=generator)
        words = torch.where(stuck, words, children.take_along_dim(action.unsqueeze(2), 1).squeeze(1))
        path.append(words)
    return torch.stack(path)


def _pairs(walks: Tensor, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Codes and later codes of the same walks, and the number of actions between them."""
    length, walkers, _ = walks.shape
    who = torch.randint(walkers, (count,), generator=generator, device=walks.device)
    early, late = torch.randint(length, (2, count), generator=generator, device=walks.device).sort(0).values
    return walks[early, who], walks[late, who], late - early


@torch.no_grad()
def _targets(agent: Agent, target: HeuristicNetwork, states: Tensor, goals: Tensor, steps: Tensor) -> Tensor:
    """One more than the best estimate after an action, at most ``steps``; 0 at the goal."""
    children, possible = agent.dynamics.successors(states)
    wanted = goals.unsqueeze(1).expand_as(children)
    estimates = target(unpack(children, agent.bits).float(), unpack(wanted, agent.bits).float())
    estimates = torch.where(hamming(children, wanted) <= agent.radius, 0.0, estimates)
    if possible is not None:
        estimates = estimates.masked_fill(~possible, torch.inf)
    after = torch.minimum(1 + estimates.min(1).values, steps.float())
    return torch.where(hamming(states, goals) <= agent.radius, 0.0, after)
