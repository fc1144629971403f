"""Acting on plans: follow a plan, observe, and plan again where the world does not do what was predicted."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
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
MAX_VISITS = 3  # more visits to a code without having learned anything mean going in circles
MAX_GUESSES = 20  # actions tried where no plan is known

Key = tuple[int, ...]


class Environment(Protocol):
    def observe(self) -> np.ndarray:
        """The current image, uint8 (C, H, W)."""

    def act(self, action: int) -> None: ...


@dataclass(frozen=True)
class Limits:
    """When acting ends at the latest."""

    seconds: float = 10.0  # of one search
    task_seconds: float = 30.0  # of all searches together
    actions: int = 100


@dataclass
class Episode:
    """What was done in T actions, and why it ended.

    `DONE`: the agent believes that it reached the goal. `NO_PLAN`: it knows no way to the goal. `NO_ACTIONS`,
    `NO_TIME`: a limit was reached.
    """

    expected: list[Tensor]  # T + 1 codes (1, W): the encoded start, then what was predicted for each action
    frames: list[np.ndarray]  # T + 1 images
    ending: str = DONE
    actions: list[int] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)  # every answer of the planner, in order
    replans: int = 0  # plans made because the world was not as predicted
    random_actions: int = 0  # untried ones first, where no plan was known or the agent went in circles

    @property
    def seconds(self) -> float:
        """Of all searches."""
        return sum(plan.seconds for plan in self.plans)


def act(
    world: Environment,
    agent: Agent,
    goal: Goal,
    planner: Planner,
    heuristic: Heuristic,
    limits: Limits = Limits(),
    *,
    generator: np.random.Generator,
) -> Episode:
    """Plan and act until the agent believes that it reached the goal, knows no way to it, or reaches a limit.

    An observation confirms a prediction if their codes differ in at most `Agent.radius` bits. The agent then goes on
    from the predicted code. Otherwise it remembers where the action led, and plans again from what it observes.
    """
    dynamics, frame = CorrectedDynamics(agent.dynamics), world.observe()
    here = agent.encode(frame[None])
    episode = Episode([here], [frame])
    visits, guesses_left = Counter([_key(here)]), MAX_GUESSES
    ahead: list[tuple[int, Tensor]] = []
    tried: set[tuple[Key, int]] = set()
    while not goal(here)[0]:
        if len(episode.actions) >= limits.actions:
            episode.ending = NO_ACTIONS
            return episode
        if not ahead:
            left = limits.task_seconds - episode.seconds
            if left <= 0:
                episode.ending = NO_TIME
                return episode
            plan = planner(dynamics, here, goal, heuristic, Budget(seconds=min(left, limits.seconds)))
            episode.plans.append(plan)
            ahead = [(action, plan.codes[step + 1 : step + 2]) for step, action in enumerate(plan.actions)]
        if not ahead and guesses_left == 0:
            episode.ending = NO_PLAN
            return episode
        if not ahead or visits[_key(here)] > MAX_VISITS:  # no plan, or going in circles
            guesses_left -= not ahead
            episode.random_actions += 1
            ahead = [_random_step(dynamics, here, generator, tried)]
        action, expected = ahead.pop(0)
        tried.add((_key(here), action))
        world.act(action)
        episode.actions.append(action)
        episode.frames.append(world.observe())
        episode.expected.append(expected)
        observed = agent.encode(episode.frames[-1][None])
        if int(hamming(observed, expected)[0]) <= agent.radius:
            here = expected
        else:
            dynamics.correct(here, action, observed)
            here, ahead = observed, []
            episode.replans += 1
            visits.clear()
        visits[_key(here)] += 1
    return episode


def one_step(generator: np.random.Generator | None = None) -> Planner:
    """No search: one possible action, a random one, or without a generator the one that seems to lead nearest."""

    def step(dynamics: Dynamics, start: Tensor, goal: Goal, heuristic: Heuristic, budget: Budget) -> Plan:
        children, possible = dynamics.successors(start)
        allowed = torch.ones_like(children[0, :, 0], dtype=torch.bool) if possible is None else possible[0]
        if not allowed.any():
            return Plan(EXHAUSTED, [], start, expanded=1)
        if generator is None:
            action = int(heuristic(children[0]).float().masked_fill(~allowed, torch.inf).argmin())
        else:
            action, _ = _random_step(dynamics, start, generator)
        codes = torch.cat([start, children[0, action : action + 1]])
        return Plan(OUT_OF_BUDGET, [action], codes, reason="one step", expanded=1, generated=int(allowed.sum()))

    return step


def _random_step(
    dynamics: Dynamics, words: Tensor, generator: np.random.Generator, tried: Collection[tuple[Key, int]] = ()
) -> tuple[int, Tensor]:
    """An action and the code it is predicted to lead to: a possible one if any is, an untried one if any is left."""
    children, possible = dynamics.successors(words)
    choices = list(range(dynamics.n_actions))
    if possible is not None and possible.any():
        choices = torch.nonzero(possible[0]).flatten().tolist()
    choices = [choice for choice in choices if (_key(words), choice) not in tried] or choices
    action = choices[int(below(generator, len(choices), 1)[0])]
    return action, children[0, action : action + 1]


def _key(words: Tensor) -> Key:
    return tuple(words[0].tolist())
