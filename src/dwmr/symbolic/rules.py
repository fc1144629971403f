"""The two forms of a symbolic model: rules shared by the cells of a grid, and rules for each bit."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dwmr.errors import InputError
from dwmr.symbolic.cells import Atom, Layout, Symbols, all_atoms, evaluate
from dwmr.symbolic.code_samples import CodeSamples
from dwmr.symbolic.fitting import Rule, apply_rules, fit_rules

CODES_AT_ONCE = 500  # whose cells are evaluated together


@dataclass(frozen=True)
class CellRules:
    """Rules for the symbol of a cell, one list for each action, shared by all cells. Their features are ``atoms``."""

    symbols: Symbols
    atoms: list[Atom]
    by_action: list[list[Rule]]

    @property
    def size(self) -> int:
        """The number of rules."""
        return sum(map(len, self.by_action))

    @staticmethod
    def fit(samples: CodeSamples, n_actions: int, layout: Layout) -> CellRules:
        symbols = Symbols.found_in(samples.codes[~samples.imagined], layout)
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
        number = {feature: index for index, feature in enumerate(used)}

        def renumbered(rule: Rule) -> Rule:
            return replace(rule, literals=tuple((number[feature], sign) for feature, sign in rule.literals))

        return CellRules(symbols, [tried[feature] for feature in used], [list(map(renumbered, r)) for r in by_action])

    def predict(self, codes: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """bool (N, K) and actions (N,) to the next bool (N, K)."""
        after = np.empty_like(codes)
        for action, rules in enumerate(self.by_action):
            chosen = np.flatnonzero(actions == action)
            for start in range(0, len(chosen), CODES_AT_ONCE):
                part = chosen[start : start + CODES_AT_ONCE]
                grids = self.symbols.read(codes[part])
                features = evaluate(self.atoms, grids, self.symbols).reshape(grids.size, -1)
                moved = apply_rules(rules, features, grids.ravel()).reshape(grids.shape)
                after[part] = self.symbols.write(moved, codes[part])
        return after


@dataclass(frozen=True)
class BitRules:
    """Rules for single bits, by action and bit. Their features are all bits of the code."""

    by_action: list[list[list[Rule]]]

    @property
    def size(self) -> int:
        """The number of rules."""
        return sum(len(rules) for bits in self.by_action for rules in bits)

    @staticmethod
    def fit(samples: CodeSamples, n_actions: int) -> BitRules:
        by_action = []
        for action in range(n_actions):
            chosen = samples.actions == action
            codes = samples.codes[chosen]
            own, then = codes.astype(np.int64), samples.after[chosen].astype(np.int64)
            by_action.append([fit_rules(codes, own[:, bit], then[:, bit], 2) for bit in range(codes.shape[1])])
        return BitRules(by_action)

    def predict(self, codes: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """bool (N, K) and actions (N,) to the next bool (N, K)."""
        after = codes.copy()
        for action, bits in enumerate(self.by_action):
            chosen = actions == action
            before = codes[chosen]
            columns = [apply_rules(rules, before, before[:, bit].astype(np.int64)) for bit, rules in enumerate(bits)]
            if len(before):
                after[chosen] = np.stack(columns, axis=1).astype(bool)
        return after


def fit(samples: CodeSamples, n_actions: int, layout: Layout | None) -> CellRules | BitRules:
    """Rules for what a model does: shared by cells, if the code has a layout and its cells show few symbols."""
    if layout is not None:
        try:
            return CellRules.fit(samples, n_actions, layout)
        except InputError:  # too many symbols
            pass
    return BitRules.fit(samples, n_actions)
