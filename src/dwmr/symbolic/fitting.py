"""Rules from examples with Boolean features: small decision trees, their leaves read as rules, the rules shortened."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MAX_LEAVES = 64
MAX_DEPTH = 12
MIN_GAIN = 1e-6
MIN_CORRECTED = 2.0  # examples that a further leaf must get right that would be wrong without it


@dataclass(frozen=True)
class Rule:
    """Where the value is ``own`` and every literal (feature, sign) holds, it becomes ``target``."""

    own: int
    target: int
    literals: tuple[tuple[int, bool], ...]
    right: int = 0  # examples of the fit where it applies, by whether they became ``target``
    wrong: int = 0
    bit: int = -1  # whose value it is, in rules for single bits


@dataclass
class _Node:
    rows: np.ndarray
    counts: np.ndarray  # examples by next value, (V,)
    feature: int = -1
    parts: tuple[_Node, ...] = ()  # without the feature, and with it

    @property
    def errors(self) -> float:
        return float(self.counts.sum() - self.counts.max())


def fit_rules(features: np.ndarray, own: np.ndarray, after: np.ndarray, n_values: int) -> list[Rule]:
    """Rules for how a value changes. The first rule that applies counts; where none applies, the value stays.

    Args:
        features: bool (M, F), simple ones first; of two that are equally informative the first is taken.
        own: the value before, integers (M,) in [0, n_values).
        after: the value after, likewise.
    """
    rules: list[Rule] = []
    for value in np.unique(own[own != after]):
        chosen = own == value
        rows, counts = _distinct(features[chosen], after[chosen], n_values)
        _, leaves = _leaves(_grow(rows.astype(np.float32), counts), int(value))
        rules += _without_repeats([_shorten(rule, rows, counts) for rule in leaves if rule.target != value])
    return rules


def apply_rules(rules: list[Rule], features: np.ndarray, own: np.ndarray) -> np.ndarray:
    """The next values (M,)."""
    after = own.copy()
    for rule in reversed(rules):  # the first one that applies counts
        after[(own == rule.own) & holds(rule, features)] = rule.target
    return after


def holds(rule: Rule, features: np.ndarray) -> np.ndarray:
    """Where all literals hold, bool (M,)."""
    fine = np.ones(len(features), bool)
    for feature, sign in rule.literals:
        fine &= features[:, feature] == sign
    return fine


def exclusive(one: Rule, other: Rule) -> bool:
    """Whether their values or literals rule out that both apply."""
    signs = dict(one.literals)
    return one.own != other.own or any(signs.get(feature, sign) != sign for feature, sign in other.literals)


def _distinct(features: np.ndarray, after: np.ndarray, n_values: int) -> tuple[np.ndarray, np.ndarray]:
    """Each distinct row of features once, with how many examples of each next value it has."""
    packed = np.packbits(features, axis=1)
    as_one = np.ascontiguousarray(packed).view(np.dtype((np.void, packed.shape[1]))).ravel()
    _, first, number = np.unique(as_one, return_index=True, return_inverse=True)
    counts = np.bincount(number.ravel() * n_values + after, minlength=len(first) * n_values)
    return features[first], counts.reshape(len(first), n_values).astype(np.float32)


def _grow(features: np.ndarray, counts: np.ndarray) -> _Node:
    """A tree whose best leaf was split again and again."""
    root = _Node(np.arange(len(counts)), counts.sum(0))
    open_ = [(*_best_split(root, features, counts), 0, root)]
    leaves = 1
    while open_ and leaves < MAX_LEAVES:
        gain, feature, depth, node = open_.pop(max(range(len(open_)), key=lambda index: open_[index][0]))
        if gain <= 0 or depth >= MAX_DEPTH:
            continue
        has = features[node.rows, feature] > 0
        node.feature = feature
        node.parts = tuple(_Node(rows, counts[rows].sum(0)) for rows in (node.rows[~has], node.rows[has]))
        open_ += [(*_best_split(part, features, counts), depth + 1, part) for part in node.parts]
        leaves += 1
    return root


def _best_split(node: _Node, features: np.ndarray, counts: np.ndarray) -> tuple[float, int]:
    """The information gain of the best feature, in bits over all examples, and its number.

    A feature without any gain may still help the next one, as with an exclusive or.
    """
    if node.errors == 0:
        return 0.0, -1
    having = features[node.rows].T @ counts[node.rows]
    gains = _entropy(node.counts[None])[0] - _entropy(having) - _entropy(node.counts - having)
    size = having.sum(1)
    gains[(size == 0) | (size == node.counts.sum())] = -np.inf
    best = float(gains.max(initial=-np.inf))
    if best == -np.inf:
        return 0.0, -1
    return max(best, MIN_GAIN), int(np.argmax(gains >= best - max(1e-3 * best, MIN_GAIN)))


def _entropy(counts: np.ndarray) -> np.ndarray:
    """The entropy of each row, times its sum."""
    counts = counts.astype(np.float64)
    return (counts * np.log2(np.maximum(counts.sum(1, keepdims=True), 1) / np.maximum(counts, 1))).sum(1)


def _leaves(node: _Node, own: int, path: tuple[tuple[int, bool], ...] = ()) -> tuple[float, list[Rule]]:
    """The errors and the leaves of a tree, as rules, without branches that correct too few examples."""
    leaf = node.errors, [Rule(own, int(node.counts.argmax()), path)]
    if not node.parts:
        return leaf
    without, having = (
        _leaves(part, own, (*path, (node.feature, sign))) for part, sign in zip(node.parts, (False, True))
    )
    errors, rules = without[0] + having[0], without[1] + having[1]
    return leaf if node.errors - errors < MIN_CORRECTED * (len(rules) - 1) else (errors, rules)


def _shorten(rule: Rule, features: np.ndarray, counts: np.ndarray) -> Rule:
    """Drop the literals that prevent no mistake, early ones first."""

    def tally(literals: tuple[tuple[int, bool], ...]) -> tuple[int, int]:
        matched = counts[holds(Rule(rule.own, rule.target, literals), features)].sum(0)
        return int(matched[rule.target]), int(matched.sum() - matched[rule.target])

    literals = rule.literals
    right, wrong = tally(literals)
    for literal in rule.literals:
        fewer = tuple(each for each in literals if each != literal)
        now_right, now_wrong = tally(fewer)
        if now_wrong <= wrong:
            literals, right, wrong = fewer, now_right, now_wrong
    return Rule(rule.own, rule.target, literals, right, wrong)


def _without_repeats(rules: list[Rule]) -> list[Rule]:
    """Drop rules that are covered by a shorter one with the same target."""
    kept: list[Rule] = []
    for rule in sorted(rules, key=lambda rule: (len(rule.literals), rule.target, -rule.right)):
        if not any(other.target == rule.target and set(other.literals) <= set(rule.literals) for other in kept):
            kept.append(rule)
    return sorted(kept, key=lambda rule: (rule.target, -rule.right))
