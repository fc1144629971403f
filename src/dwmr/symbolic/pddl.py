"""Rules as PDDL. The effects of actions are conditional; actions have no parameters.

Rules shared by cells give one domain for all boards. The problem lists the cells and which lies next to which, and
conditions on a cell (`dwmr.symbolic.cells.Atom`) become derived predicates. Rules for single bits give a domain of
propositions. A domain depends on the rules alone, a problem also on a start code and a goal code.
"""

import textwrap
from collections.abc import Iterable, Sequence

import numpy as np

from dwmr.errors import InputError
from dwmr.symbolic.cells import DIRECTIONS, Atom, Symbols
from dwmr.symbolic.fitting import Rule, exclusive
from dwmr.symbolic.rules import BitRules, CellRules

NAME = "learned"


def domain(rules: CellRules | BitRules, actions: Sequence[str]) -> str:
    """The domain, with one action for each name."""
    if len(actions) != len(rules.by_action) or len(set(actions)) != len(actions):
        raise InputError(f"expected {len(rules.by_action)} different names of actions, got {', '.join(actions)}")
    if isinstance(rules, CellRules):
        symbols = rules.symbols
        derived = [_derived(atom, symbols, "?c - cell") for atom in rules.atoms]
        predicates = [f"({_symbol(symbols, each)} ?c - cell)" for each in range(symbols.count)]
        predicates += [f"({way} ?c ?n - cell) (off-{way} ?c - cell)" for way in _ways(rules.atoms)]
        lines = ["  (:requirements :adl :derived-predicates)", "  (:types cell)"]
        lines.append(f"  (:predicates\n{_fill([*predicates, *derived])})")
        for fact, atom in zip(derived, rules.atoms):
            lines.append(f"  (:derived {fact}\n    {_meaning(atom, symbols)})")
    else:
        lines = ["  (:requirements :strips :negative-preconditions :conditional-effects)"]
        lines.append(f"  (:predicates\n{_fill(f'(b{bit})' for bit in range(rules.bits))})")
    for name, listed in zip(actions, rules.by_action):
        effects = "\n".join(_effect(rules, rule, listed[:index]) for index, rule in enumerate(listed))
        lines.append(f"  (:action {name}\n    :parameters ()\n    :precondition (and)\n    :effect (and\n{effects}))")
    return "\n".join([f"(define (domain {NAME})", *lines, ")\n"])


def problem(rules: CellRules | BitRules, start: np.ndarray, goal: np.ndarray, name: str = "problem") -> str:
    """The problem of getting from a start code bool (K,) to a goal code (K,), every bit of which counts."""
    if isinstance(rules, CellRules):
        symbols, rows, cols = rules.symbols, rules.symbols.layout.rows, rules.symbols.layout.cols
        before, wanted = symbols.read(np.stack([start, goal])).reshape(2, -1)
        if (wanted == symbols.other).any():
            row, col = divmod(int(np.argmax(wanted == symbols.other)), cols)
            raise InputError(f"the goal shows a pattern in row {row}, column {col} that no rule knows")
        cells = [f"c{row}-{col}" for row in range(rows) for col in range(cols)]
        facts = [f"({_symbol(symbols, each)} {cell})" for cell, each in zip(cells, before) if each != symbols.other]
        for way in _ways(rules.atoms):
            direction, _, steps = way.partition("-")
            down, right = (int(steps or 1) * step for step in DIRECTIONS[direction])
            for index, cell in enumerate(cells):
                other = f"c{index // cols + down}-{index % cols + right}"
                facts.append(f"({way} {cell} {other})" if other in cells else f"(off-{way} {cell})")
        objects, goals = [*cells, "- cell"], [f"({_symbol(symbols, each)} {cell})" for cell, each in zip(cells, wanted)]
    else:
        objects, facts = [], [f"(b{bit})" for bit in np.flatnonzero(start)]
        goals = [_signed(f"(b{bit})", on) for bit, on in enumerate(goal)]
    return (
        f"(define (problem {name})\n  (:domain {NAME})\n  (:objects\n{_fill(objects)})\n"
        f"  (:init\n{_fill(facts)})\n  (:goal (and\n{_fill(goals)})))\n"
    )


def _effect(rules: CellRules | BitRules, rule: Rule, earlier: list[Rule]) -> str:
    """The effect of a rule where no earlier rule applies that has another target."""
    if isinstance(rules, BitRules):
        facts = [_signed(f"(b{bit})", on) for bit, on in ((rule.bit, rule.own), *rule.literals)]
        return f"      (when (and {' '.join(facts)}) {_signed(f'(b{rule.bit})', rule.target)})"
    atoms, symbols = rules.atoms, rules.symbols

    def conditions(rule: Rule) -> str:
        return " ".join(_signed(_derived(atoms[feature], symbols, "?c"), sign) for feature, sign in rule.literals)

    own, target = (_symbol(symbols, each) for each in (rule.own, rule.target))
    when = [f"({own} ?c)", conditions(rule)]
    for other in earlier:
        if other.target != rule.target and not exclusive(other, rule):
            when.append(f"(not (and {conditions(other)}))")
    return f"      (forall (?c - cell) (when (and {' '.join(when)})\n        (and (not ({own} ?c)) ({target} ?c))))"


def _symbol(symbols: Symbols, symbol: int) -> str:
    return f"is-{symbols.name(symbol)}"


def _way(atom: Atom) -> str:
    return atom.direction if atom.distance <= 1 else f"{atom.direction}-{atom.distance}"


def _ways(atoms: Sequence[Atom]) -> list[str]:
    """The relations between cells that a domain needs: the next cell in a direction, or a cell farther away."""
    return sorted({_way(atom) for atom in atoms if atom.kind != "anywhere"})


def _derived(atom: Atom, symbols: Symbols, variable: str) -> str:
    """The predicate of a condition on a cell; its name is the condition in words."""
    name = f"where-{atom.text(symbols)}".replace(" ", "-")
    return f"({name})" if atom.kind == "anywhere" else f"({name} {variable})"


def _meaning(atom: Atom, symbols: Symbols) -> str:
    """The condition of a derived predicate. For the nearest cell it is recursive: the next cell, or the nearest one
    from there."""
    inner = [f"({_symbol(symbols, each)} ?n)" for each in atom.shows if each != symbols.edge]
    if atom.kind == "anywhere":
        return f"(exists (?n - cell) {_either(inner)})"
    beyond = [f"(off-{_way(atom)} ?c)"] if symbols.edge in atom.shows else []
    if atom.kind == "nearest":
        passed = [f"(not ({_symbol(symbols, each)} ?n))" for each in atom.among]
        inner.append(f"(and {' '.join(passed)} {_derived(atom, symbols, '?n')})")
    near = [f"(exists (?n - cell) (and ({_way(atom)} ?c ?n) {_either(inner)}))"] if inner else []
    return _either([*beyond, *near])


def _either(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"(or {' '.join(parts)})"


def _signed(fact: str, holds: int) -> str:
    return fact if holds else f"(not {fact})"


def _fill(parts: Iterable[str]) -> str:
    """Facts, filled into lines."""
    text = textwrap.fill(" ".join(parts), 110, break_long_words=False, break_on_hyphens=False)
    return textwrap.indent(text, "    ")
