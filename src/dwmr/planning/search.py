"""Planners: best-first search over whole batches of states.

A planner takes a `Dynamics`, a start code, a `Goal` and perhaps a `Heuristic`, and works on the device of the start
code. Duplicates are removed exactly.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from dwmr.errors import InputError, unknown
from dwmr.planning.nodes import BatchQueue, Nodes
from dwmr.planning.problem import EXHAUSTED, OUT_OF_BUDGET, SOLVED, Budget, Dynamics, Goal, Heuristic, Plan

PRIORITIES_PER_ACTION = 8  # priorities are rounded down to an eighth of an action

Planner = Callable[..., Plan]


def no_heuristic(words: Tensor) -> Tensor:
    """Zero for every code."""
    return words.new_zeros(len(words))


@contextlib.contextmanager
def _one_cpu_thread() -> Iterator[None]:
    """The many small steps of a search lose more to waiting threads than they gain."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


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
    blind: bool = False,
) -> Plan:
    """Expand the states with the lowest ``weight`` · cost + heuristic, ``batch`` at a time.

    The search ends when no open state looks better than the best goal found. With weight 1 and a heuristic that never
    overestimates this is A*: the plan is a shortest one. A state reached again with fewer actions is opened again. When
    the budget ends first, the plan leads to the state that looks nearest to the goal, with the fewest actions.

    Args:
        ties_only: states expanded together are equally good; otherwise a batch is filled up with the next best.
        blind: search layer by layer; the heuristic only chooses the nearest state when the budget ends.
    """
    if start.ndim != 2 or len(start) != 1:
        raise InputError(f"a search begins with one code (1, W), got shape {tuple(start.shape)}")
    nodes, started, expanded, generated = Nodes(start), time.perf_counter(), 0, 0
    queue = BatchQueue(nodes)
    estimate = (lambda words: ~goal(words)) if blind else heuristic  # any other state is at least one action away

    def push(states: Tensor) -> None:
        value = weight * nodes.cost[states] + nodes.guess[states]
        queue.push(states, torch.floor(PRIORITIES_PER_ACTION * value).long())

    def answer(outcome: str, node: int, reason: str = "", optimal: bool = False) -> Plan:
        actions, states = nodes.path(node)
        codes, seconds = nodes.words[torch.tensor(states, device=start.device)], time.perf_counter() - started
        return Plan(outcome, actions, codes, optimal, reason, expanded, generated, nodes.count, seconds)

    nodes.guess[:1] = estimate(start).float()
    push(torch.zeros(1, dtype=torch.int64, device=start.device))
    goals = torch.nonzero(goal(start)).squeeze(1)
    while True:
        lowest, best = queue.lowest(), int(goals[nodes.cost[goals].argmin()]) if len(goals) else None
        if lowest is None and best is None:
            return answer(EXHAUSTED, 0)
        if best is not None and (lowest is None or PRIORITIES_PER_ACTION * weight * int(nodes.cost[best]) <= lowest):
            return answer(SOLVED, best, optimal=weight >= 1 or lowest is None)
        affordable = (budget.nodes - generated) // dynamics.n_actions
        if affordable < 1 or time.perf_counter() - started > budget.seconds:
            reason = "nodes" if affordable < 1 else "seconds"
            if best is not None:
                return answer(SOLVED, best, reason)
            guesses = nodes.guess[: nodes.count]
            if blind:
                guesses = torch.cat([heuristic(part).float() for part in nodes.words.split(1 << 16)])
            nearest = torch.argmin(guesses.double() + nodes.cost[: nodes.count].double() * 1e-6)
            return answer(OUT_OF_BUDGET, int(nearest), reason)
        states = queue.pop(min(batch, affordable), ties_only)
        if not len(states):
            continue
        children, possible = dynamics.successors(nodes.words[states])
        actions = torch.arange(dynamics.n_actions, device=start.device).expand(len(states), -1)
        columns = (children, states.unsqueeze(1).expand_as(actions), actions)
        codes, parents, actions = (each.flatten(0, 1) if possible is None else each[possible] for each in columns)
        expanded, generated, begin = expanded + len(states), generated + len(codes), nodes.count
        numbers, new = nodes.insert(codes)
        changed = nodes.relax(numbers, parents, actions, nodes.cost[parents] + 1)
        if len(new):
            fresh = nodes.words[begin:]
            nodes.guess[begin : nodes.count] = estimate(fresh).float()
            goals = torch.cat([goals, begin + torch.nonzero(goal(fresh)).squeeze(1)])
        push(changed)


PLANNERS: dict[str, Planner] = {
    "breadth_first": partial(best_first, batch=1 << 16, blind=True),
    "astar": best_first,
    "batch_astar": partial(best_first, batch=10_000, weight=0.6, ties_only=False),
}
"""Planners by name, called as ``planner(dynamics, start, goal, heuristic, budget)``."""


def find_planner(name: str) -> Planner:
    if name not in PLANNERS:
        raise unknown("planner", name, PLANNERS)
    return PLANNERS[name]
