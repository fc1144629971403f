"""Compare the world that a model has learned with the true one: every state and every action of each level."""

from __future__ import annotations

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
    isomorphic   levels in which the model, following its own predictions from the code of the first state, moves
                 through the true graph, whatever codes it gives to the states
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
    reached = _all_actions(predict, raw, table.shape[1])[1]
    correct, moves = (reached == codes[table]).all(2), table != np.arange(len(table))[:, None]
    own, own_reached = _follow(predict, take(raw, first[:-1]), table, first[:-1])
    own_correct = (own_reached == own[table]).all(2)
    repeated = [_repeated(codes[level]) for level in levels]
    same = [bool(correct[level].all()) and not shared for level, shared in zip(levels, repeated)]
    isomorphic = [bool(own_correct[level].all()) and not _repeated(own[level]) for level in levels]
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
        "isomorphic": 100 * float(np.mean(isomorphic)),
        "edges": int(correct.size),
        "edges_right": 100 * float(correct.mean()),
        "moves_right": 100 * float(correct[moves].mean()) if moves.any() else None,
        "collisions": sum(repeated),
        "wrong": wrong,
    }


def _all_actions(predict: Predict, codes: Any, n_actions: int) -> tuple[Any, np.ndarray]:
    """What each of A actions leads to from N codes: as predict returns it (N · A, K), and as bool (N, A, K)."""
    count = len(codes)
    after = predict(take(codes, np.repeat(np.arange(count), n_actions)), np.tile(np.arange(n_actions), count))
    return after, as_bits(after).reshape(count, n_actions, -1)


def _follow(predict: Predict, starts: Any, table: np.ndarray, first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Follow the true moves (S, A) with predictions alone, from the codes of the ``first`` states: the code that the
    model has for each state, bool (S, K), and the code after each of its actions, bool (S, A, K)."""
    own = np.zeros((len(table), as_bits(starts).shape[1]), bool)
    reached = np.zeros((*table.shape, own.shape[1]), bool)
    seen = np.zeros(len(table), bool)
    states, codes = first, starts
    while len(states):
        own[states], seen[states] = as_bits(codes), True
        after, reached[states] = _all_actions(predict, codes, table.shape[1])
        targets, place = np.unique(table[states], return_index=True)
        new = ~seen[targets]
        states, codes = targets[new], take(after, place[new])
    return own, reached


def _repeated(codes: np.ndarray) -> int:
    """How many of the codes (N, K) occur more than once."""
    return sum(count for count in Counter(keys(codes)).values() if count > 1)
