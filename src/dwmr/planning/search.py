"""Planners: breadth-first and best-first search over whole batches of states.

A planner takes a `Dynamics`, a start code, a `Goal` and perhaps a `Heuristic`, and works on the device of the start
code. Duplicates are removed exactly.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from dwmr.errors import InputError, unknown
from dwmr.planning.nodes import BucketQueue, Nodes
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

PRIORITIES_PER_ACTION = 8  # priorities are rounded down to an eighth of an action

Planner = Callable[..., Plan]


@contextlib.contextmanager
def _one_cpu_thread() -> Iterator[None]:
    """The many small steps of a search lose more to waiting threads than they gain."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


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

    def ended(self) -> str:
        """Which budget ends before another state is expanded, or an empty string."""
        if self.affordable() < 1:
            return "nodes"
        return "seconds" if time.perf_counter() - self.started > self.budget.seconds else ""

    def goals(self, first: int) -> Tensor:
        """The goals among the states from number ``first`` on."""
        return first + torch.nonzero(self.goal(self.nodes.words[first:])).squeeze(1)

    def guess(self, new: slice) -> None:
        """Store the heuristic of new states."""
        self.nodes.guess[new] = self.heuristic(self.nodes.words[new]).float()

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

    def out_of_budget(self, reason: str) -> Plan:
        """The way to the state that looks nearest to the goal; of several, the one with the fewest actions."""
        values = self.nodes.guess.double() + self.nodes.cost.double() * 1e-6
        return self.answer(OUT_OF_BUDGET, int(torch.argmin(values)), reason)


@_one_cpu_thread()
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
    nodes = search.nodes
    if len(search.goals(0)):
        return search.answer(SOLVED, 0, optimal=True)
    layer, cost = range(1), 0
    while layer:
        cost, first = cost + 1, nodes.count
        at = layer.start
        while at < layer.stop:
            size = min(batch, layer.stop - at, max(1, search.affordable()))
            if reason := search.ended():
                for part in range(0, nodes.count, batch):
                    search.guess(slice(part, part + batch))
                return search.out_of_budget(reason)
            codes, parents, actions = search.expand(torch.arange(at, at + size, device=start.device))
            begin = nodes.count
            _, new = nodes.insert(codes)
            nodes.reach(slice(begin, nodes.count), parents[new], actions[new], cost)
            if len(goals := search.goals(begin)):
                return search.answer(SOLVED, int(goals[0]), optimal=True)
            at += size
        layer = range(first, nodes.count)
    return search.answer(EXHAUSTED, 0)


@_one_cpu_thread()
def best_first(
    dynamics: Dynamics,
    start: Tensor,
    goal: Goal,
    heuristic: Heuristic = no_heuristic,
    budget: Budget = Budget(),
    *,
    batch: int = 256,
    weight: float = 1.0,
    ties_only: bool = True,
) -> Plan:
    """Expand the states with the lowest ``weight`` · cost + heuristic, ``batch`` at a time.

    The search ends when no open state looks better than the best goal found. With weight 1 and a heuristic that never
    overestimates this is A*: the plan is a shortest one. A state that is reached again with fewer actions is opened
    again.

    Args:
        ties_only: states expanded together are equally good; otherwise a batch is filled up with the next best.
    """
    search = _Search(dynamics, start, goal, heuristic, budget)
    nodes = search.nodes
    queue = BucketQueue(nodes)

    def push(states: Tensor) -> None:
        value = weight * nodes.cost[states] + nodes.guess[states]
        queue.push(states, torch.floor(PRIORITIES_PER_ACTION * value).long())

    search.guess(slice(0, 1))
    push(torch.zeros(1, dtype=torch.int64, device=start.device))
    goals = search.goals(0)
    while (lowest := queue.lowest()) is not None:
        best = int(goals[nodes.cost[goals].argmin()]) if len(goals) else None
        if best is not None and PRIORITIES_PER_ACTION * weight * int(nodes.cost[best]) <= lowest:
            return search.answer(SOLVED, best, optimal=weight >= 1)
        if reason := search.ended():
            return search.out_of_budget(reason) if best is None else search.answer(SOLVED, best, reason)
        states = queue.pop(min(batch, search.affordable()), ties_only)
        if not len(states):
            continue
        codes, parents, actions = search.expand(states)
        begin = nodes.count
        numbers, new = nodes.insert(codes)
        changed = nodes.relax(numbers, parents, actions, nodes.cost[parents] + 1)
        if len(new):
            search.guess(slice(begin, nodes.count))
            goals = torch.cat([goals, search.goals(begin)])
        push(changed)
    if len(goals):
        return search.answer(SOLVED, int(goals[nodes.cost[goals].argmin()]), optimal=True)
    return search.answer(EXHAUSTED, 0)


PLANNERS: dict[str, Planner] = {
    "breadth_first": breadth_first,
    "astar": best_first,
    "batch_astar": partial(best_first, batch=10_000, weight=0.6, ties_only=False),
}
"""Planners by name, called as ``planner(dynamics, start, goal, heuristic, budget)``."""


def find_planner(name: str) -> Planner:
    if name not in PLANNERS:
        raise unknown("planner", name, PLANNERS)
    return PLANNERS[name]
