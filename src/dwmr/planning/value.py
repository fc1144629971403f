"""A learned guess of how many actions lie between two codes, from imagined random walks.

States and goals are taken from the same walk, so every pair is known to be connected, in at most as many actions as
the walk took between them. The target is one action more than the guess for the best next state, by a slower copy of
the network, and never more than the walk's own count.
"""

from __future__ import annotations

import copy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dwmr.errors import InputError
from dwmr.planning.goals import CodeGoal
from dwmr.planning.packing import hamming, unpack
from dwmr.planning.parts import load_part, save_part
from dwmr.planning.problem import Dynamics
from dwmr.progress import bar
from dwmr.seeding import rng

FILE = "heuristic.safetensors"


class ValueNetwork(nn.Module):
    """Codes and goals (N, K), as numbers, to the actions left (N,)."""

    def __init__(self, bits: int, width: int = 512, blocks: int = 2) -> None:
        super().__init__()
        self.bits, self.width = bits, width
        self.first = nn.Linear(3 * bits, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
            for _ in range(blocks)
        )
        self.last = nn.Linear(width, 1)

    def forward(self, codes: Tensor, goals: Tensor) -> Tensor:
        hidden = torch.relu(self.first(torch.cat([codes, goals, (codes - goals).abs()], dim=-1)))
        for block in self.blocks:
            hidden = hidden + block(hidden)
        return nn.functional.softplus(self.last(hidden)).squeeze(-1)


@dataclass(frozen=True)
class ValueHeuristic:
    """The network's guess for one goal."""

    network: ValueNetwork
    goal: CodeGoal
    bits: int

    @torch.no_grad()
    def __call__(self, words: Tensor) -> Tensor:
        aim = unpack(self.goal.words, self.bits).float()
        parts = []
        for part in words.split(1 << 14):
            codes = unpack(part, self.bits).float()
            parts.append(self.network(codes, aim.expand_as(codes)))
        return torch.where(self.goal(words), 0.0, torch.cat(parts))


@dataclass(frozen=True)
class ValueTraining:
    """How long and on what a heuristic is trained."""

    updates: int = 4000
    batch: int = 1024
    walk: int = 64  # actions of an imagined walk
    width: int = 512
    lr: float = 1e-3
    renewed: int = 100  # updates between two copies to the slower network


def train_value(
    dynamics: Dynamics,
    starts: Tensor,
    bits: int,
    setting: ValueTraining = ValueTraining(),
    *,
    radius: int = 0,
    seed: int = 0,
    progress: bool | None = None,
) -> tuple[ValueNetwork, dict[str, Any]]:
    """A network for the states that imagined walks from the codes (N, W) visit, and the course of its loss."""
    device = starts.device
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng(seed, "value weights").integers(2**63)))
        network = ValueNetwork(bits, setting.width)
    network.to(device)
    slow = copy.deepcopy(network).requires_grad_(False)
    optimizer = torch.optim.Adam(network.parameters(), lr=setting.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, setting.updates)
    generator = torch.Generator(device).manual_seed(int(rng(seed, "value walks").integers(2**62)))
    losses = torch.zeros(setting.updates, device=device)
    walks = torch.empty(0)
    with bar("heuristic", setting.updates, show=progress) as shown:
        for update in range(setting.updates):
            if update % max(1, setting.walk // 2) == 0:
                first = torch.randint(len(starts), (setting.batch,), generator=generator, device=device)
                walks = imagined_walks(dynamics, starts[first], setting.walk, generator)
            states, goals, steps = _pairs(walks, setting.batch, generator)
            targets = _targets(dynamics, slow, states, goals, steps, bits, radius)
            loss = nn.functional.smooth_l1_loss(
                network(unpack(states, bits).float(), unpack(goals, bits).float()), targets
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses[update] = loss.detach()
            if (update + 1) % setting.renewed == 0:
                slow.load_state_dict(network.state_dict())
                shown.describe(f"loss {float(losses[update]):.3f}")
            shown.advance()
    tenth = max(1, setting.updates // 10)
    course = [float(part.mean()) for part in losses.split(tenth)]
    return network.eval().requires_grad_(False), {**asdict(setting), "loss": course, "seed": seed, "radius": radius}


@torch.no_grad()
def imagined_walks(dynamics: Dynamics, words: Tensor, steps: int, generator: torch.Generator) -> Tensor:
    """From codes (N, W), random possible actions: codes (steps + 1, N, W). Where nothing is possible it stays."""
    path = [words]
    for _ in range(steps):
        children, possible = dynamics.successors(words)
        weights = torch.ones(children.shape[:2], device=words.device) if possible is None else possible.float()
        stuck = weights.sum(1) == 0
        action = torch.multinomial(weights + stuck[:, None], 1, generator=generator).squeeze(1)
        after = children[torch.arange(len(words), device=words.device), action]
        words = torch.where(stuck[:, None], words, after)
        path.append(words)
    return torch.stack(path)


def save_value(folder: Path, network: ValueNetwork, info: dict[str, Any]) -> Path:
    sizes = {"bits": network.bits, "width": network.width, "blocks": len(network.blocks)}
    save_part(folder / FILE, network.state_dict(), {**info, **sizes})
    return folder / FILE


def load_value(folder: Path, device: torch.device) -> ValueNetwork | None:
    """The heuristic of a run folder; None if none was trained."""
    found = load_part(folder / FILE)
    if found is None:
        return None
    tensors, info = found
    try:
        network = ValueNetwork(info["bits"], info["width"], info["blocks"])
        network.load_state_dict(tensors)
    except (KeyError, RuntimeError, TypeError) as error:
        raise InputError(f"{folder / FILE} does not hold a heuristic: {' '.join(str(error).split())}") from error
    return network.to(device).eval().requires_grad_(False)


def _pairs(walks: Tensor, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """States and later goals of the same walks, and how many actions the walk took from one to the other."""
    length, walkers = walks.shape[0] - 1, walks.shape[1]
    device = walks.device
    who = torch.randint(walkers, (count,), generator=generator, device=device)
    one = torch.randint(length + 1, (count,), generator=generator, device=device)
    other = torch.randint(length + 1, (count,), generator=generator, device=device)
    early, late = torch.minimum(one, other), torch.maximum(one, other)
    return walks[early, who], walks[late, who], late - early


@torch.no_grad()
def _targets(
    dynamics: Dynamics, slow: ValueNetwork, states: Tensor, goals: Tensor, steps: Tensor, bits: int, radius: int
) -> Tensor:
    children, possible = dynamics.successors(states)
    aims = goals.unsqueeze(1).expand_as(children)
    guesses = slow(unpack(children, bits).float(), unpack(aims, bits).float())
    guesses = torch.where(hamming(children, aims) <= radius, 0.0, guesses)
    if possible is not None:
        guesses = guesses.masked_fill(~possible, torch.inf)
    after = torch.minimum(1 + guesses.min(1).values, steps.float())
    return torch.where(hamming(states, goals) <= radius, 0.0, after)
