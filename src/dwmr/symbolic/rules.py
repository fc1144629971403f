"""The two forms of a symbolic model: rules shared by the cells of a grid, and rules for each bit by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dwmr.errors import InputError
from dwmr.symbolic.cells import Atom, Layout, Symbols, all_atoms, evaluate
from dwmr.symbolic.code_samples import Met
from dwmr.symbolic.fitting import Rule, apply_rules, fit_rules

FORMS = ("cells", "bits")
CHUNK = 500  # codes whose cells are looked at together


class RuleSet(Protocol):
    """What predicts as a model does, by rules."""

    @property
    def n_actions(self) -> int: ...

    @property
    def size(self) -> int:
        """How many rules there are."""

    def predict(self, codes: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """bool (N, K) and actions (N,) to the next bool (N, K)."""


@dataclass(frozen=True)
class CellRules:
    """Rules for the symbol of a cell, one list an action, shared by all cells. A rule's features are ``atoms``."""

    symbols: Symbols
    atoms: list[Atom]
    by_action: list[list[Rule]]

    @property
    def n_actions(self) -> int:
        return len(self.by_action)

    @property
    def size(self) -> int:
        return sum(map(len, self.by_action))

    @staticmethod
    def fit(met: Met, n_actions: int, layout: Layout) -> CellRules:
        symbols = Symbols.found_in(met.codes[~met.imagined], layout)
        tried = all_atoms(symbols)
        by_action = []
        for action in range(n_actions):
            chosen = met.actions == action
            before, after = symbols.read(met.codes[chosen]), symbols.read(met.after[chosen]).ravel()
            features = evaluate(tried, before, symbols).reshape(len(after), -1)
            own = before.ravel()
            known = (own < symbols.count) & (after < symbols.count)
            by_action.append(fit_rules(features[known], own[known], after[known], symbols.count))
        used = sorted({feature for rules in by_action for rule in rules for feature, _ in rule.literals})
        number = {feature: index for index, feature in enumerate(used)}
        renamed = [[_renamed(rule, number) for rule in rules] for rules in by_action]
        return CellRules(symbols, [tried[feature] for feature in used], renamed)

    def predict(self, codes: np.ndarray, actions: np.ndarray) -> np.ndarray:
        after = np.empty_like(codes)
        for action, rules in enumerate(self.by_action):
            chosen = np.flatnonzero(actions == action)
            for start in range(0, len(chosen), CHUNK):
                part = chosen[start : start + CHUNK]
                grids = self.symbols.read(codes[part])
                features = evaluate(self.atoms, grids, self.symbols).reshape(grids.size, -1)
                moved = apply_rules(rules, features, grids.ravel()).reshape(grids.shape)
                after[part] = self.symbols.write(moved, codes[part])
        return after


@dataclass(frozen=True)
class BitRules:
    """Rules for each bit by itself, by action and bit. A rule's features are all the bits of the code."""

    by_action: list[list[list[Rule]]]

    @property
    def n_actions(self) -> int:
        return len(self.by_action)

    @property
    def size(self) -> int:
        return sum(len(rules) for bits in self.by_action for rules in bits)

    @staticmethod
    def fit(met: Met, n_actions: int) -> BitRules:
        by_action = []
        for action in range(n_actions):
            chosen = met.actions == action
            codes, after = met.codes[chosen], met.after[chosen]
            own, then = codes.astype(np.int64), after.astype(np.int64)
            by_action.append([fit_rules(codes, own[:, bit], then[:, bit], 2) for bit in range(codes.shape[1])])
        return BitRules(by_action)

    def predict(self, codes: np.ndarray, actions: np.ndarray) -> np.ndarray:
        after = codes.copy()
        for action, bits in enumerate(self.by_action):
            chosen = actions == action
            before = codes[chosen]
            columns = [apply_rules(rules, before, before[:, bit].astype(np.int64)) for bit, rules in enumerate(bits)]
            if len(before):
                after[chosen] = np.stack(columns, axis=1).astype(bool)
        return after


def fit(met: Met, n_actions: int, layout: Layout | None, form: str = "auto") -> CellRules | BitRules:
    """Rules for what a model does with the codes it met. ``auto`` shares them by the cells where the code has a layout
    and its cells show few symbols."""
    if form not in ("auto", *FORMS):
        raise InputError(f"unknown form {form!r}; known: auto, {', '.join(FORMS)}")
    if form == "bits" or (form == "auto" and layout is None):
        return BitRules.fit(met, n_actions)
    if layout is None:
        raise InputError("rules shared by cells need an encoder that gives each cell bits of its own")
    try:
        return CellRules.fit(met, n_actions, layout)
    except InputError:
        if form == "cells":
            raise
        return BitRules.fit(met, n_actions)


def _renamed(rule: Rule, number: dict[int, int]) -> Rule:
    literals = tuple((number[feature], sign) for feature, sign in rule.literals)
    return Rule(rule.own, rule.target, literals, rule.right, rule.wrong)
