"""Rules from examples with Boolean features: small decision trees, their leaves read as rules, the rules shortened."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MOST_LEAVES = 64
MOST_DEPTH = 12
LEAST_GAIN = 1e-6
WORTH = 2.0  # examples that a further leaf must set right, or else it is cut


@dataclass(frozen=True)
class Rule:
    """Where the value is ``own`` and every literal (feature, sign) holds, it becomes ``target``."""

    own: int
    target: int
    literals: tuple[tuple[int, bool], ...]
    right: int = 0  # examples of the fit that it moves as they moved, and those that it moves otherwise
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


def fit_rules(
    features: np.ndarray, own: np.ndarray, after: np.ndarray, n_values: int, worth: float = WORTH
) -> list[Rule]:
    """Rules by which a value changes, the first that applies counting; where none applies it stays.

    ``features`` is bool (M, F), simple ones first: of two that tell as much the first is taken. ``own`` and ``after``
    are the value before and after, integers (M,) in [0, n_values).
    """
    rules: list[Rule] = []
    for value in np.unique(own[own != after]):
        chosen = own == value
        rows, counts = _distinct(features[chosen], after[chosen], n_values)
        tree = _grow(rows.astype(np.float32), counts, worth)
        found = [rule for rule in _leaves(tree, int(value), ()) if rule.target != value]
        shortened = [_shorten(rule, rows, counts) for rule in found]
        rules += _without_repeats(sorted(shortened, key=lambda rule: (rule.target, -rule.right)))
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
    """Whether the literals alone say that only one of the two can apply."""
    signs = dict(one.literals)
    return one.own != other.own or any(signs.get(feature, sign) != sign for feature, sign in other.literals)


def _distinct(features: np.ndarray, after: np.ndarray, n_values: int) -> tuple[np.ndarray, np.ndarray]:
    """Each distinct row of features once, with how many examples of each next value it has."""
    packed = np.packbits(features, axis=1)
    as_one = np.ascontiguousarray(packed).view(np.dtype((np.void, packed.shape[1]))).ravel()
    _, first, number = np.unique(as_one, return_index=True, return_inverse=True)
    counts = np.bincount(number.ravel() * n_values + after, minlength=len(first) * n_values)
    return features[first], counts.reshape(len(first), n_values).astype(np.float32)


def _grow(features: np.ndarray, counts: np.ndarray, worth: float) -> _Node:
    """The best leaf is split again and again, then what was not worth it is cut."""
    root = _Node(np.arange(len(counts)), counts.sum(0))
    open_ = [(*_best_split(root, features, counts), 0, root)]
    leaves = 1
    while open_ and leaves < MOST_LEAVES:
        gain, feature, depth, node = open_.pop(max(range(len(open_)), key=lambda index: open_[index][0]))
        if gain <= 0 or depth >= MOST_DEPTH:
            continue
        has = features[node.rows, feature] > 0
        node.feature = feature
        node.without, node.having = (_Node(rows, counts[rows].sum(0)) for rows in (node.rows[~has], node.rows[has]))
        open_ += [(*_best_split(part, features, counts), depth + 1, part) for part in (node.without, node.having)]
        leaves += 1
    _cut(root, worth)
    return root


def _best_split(node: _Node, features: np.ndarray, counts: np.ndarray) -> tuple[float, int]:
    """How much entropy the best feature takes away, in bits over all examples, and which one it is. One that takes
    nothing away may still help those after it, as with an exclusive or."""
    if node.errors == 0:
        return 0.0, -1
    having = features[node.rows].T @ counts[node.rows]
    gains = _entropy(node.counts[None])[0] - _entropy(having) - _entropy(node.counts - having)
    size = having.sum(1)
    gains[(size == 0) | (size == node.counts.sum())] = -np.inf
    best = float(gains.max(initial=-np.inf))
    if best == -np.inf:
        return 0.0, -1
    return max(best, LEAST_GAIN), int(np.argmax(gains >= best - max(1e-3 * best, LEAST_GAIN)))


def _entropy(counts: np.ndarray) -> np.ndarray:
    """Of each row, times its sum."""
    counts = np.maximum(counts.astype(np.float64), 0)
    total = counts.sum(1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.where(counts > 0, counts * np.log2(total / counts), 0)
    return parts.sum(1)


def _cut(node: _Node, worth: float) -> tuple[float, int]:
    """Errors and leaves of the tree below, less the branches that set too few examples right."""
    if node.without is None or node.having is None:
        return node.errors, 1
    parts = [_cut(node.without, worth), _cut(node.having, worth)]
    errors, leaves = sum(part[0] for part in parts), sum(part[1] for part in parts)
    if node.errors - errors < worth * (leaves - 1):
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
    """Without the literals that keep no example from going wrong; later, more specific ones are kept longest."""

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
    """Without rules that say no more than a shorter one of the same target."""
    kept: list[Rule] = []
    for rule in sorted(rules, key=lambda each: len(each.literals)):
        covered = any(other.target == rule.target and set(other.literals) <= set(rule.literals) for other in kept)
        if not covered:
            kept.append(rule)
    return sorted(kept, key=lambda rule: (rule.target, -rule.right))
