"""Rules for what a model does: codes to fit them to, their two forms, and how closely they follow the model.

The rules of a code with a spatial layout are shared by its cells. Any other code has rules for each of its bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dwmr.data.transitions import Transitions, continued
from dwmr.models.callables import Encode, Predict, as_bits, take
from dwmr.symbolic.cells import Atom, Symbols, all_atoms, evaluate
from dwmr.symbolic.fitting import Rule, apply_rules, fit_rules, holds

PAIRS = 16_000  # pairs of a code and an action that rules are fitted or judged on
DEPTH = 3  # imagined steps after each frame


@dataclass(frozen=True)
class CodeSamples:
    """Pairs of a code and an action, and what the model predicts for them."""

    codes: np.ndarray  # bool (M, K)
    actions: np.ndarray  # int (M,)
    after: np.ndarray  # the predicted codes, bool (M, K)
    imagined: np.ndarray  # bool (M,): the code was predicted, not observed


def sample_codes(encode: Encode, predict: Predict, data: Transitions) -> CodeSamples:
    """Codes of frames spread over the data, and codes imagined from them along the actions that were taken next.

    So no action is tried where the data never tries it.
    """
    follows = np.zeros(len(data), bool)  # transitions that the next one continues
    if data.episode is not None:
        follows[continued(data.episode)[0]] = True
    steps = 1 if data.episode is None else DEPTH + 1
    now = np.unique(np.linspace(0, len(data) - 1, min(len(data), -(-PAIRS // steps))).astype(np.int64))
    actions, codes = np.asarray(data.actions).astype(np.int64), encode(np.asarray(data.obs[now]))
    parts = []
    for step in range(steps):
        after = predict(codes, actions[now])
        parts.append((as_bits(codes), actions[now], as_bits(after), np.full(len(now), step > 0)))
        kept = np.flatnonzero(follows[now])
        if not kept.size:
            break
        codes, now = take(after, kept), now[kept] + 1
    return CodeSamples(*(np.concatenate(column) for column in zip(*parts)))


@dataclass(frozen=True)
class CellRules:
    """Rules for the symbol of a cell, one list for each action, shared by all cells. Their features are ``atoms``."""

    symbols: Symbols
    atoms: list[Atom]
    by_action: list[list[Rule]]

    @staticmethod
    def fit(samples: CodeSamples, n_actions: int, symbols: Symbols) -> CellRules:
        tried = all_atoms(symbols)
        by_action = []
        for action in range(n_actions):
            chosen = samples.actions == action
            before, after = symbols.read(samples.codes[chosen]), symbols.read(samples.after[chosen]).ravel()
            features = evaluate(tried, before, symbols).reshape(len(after), -1)
            own = before.ravel()
            known = (own < symbols.count) & (after < symbols.count)
            by_action.append(fit_rules(features[known], own[known], after[known], symbols.count))
        used = sorted({feature for rules in by_action for rule in rules for feature, _ in rule.literals})

        def renumbered(rule: Rule) -> Rule:
            return replace(rule, literals=tuple((used.index(each), sign) for each, sign in rule.literals))

        return CellRules(symbols, [tried[each] for each in used], [list(map(renumbered, each)) for each in by_action])

    def predict(self, codes: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """bool (N, K) and actions (N,) to the next bool (N, K)."""
        after = codes.copy()
        for action, rules in enumerate(self.by_action):
            chosen = actions == action
            grids = self.symbols.read(codes[chosen])
            features = evaluate(self.atoms, grids, self.symbols).reshape(grids.size, -1)
            moved = apply_rules(rules, features, grids.ravel()).reshape(grids.shape)
            after[chosen] = self.symbols.write(moved, codes[chosen])
        return after

    def in_words(self, rule: Rule) -> str:
        conditions = [self.atoms[feature].text(self.symbols, sign) for feature, sign in rule.literals]
        when = f" if {', and '.join(conditions)}" if conditions else ""
        return f"{self.symbols.name(rule.own)} → {self.symbols.name(rule.target)}{when}"


@dataclass(frozen=True)
class BitRules:
    """Rules for single bits, one list for each action. Their features are all bits of the code."""

    bits: int
    by_action: list[list[Rule]]

    @staticmethod
    def fit(samples: CodeSamples, n_actions: int) -> BitRules:
        bits = samples.codes.shape[1]
        by_action = []
        for action in range(n_actions):
            chosen = samples.actions == action
            codes, after = samples.codes[chosen], samples.after[chosen]
            found = [fit_rules(codes, codes[:, bit].astype(int), after[:, bit].astype(int), 2) for bit in range(bits)]
            by_action.append([replace(rule, bit=bit) for bit, rules in enumerate(found) for rule in rules])
        return BitRules(bits, by_action)

    def predict(self, codes: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """bool (N, K) and actions (N,) to the next bool (N, K)."""
        after = codes.copy()
        for action, rules in enumerate(self.by_action):
            for rule in rules:
                applies = (actions == action) & (codes[:, rule.bit] == rule.own) & holds(rule, codes)
                after[applies, rule.bit] = rule.target
        return after

    def in_words(self, rule: Rule) -> str:
        literals = ((rule.bit, rule.own), *rule.literals)
        when = " and ".join(f"bit {bit} is {'on' if sign else 'off'}" for bit, sign in literals)
        return f"bit {rule.bit} flips when {when}"


def fidelity(rules: CellRules | BitRules, samples: CodeSamples) -> dict[str, Any]:
    """How closely rules follow the model, in percent.

    form          cells or bits, whichever the rules are about
    rules, pairs  how many rules there are, and codes with actions
    bits, states  bits, and whole codes, that the rules predict as the model does
    copy          whole codes that do not change
    """
    right = rules.predict(samples.codes, samples.actions) == samples.after
    return {
        "form": "cells" if isinstance(rules, CellRules) else "bits",
        "rules": sum(map(len, rules.by_action)),
        "pairs": len(right),
        "bits": 100 * float(right.mean()),
        "states": 100 * float(right.all(1).mean()),
        "copy": 100 * float((samples.codes == samples.after).all(1).mean()),
    }
