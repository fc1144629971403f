"""Planners: breadth first, best first in its variants, and beam search, each over whole batches of states.

A planner sees a `Dynamics`, a `Goal` and perhaps a `Heuristic`. Every state is generated with its duplicates removed
exactly, on the device of the start code.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from dwmr.errors import InputError, unknown
from dwmr.planning.nodes import Nodes
from dwmr.planning.problem import (
    EXHAUSTED,
    OUT_OF_BUDGET,
    SOLVED,
    Budget,
    Dynamics,
    Goal,
    Heuristic,
    Meter,
    Plan,
    no_heuristic,
)
from dwmr.planning.queue import BucketQueue

STEPS_OF_F = 8  # priorities are kept to an eighth of an action

Planner = Callable[..., Plan]


def _on_one_thread(planner: Planner) -> Planner:
    """On a CPU the many small steps of a search lose more by threads that wait for each other than they win, and far
    more where the cores are shared."""

    @functools.wraps(planner)
    def search(dynamics: Dynamics, start: Tensor, *rest: Any, **more: Any) -> Plan:
        if start.device.type != "cpu":
            return planner(dynamics, start, *rest, **more)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return planner(dynamics, start, *rest, **more)
        finally:
            torch.set_num_threads(threads)

    return search


@dataclass(frozen=True)
class _Search:
    """One search: what it is given, and the states it has met."""

    dynamics: Dynamics
    goal: Goal
    heuristic: Heuristic
    nodes: Nodes
    meter: Meter

    @staticmethod
    def begin(dynamics: Dynamics, start: Tensor, goal: Goal, heuristic: Heuristic, budget: Budget) -> _Search:
        if start.ndim != 2 or len(start) != 1:
            raise InputError(f"a search begins with one code (1, W), got shape {tuple(start.shape)}")
        return _Search(dynamics, goal, heuristic, Nodes(start), Meter(budget, start.shape[1]))

    def expand(self, states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Codes (M, W) that one possible action leads to, the states (M,) they come from, and the actions (M,)."""
        children, possible = self.dynamics.successors(self.nodes.words[states])
        actions = torch.arange(self.dynamics.n_actions, device=states.device).expand(len(states), -1)
        parents = states.unsqueeze(1).expand_as(actions)
        flat = children.flatten(0, 1), parents.flatten(), actions.flatten()
        if possible is not None:
            kept = torch.nonzero(possible.flatten()).squeeze(1)
            flat = flat[0][kept], flat[1][kept], flat[2][kept]
        self.meter.expanded += len(states)
        self.meter.generated += len(flat[0])
        return flat

    def ended(self, batch: int) -> str:
        states = self.nodes.count + batch * self.dynamics.n_actions
        return self.meter.ended(self.dynamics.n_actions, Nodes.bytes_for(states, self.meter.width))

    def found(self, words: Tensor, first: int = 0) -> int | None:
        """Number of the first code that is a goal, counted from ``first``."""
        reached = torch.nonzero(self.goal(words))
        return first + int(reached[0]) if len(reached) else None

    def answer(self, outcome: str, node: int, reason: str = "", optimal: bool = False) -> Plan:
        actions, states = self.nodes.path(node)
        return Plan(
            outcome,
            actions,
            self.nodes.words[torch.tensor(states, device=self.nodes.device)],
            optimal=optimal,
            reason=reason,
            expanded=self.meter.expanded,
            generated=self.meter.generated,
            kept=self.nodes.count,
            seconds=self.meter.seconds,
        )

    def guess(self, new: slice) -> None:
        """Note what the heuristic says of new states."""
        self.nodes.guess[new] = self.heuristic(self.nodes.words[new]).float()

    def out_of_budget(self, reason: str) -> Plan:
        """With the way to the state that looks nearest to the goal, and of several to the one of fewest actions."""
        values = self.nodes.guess.double() + self.nodes.cost.double() * 1e-6
        return self.answer(OUT_OF_BUDGET, int(torch.argmin(values)), reason)


@_on_one_thread
def breadth_first(
    dynamics: Dynamics,
    start: Tensor,
    goal: Goal,
    heuristic: Heuristic = no_heuristic,
    budget: Budget = Budget(),
    *,
    batch: int = 1 << 16,
) -> Plan:
    """Layer by layer, which is uniform cost search where every action costs one: the plan is a shortest one.

    The heuristic only says what is nearest to the goal when the budget ends."""
    search = _Search.begin(dynamics, start, goal, heuristic, budget)
    if search.found(start) is not None:
        return search.answer(SOLVED, 0, optimal=True)
    layer, cost = range(1), 0
    while layer:
        cost, first = cost + 1, search.nodes.count
        at = layer.start
        while at < layer.stop:
            size = min(batch, layer.stop - at, max(1, search.meter.affordable(dynamics.n_actions)))
            if reason := search.ended(size):
                for part in range(0, search.nodes.count, batch):
                    search.guess(slice(part, part + batch))
                return search.out_of_budget(reason)
            codes, parents, actions = search.expand(torch.arange(at, at + size, device=start.device))
            begin = search.nodes.count
            _, new = search.nodes.insert(codes)
            search.nodes.reach(slice(begin, search.nodes.count), parents[new], actions[new], cost)
            reached = search.found(search.nodes.words[begin:], begin)
            if reached is not None:
                return search.answer(SOLVED, reached, optimal=True)
            at += size
        layer = range(first, search.nodes.count)
    return search.answer(EXHAUSTED, 0)


@_on_one_thread
def best_first(
    dynamics: Dynamics,
    start: Tensor,
    goal: Goal,
    heuristic: Heuristic = no_heuristic,
    budget: Budget = Budget(),
    *,
    batch: int = 256,
    cost_weight: float = 1.0,
    guess_weight: float = 1.0,
    ties_only: bool = True,
    first_goal: bool = False,
) -> Plan:
    """Expand what has the least ``cost_weight`` · cost + ``guess_weight`` · guess, ``batch`` states at a time.

    It ends when nothing that is left open looks better than the best goal found: with both weights 1 and a
    heuristic that never overestimates, as A* does, with a shortest plan; with a larger weight of the guesses, at most
    so many times longer. A state that is reached again by fewer actions is opened again.

    ties_only   states expanded together are equally good; otherwise the batch is filled up with the next best
    first_goal  end with the first goal generated
    """
    search = _Search.begin(dynamics, start, goal, heuristic, budget)
    nodes = search.nodes

    queue = BucketQueue(start.device)

    def push(states: Tensor) -> None:
        value = cost_weight * nodes.cost[states] + guess_weight * nodes.guess[states]
        queue.push(states, torch.floor(STEPS_OF_F * value).long(), nodes.count)

    search.guess(slice(0, 1))
    push(torch.zeros(1, dtype=torch.int64, device=start.device))
    goals = torch.nonzero(goal(start)).squeeze(1)
    proven = guess_weight <= cost_weight and not first_goal
    while (lowest := queue.lowest()) is not None:
        if len(goals):
            best = goals[nodes.cost[goals].argmin()]
            if first_goal or STEPS_OF_F * cost_weight * int(nodes.cost[best]) <= lowest:
                return search.answer(SOLVED, int(best), optimal=proven)
        size = min(batch, max(1, search.meter.affordable(dynamics.n_actions)))
        if reason := search.ended(size):
            if len(goals):
                return search.answer(SOLVED, int(goals[nodes.cost[goals].argmin()]), reason)
            return search.out_of_budget(reason)
        states = queue.pop(size, ties_only)
        if not len(states):
            continue
        codes, parents, actions = search.expand(states)
        begin = nodes.count
        numbers, new = nodes.insert(codes)
        changed = nodes.relax(numbers, parents, actions, nodes.cost[parents] + 1)
        if len(new):
            search.guess(slice(begin, nodes.count))
            goals = torch.cat([goals, begin + torch.nonzero(goal(nodes.words[begin:])).squeeze(1)])
        push(changed if cost_weight else changed[changed >= begin])
    if len(goals):
        return search.answer(SOLVED, int(goals[nodes.cost[goals].argmin()]), optimal=not first_goal)
    return search.answer(EXHAUSTED, 0)


@_on_one_thread
def beam(
    dynamics: Dynamics,
    start: Tensor,
    goal: Goal,
    heuristic: Heuristic = no_heuristic,
    budget: Budget = Budget(),
    *,
    width: int = 1000,
) -> Plan:
    """Layer by layer, and of each layer only the ``width`` states that look nearest to the goal go on.

    As long as no state was dropped, running dry proves that there is no plan; afterwards it does not."""
    search = _Search.begin(dynamics, start, goal, heuristic, budget)
    if search.found(start) is not None:
        return search.answer(SOLVED, 0, optimal=True)
    nodes, cost, dropped = search.nodes, 0, False
    search.guess(slice(0, 1))
    layer = torch.zeros(1, dtype=torch.int64, device=start.device)
    while len(layer):
        if reason := search.ended(len(layer)):
            return search.out_of_budget(reason)
        size = search.meter.affordable(dynamics.n_actions)
        dropped, layer, cost = dropped or size < len(layer), layer[:size], cost + 1
        codes, parents, actions = search.expand(layer)
        begin = nodes.count
        _, new = nodes.insert(codes)
        nodes.reach(slice(begin, nodes.count), parents[new], actions[new], cost)
        reached = search.found(nodes.words[begin:], begin)
        if reached is not None:
            return search.answer(SOLVED, reached, optimal=not dropped)
        layer = torch.arange(begin, nodes.count, device=start.device)
        if len(layer):
            search.guess(slice(begin, nodes.count))
        if len(layer) > width:
            dropped = True
            layer = layer[torch.sort(nodes.guess[begin:], stable=True).indices[:width]]
    return search.out_of_budget("width") if dropped else search.answer(EXHAUSTED, 0)


PLANNERS: dict[str, Planner] = {
    "breadth_first": breadth_first,
    "astar": best_first,
    "weighted_astar": partial(best_first, guess_weight=2.0),
    "greedy": partial(best_first, cost_weight=0.0, first_goal=True),
    "batch_astar": partial(best_first, batch=10_000, cost_weight=0.6, ties_only=False),
    "beam": beam,
}
"""By name; called as ``planner(dynamics, start, goal, heuristic, budget)``."""


def find_planner(name: str) -> Planner:
    if name not in PLANNERS:
        raise unknown("planner", name, PLANNERS)
    return PLANNERS[name]
