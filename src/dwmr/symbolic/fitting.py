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


@dataclass
class _Node:
    rows: np.ndarray
    counts: np.ndarray  # examples by next value, (V,)
    feature: int = -1
    without: _Node | None = None
    having: _Node | None = None

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
        tree = _grow(rows.astype(np.float32), counts)
        found = [rule for rule in _leaves(tree, int(value), ()) if rule.target != value]
        rules += _without_repeats([_shorten(rule, rows, counts) for rule in found])
    return rules


def apply_rules(rules: list[Rule], features: np.ndarray, own: np.ndarray) -> np.ndarray:
    """The next values (M,)."""
    after, open_ = own.copy(), np.ones(len(own), bool)
    for rule in rules:
        fires = open_ & (own == rule.own) & holds(rule, features)
        after[fires] = rule.target
        open_ &= ~fires
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
    """Split the best leaf again and again, then cut branches that correct too few examples."""
    root = _Node(np.arange(len(counts)), counts.sum(0))
    open_ = [(*_best_split(root, features, counts), 0, root)]
    leaves = 1
    while open_ and leaves < MAX_LEAVES:
        gain, feature, depth, node = open_.pop(max(range(len(open_)), key=lambda index: open_[index][0]))
        if gain <= 0 or depth >= MAX_DEPTH:
            continue
        has = features[node.rows, feature] > 0
        node.feature = feature
        node.without, node.having = (_Node(rows, counts[rows].sum(0)) for rows in (node.rows[~has], node.rows[has]))
        open_ += [(*_best_split(part, features, counts), depth + 1, part) for part in (node.without, node.having)]
        leaves += 1
    _cut(root)
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
    counts = np.maximum(counts.astype(np.float64), 0)
    total = counts.sum(1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.where(counts > 0, counts * np.log2(total / counts), 0)
    return parts.sum(1)


def _cut(node: _Node) -> tuple[float, int]:
    """Cut branches that correct too few examples; errors and leaves of what is left."""
    if node.without is None or node.having is None:
        return node.errors, 1
    parts = _cut(node.without), _cut(node.having)
    errors, leaves = parts[0][0] + parts[1][0], parts[0][1] + parts[1][1]
    if node.errors - errors < MIN_CORRECTED * (leaves - 1):
        node.without = node.having = None
        return node.errors, 1
    return errors, leaves


def _leaves(node: _Node, own: int, path: tuple[tuple[int, bool], ...]) -> list[Rule]:
    if node.without is None or node.having is None:
        target = int(node.counts.argmax())
        return [Rule(own, target, path)]
    return [
        *_leaves(node.without, own, (*path, (node.feature, False))),
        *_leaves(node.having, own, (*path, (node.feature, True))),
    ]


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
        covered = any(other.target == rule.target and set(other.literals) <= set(rule.literals) for other in kept)
        if not covered:
            kept.append(rule)
    return sorted(kept, key=lambda rule: (rule.target, -rule.right))
