"""The world that a model has learned against the true one, level by level: every state, every action."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dwmr.errors import InputError
from dwmr.models.callables import Encode, Predict, Reachable, as_bits, explore, keys, take

SHOWN = 10  # wrong edges that are listed
ROOM = 4  # a model's graph is followed up to so many times the true one's states


@dataclass(frozen=True, eq=False)
class StateGraph:
    """The states of a world that can be reached from the first: a picture of each, uint8 (S, C, H, W), what to call it,
    and where each action leads, int (S, A)."""

    name: str
    images: np.ndarray
    states: Sequence[str]
    table: np.ndarray

    def __post_init__(self) -> None:
        count = len(self.images)
        shape = self.table.shape
        if len(self.states) != count or len(shape) != 2 or shape[0] != count:
            raise InputError(f"{self.name}: {count} images, {len(self.states)} states and a table of {shape}")
        if int(self.table.min()) < 0 or int(self.table.max()) >= count:
            raise InputError(f"{self.name}: the table must name states in [0, {count})")


def compare_graphs(encode: Encode, predict: Predict, graphs: Sequence[StateGraph]) -> dict[str, Any]:
    """How a model's world agrees with the true graphs, in percent unless said otherwise.

    levels       how many were compared (count)
    same         levels in which every state has a code of its own and every action leads from a state's code to the
                 code of the next state: the encoding itself is the isomorphism
    isomorphic   levels in which what the model reaches from the first state's code is the true graph with other names
    edges        state and action pairs (count)
    edges_right  of these, where the next code is the code of the next state
    moves_right  the same, of the actions that change the state
    collisions   states that share a code with another state of their level (count)
    endless      levels in which the model reaches more than four times the true states
    wrong        the first few wrong edges: level, state, action, expected, and got, another state or None where the
                 code is that of no state
    """
    n_actions = {graph.table.shape[1] for graph in graphs}
    if len(n_actions) != 1:
        raise InputError(f"the graphs must be at least one, with as many actions each, got {sorted(n_actions)} actions")
    actions = n_actions.pop()
    first = np.cumsum([0, *(len(graph.images) for graph in graphs)])
    raw = encode(np.concatenate([graph.images for graph in graphs]))
    bits = as_bits(raw)
    next_raw = predict(take(raw, np.repeat(np.arange(len(bits)), actions)), np.tile(np.arange(actions), len(bits)))
    next_bits = as_bits(next_raw).reshape(len(bits), actions, -1)
    limits = np.array([ROOM * len(graph.images) for graph in graphs])
    worlds = explore(predict, take(raw, first[:-1]), actions, limits)
    right, moves, same, shared = [], [], [], 0
    wrong: list[dict[str, Any]] = []
    for graph, begin, end in zip(graphs, first, first[1:]):
        codes = bits[begin:end]
        good = (next_bits[begin:end] == codes[graph.table]).all(2)
        names = keys(codes)
        doubled = sum(count for count in Counter(names).values() if count > 1)
        right.append(good)
        moves.append(graph.table != np.arange(len(codes))[:, None])
        same.append(bool(good.all()) and not doubled)
        shared += doubled
        for state, action in np.argwhere(~good)[: SHOWN - len(wrong)]:
            (got,) = keys(next_bits[begin + state, action][None])
            wrong.append(
                {
                    "level": graph.name,
                    "state": graph.states[state],
                    "action": int(action),
                    "expected": graph.states[graph.table[state, action]],
                    "got": graph.states[names.index(got)] if got in names else None,
                }
            )
    good_edges, moving = np.concatenate(right), np.concatenate(moves)
    alike = [_isomorphic(graph.table, world) for graph, world in zip(graphs, worlds)]
    return {
        "levels": len(graphs),
        "same": 100 * float(np.mean(same)),
        "isomorphic": 100 * float(np.mean(alike)),
        "edges": int(good_edges.size),
        "edges_right": 100 * float(good_edges.mean()),
        "moves_right": 100 * float(good_edges[moving].mean()) if moving.any() else None,
        "collisions": shared,
        "endless": 100 * float(np.mean([not world.complete for world in worlds])),
        "wrong": wrong,
    }


def _isomorphic(table: np.ndarray, world: Reachable) -> bool:
    """Whether two graphs in which every action leads somewhere are the same but for the names, first state to first:
    then the actions alone say which state must be which."""
    if not world.complete:
        return False
    partner = {0: 0}
    queue = [0]
    for state in queue:
        for ours, theirs in zip(table[state], world.table[partner[state]]):
            if int(ours) not in partner:
                partner[int(ours)] = int(theirs)
                queue.append(int(ours))
            elif partner[int(ours)] != int(theirs):
                return False
    return len(set(partner.values())) == len(partner) == len(world.codes)
