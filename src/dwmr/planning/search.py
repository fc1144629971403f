"""Planners: breadth-first and best-first search over whole batches of states.

A planner takes a `Dynamics`, a start code, a `Goal` and perhaps a `Heuristic`, and works on the device of the start
code. Duplicates are removed exactly.
"""

from __future__ import annotations

import functools
import time
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
    Plan,
    no_heuristic,
)
from dwmr.planning.queue import BucketQueue

PRIORITIES_PER_ACTION = 8  # priorities are rounded down to an eighth of an action

Planner = Callable[..., Plan]


def _on_one_thread(planner: Planner) -> Planner:
    """Search on one CPU thread: the many small steps of a search lose more to waiting threads than they gain."""

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


class _Search:
    """One search: its inputs, the states found so far, and its work."""

    def __init__(self, dynamics: Dynamics, start: Tensor, goal: Goal, heuristic: Heuristic, budget: Budget) -> None:
        if start.ndim != 2 or len(start) != 1:
            raise InputError(f"a search begins with one code (1, W), got shape {tuple(start.shape)}")
        self.dynamics, self.goal, self.heuristic, self.budget = dynamics, goal, heuristic, budget
        self.nodes, self.started = Nodes(start), time.perf_counter()
        self.expanded = self.generated = 0

    def expand(self, states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Codes (M, W) that possible actions lead to, the states (M,) they come from, and the actions (M,)."""
        children, possible = self.dynamics.successors(self.nodes.words[states])
        actions = torch.arange(self.dynamics.n_actions, device=states.device).expand(len(states), -1)
        parents = states.unsqueeze(1).expand_as(actions)
        flat = children.flatten(0, 1), parents.flatten(), actions.flatten()
        if possible is not None:
            kept = torch.nonzero(possible.flatten()).squeeze(1)
            flat = flat[0][kept], flat[1][kept], flat[2][kept]
        self.expanded += len(states)
        self.generated += len(flat[0])
        return flat

    def affordable(self) -> int:
        """States that may still be expanded within the budget of nodes."""
        return (self.budget.nodes - self.generated) // self.dynamics.n_actions

    def ended(self, batch: int) -> str:
        """Which budget ends before another batch of states, or an empty string."""
        if self.affordable() < 1:
            return "nodes"
        if time.perf_counter() - self.started > self.budget.seconds:
            return "seconds"
        states = self.nodes.count + batch * self.dynamics.n_actions
        return "memory" if Nodes.bytes_for(states, self.nodes.words.shape[1]) > self.budget.memory else ""

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
            expanded=self.expanded,
            generated=self.generated,
            kept=self.nodes.count,
            seconds=time.perf_counter() - self.started,
        )

    def guess(self, new: slice) -> None:
        """Store the heuristic of new states."""
        self.nodes.guess[new] = self.heuristic(self.nodes.words[new]).float()

    def out_of_budget(self, reason: str) -> Plan:
        """The way to the state that looks nearest to the goal; of several, the one with the fewest actions."""
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
    """Search layer by layer. Every action costs one, so the plan is a shortest one.

    The heuristic is only used to choose the state nearest to the goal when the budget ends.
    """
    search = _Search(dynamics, start, goal, heuristic, budget)
    if search.found(start) is not None:
        return search.answer(SOLVED, 0, optimal=True)
    layer, cost = range(1), 0
    while layer:
        cost, first = cost + 1, search.nodes.count
        at = layer.start
        while at < layer.stop:
            size = min(batch, layer.stop - at, max(1, search.affordable()))
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


@dataclass(frozen=True)
class Order:
    """Which states best-first search expands first: those with the lowest ``cost`` · cost + ``guess`` · heuristic.

    ties_only   states expanded together are equally good; otherwise a batch is filled up with the next best
    """

    cost: float = 1.0
    guess: float = 1.0
    ties_only: bool = True


@_on_one_thread
def best_first(
    dynamics: Dynamics,
    start: Tensor,
    goal: Goal,
    heuristic: Heuristic = no_heuristic,
    budget: Budget = Budget(),
    *,
    batch: int = 256,
    order: Order = Order(),
) -> Plan:
    """Expand the best states by ``order``, ``batch`` at a time.

    The search ends when no open state looks better than the best goal found. With both weights 1 and a heuristic that
    never overestimates, as in A*, the plan is a shortest one; with a larger weight of the heuristic it is at most that
    many times longer. Where costs do not count, the first goal generated ends the search. A state that is reached
    again with fewer actions is opened again.
    """
    search = _Search(dynamics, start, goal, heuristic, budget)
    nodes = search.nodes
    queue = BucketQueue(start.device)

    def push(states: Tensor) -> None:
        value = order.cost * nodes.cost[states] + order.guess * nodes.guess[states]
        queue.push(states, torch.floor(PRIORITIES_PER_ACTION * value).long(), nodes.count)

    search.guess(slice(0, 1))
    push(torch.zeros(1, dtype=torch.int64, device=start.device))
    goals = torch.nonzero(goal(start)).squeeze(1)
    proven = order.guess <= order.cost
    while (lowest := queue.lowest()) is not None:
        if len(goals):
            best = goals[nodes.cost[goals].argmin()]
            if not order.cost or PRIORITIES_PER_ACTION * order.cost * int(nodes.cost[best]) <= lowest:
                return search.answer(SOLVED, int(best), optimal=proven)
        size = min(batch, max(1, search.affordable()))
        if reason := search.ended(size):
            if len(goals):
                return search.answer(SOLVED, int(goals[nodes.cost[goals].argmin()]), reason)
            return search.out_of_budget(reason)
        states = queue.pop(size, order.ties_only)
        if not len(states):
            continue
        codes, parents, actions = search.expand(states)
        begin = nodes.count
        numbers, new = nodes.insert(codes)
        changed = nodes.relax(numbers, parents, actions, nodes.cost[parents] + 1)
        if len(new):
            search.guess(slice(begin, nodes.count))
            goals = torch.cat([goals, begin + torch.nonzero(goal(nodes.words[begin:])).squeeze(1)])
        push(changed if order.cost else changed[changed >= begin])
    if len(goals):
        return search.answer(SOLVED, int(goals[nodes.cost[goals].argmin()]), optimal=order.cost > 0)
    return search.answer(EXHAUSTED, 0)


PLANNERS: dict[str, Planner] = {
    "breadth_first": breadth_first,
    "astar": best_first,
    "weighted_astar": partial(best_first, order=Order(guess=2.0)),
    "greedy": partial(best_first, order=Order(cost=0.0)),
    "batch_astar": partial(best_first, batch=10_000, order=Order(cost=0.6, ties_only=False)),
}
"""Planners by name, called as ``planner(dynamics, start, goal, heuristic, budget)``."""


def find_planner(name: str) -> Planner:
    if name not in PLANNERS:
        raise unknown("planner", name, PLANNERS)
    return PLANNERS[name]
