"""Compare the world that a model has learned with the true one: every state and every action of each level."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from dwmr.errors import InputError
from dwmr.models.callables import Encode, Predict, as_bits, keys, take
from dwmr.worlds.tasks import StateGraph

MAX_LISTED = 10  # wrong edges in the result


def compare_graphs(encode: Encode, predict: Predict, graphs: Sequence[StateGraph]) -> dict[str, Any]:
    """How well a model agrees with the true graphs of some levels, in percent unless a count is named.

    levels       levels compared (count)
    same         levels in which every state has a different code and every action leads from the code of a state to
                 the code of the next state: encoding is an isomorphism
    edges        pairs of state and action (count)
    edges_right  of these, how many lead to the code of the next state
    moves_right  the same among actions that change the state
    collisions   states that share a code with another state of their level (count)
    wrong        up to ten wrong edges: level, state, action, expected, and got: a state, or None where the code belongs
                 to no state
    """
    n_actions = {graph.table.shape[1] for graph in graphs}
    if len(n_actions) != 1:
        raise InputError(f"at least one graph is needed, all with the same number of actions, got {sorted(n_actions)}")
    first = np.cumsum([0, *(len(graph.images) for graph in graphs)])
    levels = [slice(begin, end) for begin, end in pairwise(first)]
    table = np.concatenate([graph.table + begin for graph, begin in zip(graphs, first)])
    raw = encode(np.concatenate([graph.images for graph in graphs]))
    codes = as_bits(raw)
    states, actions = np.divmod(np.arange(table.size), table.shape[1])
    reached = as_bits(predict(take(raw, states), actions)).reshape(*table.shape, -1)
    correct, moves = (reached == codes[table]).all(2), table != np.arange(len(table))[:, None]
    shared = [Counter(keys(codes[level])) for level in levels]
    repeated = [sum(count for count in counts.values() if count > 1) for counts in shared]
    same = [bool(correct[level].all()) and not count for level, count in zip(levels, repeated)]
    wrong = []
    for state, action in np.argwhere(~correct)[:MAX_LISTED]:
        number = int(np.searchsorted(first, state, side="right")) - 1
        graph, level = graphs[number], levels[number]
        matches = np.flatnonzero((codes[level] == reached[state, action]).all(1))
        wrong.append(
            {
                "level": graph.name,
                "state": graph.states[state - level.start],
                "action": int(action),
                "expected": graph.states[table[state, action] - level.start],
                "got": graph.states[matches[0]] if len(matches) else None,
            }
        )
    return {
        "levels": len(graphs),
        "same": 100 * float(np.mean(same)),
        "edges": int(correct.size),
        "edges_right": 100 * float(correct.mean()),
        "moves_right": 100 * float(correct[moves].mean()) if moves.any() else None,
        "collisions": sum(repeated),
        "wrong": wrong,
    }
