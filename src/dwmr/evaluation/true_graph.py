"""Compare the world that a model has learned with the true one: every state and every action of each level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from dwmr.errors import InputError
from dwmr.models.callables import Encode, Predict, Reachable, as_bits, explore, keys, take
from dwmr.worlds.tasks import StateGraph

MAX_LISTED = 10  # wrong edges in the result
MAX_GROWTH = 4  # exploring a model stops at this many times the number of true states


def compare_graphs(encode: Encode, predict: Predict, graphs: Sequence[StateGraph]) -> dict[str, Any]:
    """How well a model agrees with the true graphs of some levels, in percent unless a count is named.

    levels       levels compared (count)
    same         levels in which every state has a different code and every action leads from the code of a state to
                 the code of the next state: encoding is an isomorphism
    isomorphic   levels in which the graph that the model reaches from the first code is the true one up to renaming
    edges        pairs of state and action (count)
    edges_right  of these, how many lead to the code of the next state
    moves_right  the same among actions that change the state
    collisions   states that share a code with another state of their level (count)
    endless      levels in which the model reaches more than four times the true number of states
    wrong        up to ten wrong edges: level, state, action, expected, and got: a state, or None where the code belongs
                 to no state
    """
    n_actions = {graph.table.shape[1] for graph in graphs}
    if len(n_actions) != 1:
        raise InputError(f"at least one graph is needed, all with the same number of actions, got {sorted(n_actions)}")
    actions = n_actions.pop()
    sizes = [len(graph.images) for graph in graphs]
    first = np.cumsum([0, *sizes])
    raw = encode(np.concatenate([graph.images for graph in graphs]))
    bits = as_bits(raw)
    next_raw = predict(take(raw, np.repeat(np.arange(len(bits)), actions)), np.tile(np.arange(actions), len(bits)))
    next_bits = as_bits(next_raw).reshape(len(bits), actions, -1)
    learned = explore(predict, take(raw, first[:-1]), actions, MAX_GROWTH * np.array(sizes))
    correct, moves, same, shared = [], [], [], 0
    wrong: list[dict[str, Any]] = []
    for graph, begin, end in zip(graphs, first, first[1:]):
        codes = bits[begin:end]
        good = (next_bits[begin:end] == codes[graph.table]).all(2)
        names = keys(codes)
        repeated = sum(count for count in Counter(names).values() if count > 1)
        correct.append(good)
        moves.append(graph.table != np.arange(len(codes))[:, None])
        same.append(bool(good.all()) and not repeated)
        shared += repeated
        for state, action in np.argwhere(~good)[: MAX_LISTED - len(wrong)]:
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
    edges, moving = np.concatenate(correct), np.concatenate(moves)
    return {
        "levels": len(graphs),
        "same": 100 * float(np.mean(same)),
        "isomorphic": 100 * float(np.mean([_isomorphic(each.table, own) for each, own in zip(graphs, learned)])),
        "edges": int(edges.size),
        "edges_right": 100 * float(edges.mean()),
        "moves_right": 100 * float(edges[moving].mean()) if moving.any() else None,
        "collisions": shared,
        "endless": 100 * float(np.mean([not own.complete for own in learned])),
        "wrong": wrong,
    }


def _isomorphic(table: np.ndarray, learned: Reachable) -> bool:
    """Whether two graphs are equal up to the names of their states, the first state of one being that of the other.

    Every action leads somewhere, so the actions alone determine which state corresponds to which.
    """
    if not learned.complete:
        return False
    partner = {0: 0}
    queue = [0]
    for state in queue:
        for true, other in zip(table[state].tolist(), learned.table[partner[state]].tolist()):
            if true not in partner:
                partner[true] = other
                queue.append(true)
            elif partner[true] != other:
                return False
    return len(set(partner.values())) == len(partner) == len(learned.codes)
