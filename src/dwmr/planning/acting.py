"""Acting on plans: do what was planned, look, and plan anew where the world does not do as predicted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from dwmr.planning.agent import Agent
from dwmr.planning.dynamics import CorrectedDynamics
from dwmr.planning.packing import hamming
from dwmr.planning.problem import EXHAUSTED, OUT_OF_BUDGET, Budget, Dynamics, Goal, Heuristic, Plan
from dwmr.planning.search import Planner
from dwmr.seeding import below

DONE, NO_PLAN, NO_ACTIONS, NO_TIME = "done", "no plan", "out of actions", "out of time"
VISITS = 3  # to enter a state more often without having learned anything means going in circles
SURPRISES = 20  # actions tried where the model knows no way on


class World(Protocol):
    def look(self) -> np.ndarray:
        """What is seen now, uint8 (C, H, W)."""

    def act(self, action: int) -> None: ...


@dataclass
class Episode:
    """What came of acting.

    said         `DONE`: the agent takes the goal for reached; `NO_PLAN`: it knows no way on; `NO_ACTIONS`, `NO_TIME`
    actions      what was done
    plans        every answer of the planner, in order
    replans      plans made because the world was not as predicted
    surprises    random actions, those not tried yet first, where no plan was known or the agent went in circles
    expected     T + 1 codes (1, W): as encoded at first, then as predicted before each action
    frames       what was seen, (T + 1) images
    """

    said: str = NO_ACTIONS
    actions: list[int] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)
    replans: int = 0
    surprises: int = 0
    expected: list[Tensor] = field(default_factory=list)
    frames: list[np.ndarray] = field(default_factory=list)


def act(
    world: World,
    agent: Agent,
    goal: Goal,
    planner: Planner,
    heuristic: Heuristic,
    budget: Budget,
    *,
    max_actions: int = 100,
    max_seconds: float = math.inf,
    generator: np.random.Generator,
) -> Episode:
    """Plan and act until the agent takes the goal for reached, knows no way on, has done ``max_actions``, or has
    searched for ``max_seconds``.

    What is seen counts as what was predicted if the codes differ in at most `Agent.radius` bits, and then the agent
    goes on from the predicted code. Otherwise it remembers what the action led to, and plans anew from what it sees.
    """
    dynamics = CorrectedDynamics(agent.dynamics)
    episode = Episode()
    episode.frames.append(world.look())
    here = agent.encode(episode.frames[0][None])
    episode.expected.append(here)
    visits: Counter[tuple[int, ...]] = Counter([_key(here)])
    ahead: list[tuple[int, Tensor]] = []
    tried: set[tuple[tuple[int, ...], int]] = set()
    lost = SURPRISES
    while True:
        if bool(goal(here)[0]):
            episode.said = DONE
            return episode
        if len(episode.actions) >= max_actions:
            return episode
        if not ahead:
            left = max_seconds - sum(plan.seconds for plan in episode.plans)
            if left <= 0:
                episode.said = NO_TIME
                return episode
            plan = planner(dynamics, here, goal, heuristic, replace(budget, seconds=min(left, budget.seconds)))
            episode.plans.append(plan)
            ahead = [(action, plan.codes[place + 1 : place + 2]) for place, action in enumerate(plan.actions)]
        circling = visits[_key(here)] > VISITS
        if circling or not ahead:
            if not ahead and lost == 0:
                episode.said = NO_PLAN
                return episode
            lost -= not ahead
            episode.surprises += 1
            ahead = [_random_step(dynamics, here, generator, tried)]
        action, expected = ahead.pop(0)
        tried.add((_key(here), action))
        world.act(action)
        episode.actions.append(action)
        episode.frames.append(world.look())
        episode.expected.append(expected)
        seen = agent.encode(episode.frames[-1][None])
        if int(hamming(seen, expected)[0]) <= agent.radius:
            here = expected
        else:
            dynamics.correct(here, action, seen)
            here, ahead = seen, []
            episode.replans += 1
            visits.clear()
        visits[_key(here)] += 1


def greedy_step(dynamics: Dynamics, start: Tensor, goal: Goal, heuristic: Heuristic, budget: Budget = Budget()) -> Plan:
    """No search: the one action after which the goal looks nearest."""
    children, possible = dynamics.successors(start)
    guesses = heuristic(children[0]).float()
    if possible is not None:
        guesses = guesses.masked_fill(~possible[0], torch.inf)
    return _one_step(start, children, int(guesses.argmin()), possible)


def random_step(generator: np.random.Generator) -> Callable[..., Plan]:
    """No plan at all: any possible action."""

    def step(dynamics: Dynamics, start: Tensor, goal: Goal, heuristic: Heuristic, budget: Budget = Budget()) -> Plan:
        children, possible = dynamics.successors(start)
        action, _ = _random_step(dynamics, start, generator)
        return _one_step(start, children, action, possible)

    return step


def _one_step(start: Tensor, children: Tensor, action: int, possible: Tensor | None) -> Plan:
    generated = children.shape[1] if possible is None else int(possible.sum())
    if not generated:
        return Plan(EXHAUSTED, [], start, expanded=1)
    codes = torch.cat([start, children[0, action : action + 1]])
    return Plan(OUT_OF_BUDGET, [action], codes, reason="one step", expanded=1, generated=generated)


def _random_step(
    dynamics: Dynamics,
    words: Tensor,
    generator: np.random.Generator,
    tried: Collection[tuple[tuple[int, ...], int]] = (),
) -> tuple[int, Tensor]:
    """A possible action, if there is one, not tried here yet, if there is one; and where it is predicted to lead."""
    children, possible = dynamics.successors(words)
    choices = np.arange(dynamics.n_actions)
    if possible is not None and bool(possible.any()):
        choices = np.flatnonzero(possible[0].cpu().numpy())
    untried = [choice for choice in choices.tolist() if (_key(words), choice) not in tried]
    choices = np.array(untried) if untried else choices
    action = int(choices[below(generator, len(choices), 1)[0]])
    return action, children[0, action : action + 1]


def _key(words: Tensor) -> tuple[int, ...]:
    return tuple(words[0].tolist())
