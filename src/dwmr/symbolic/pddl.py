"""Rules as PDDL. The effects of actions are conditional; actions have no parameters.

Rules shared by cells give one domain for all boards. The problem lists the cells and which lies next to which, and
conditions on a cell (`dwmr.symbolic.cells.Atom`) become derived predicates. Rules for single bits give a domain of
propositions. A domain depends on the rules alone, a problem also on a start code and a goal code.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    return _cell_domain(rules, actions) if isinstance(rules, CellRules) else _bit_domain(rules, actions)


def problem(rules: CellRules | BitRules, start: np.ndarray, goal: np.ndarray, name: str = "problem") -> str:
    """The problem of getting from a start code bool (K,) to a goal code (K,), every bit of which counts."""
    if isinstance(rules, CellRules):
        return _cell_problem(rules, start, goal, name)
    facts = _lines(4, [f"(b{bit})" for bit in np.flatnonzero(start)])
    wanted = _lines(4, [f"(b{bit})" if on else f"(not (b{bit}))" for bit, on in enumerate(goal)])
    return f"(define (problem {name})\n  (:domain {NAME})\n  (:init\n{facts})\n  (:goal (and\n{wanted})))\n"


def _cell_domain(rules: CellRules, actions: Sequence[str]) -> str:
    symbols, atoms = rules.symbols, rules.atoms
    static = [f"({way} ?c ?n - cell) (off-{way} ?c - cell)" for way in _ways(atoms)]
    shown = [f"({_symbol(symbols, each)} ?c - cell)" for each in range(symbols.count)]
    derived = [_declared(atom, symbols) for atom in atoms]
    axioms = [
        f"  ; {atom.text(symbols)}\n  (:derived {_declared(atom, symbols)}\n    {_meaning(atom, symbols)})"
        for atom in atoms
    ]
    bodies = [
        _action(name, [_cell_effect(rule, earlier, rules) for rule, earlier in _with_earlier(listed)])
        for name, listed in zip(actions, rules.by_action)
    ]
    predicates = f"  (:types cell)\n  (:predicates\n{_lines(4, [*shown, *static, *derived])})"
    return _domain(":adl :derived-predicates", [predicates, *axioms, *bodies])


def _cell_problem(rules: CellRules, start: np.ndarray, goal: np.ndarray, name: str) -> str:
    symbols = rules.symbols
    rows, cols = symbols.layout.rows, symbols.layout.cols
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
            row, col = index // cols + down, index % cols + right
            inside = 0 <= row < rows and 0 <= col < cols
            facts.append(f"({way} {cell} c{row}-{col})" if inside else f"(off-{way} {cell})")
    goals = [f"({_symbol(symbols, each)} {cell})" for cell, each in zip(cells, wanted)]
    return (
        f"(define (problem {name})\n  (:domain {NAME})\n  (:objects\n{_lines(4, cells)} - cell)\n"
        f"  (:init\n{_lines(4, facts)})\n  (:goal (and\n{_lines(4, goals)})))\n"
    )


def _bit_domain(rules: BitRules, actions: Sequence[str]) -> str:
    bits = len(rules.by_action[0])
    bodies = []
    for name, by_bit in zip(actions, rules.by_action):
        effects = []
        for bit, listed in enumerate(by_bit):
            for rule in listed:
                literals = [(bit, bool(rule.own)), *rule.literals]
                when = " ".join(f"(b{each})" if sign else f"(not (b{each}))" for each, sign in dict.fromkeys(literals))
                becomes = f"(b{bit})" if rule.target else f"(not (b{bit}))"
                effects.append(f"      (when (and {when}) {becomes})")
        bodies.append(_action(name, effects))
    predicates = "  (:predicates\n" + _lines(4, [f"(b{bit})" for bit in range(bits)]) + ")"
    return _domain(":strips :negative-preconditions :conditional-effects", [predicates, *bodies])


def _domain(requirements: str, parts: list[str]) -> str:
    return "\n".join([f"(define (domain {NAME})", f"  (:requirements {requirements})", *parts, ")\n"])


def _action(name: str, effects: list[str]) -> str:
    body = "\n".join(effects)
    return f"  (:action {name}\n    :parameters ()\n    :precondition (and)\n    :effect (and\n{body}))"


def _cell_effect(rule: Rule, earlier: list[Rule], rules: CellRules) -> str:
    own, target = (_symbol(rules.symbols, each) for each in (rule.own, rule.target))
    when = [f"({own} ?c)", *_conditions(rule, rules)]
    when += [f"(not (and {' '.join(_conditions(other, rules))}))" for other in earlier]
    return f"      (forall (?c - cell) (when (and {' '.join(when)})\n        (and (not ({own} ?c)) ({target} ?c))))"


def _conditions(rule: Rule, rules: CellRules) -> list[str]:
    used = [(_declared(rules.atoms[feature], rules.symbols, typed=False), sign) for feature, sign in rule.literals]
    return [text if sign else f"(not {text})" for text, sign in used]


def _with_earlier(rules: list[Rule]) -> list[tuple[Rule, list[Rule]]]:
    """Each rule with the earlier ones that take precedence: they have another target, and might apply too."""
    return [
        (rule, [other for other in rules[:index] if other.target != rule.target and not exclusive(other, rule)])
        for index, rule in enumerate(rules)
    ]


def _symbol(symbols: Symbols, symbol: int) -> str:
    return f"is-{symbols.name(symbol)}"


def _way(atom: Atom) -> str:
    return atom.direction if atom.distance <= 1 else f"{atom.direction}-{atom.distance}"


def _ways(atoms: Sequence[Atom]) -> list[str]:
    """The relations between cells that a domain needs: the next cell in a direction, or a cell farther away."""
    return sorted({_way(atom) for atom in atoms if atom.kind != "anywhere"})


def _name(atom: Atom, symbols: Symbols) -> str:
    shown = "-or-".join("edge" if each == symbols.edge else symbols.name(each) for each in atom.shows)
    if atom.kind == "anywhere":
        return f"somewhere-{shown}"
    if atom.kind == "at":
        return f"{_way(atom)}-is-{shown}"
    return f"nearest-{atom.direction}-of-{'-'.join(map(symbols.name, atom.among))}-is-{shown}"


def _declared(atom: Atom, symbols: Symbols, typed: bool = True) -> str:
    variable = "" if atom.kind == "anywhere" else " ?c - cell" if typed else " ?c"
    return f"({_name(atom, symbols)}{variable})"


def _meaning(atom: Atom, symbols: Symbols) -> str:
    """The condition of a derived predicate. For the nearest cell it is recursive: the next cell, or the nearest one
    from there."""
    inner = [f"({_symbol(symbols, each)} ?n)" for each in atom.shows if each != symbols.edge]
    if atom.kind == "anywhere":
        return f"(exists (?n - cell) {_either(inner)})"
    beyond = [f"(off-{_way(atom)} ?c)"] if symbols.edge in atom.shows else []
    if atom.kind == "nearest":
        passed = [f"(not ({_symbol(symbols, each)} ?n))" for each in atom.among]
        inner.append(f"(and {' '.join(passed)} ({_name(atom, symbols)} ?n))")
    near = [f"(exists (?n - cell) (and ({_way(atom)} ?c ?n) {_either(inner)}))"] if inner else []
    return _either([*beyond, *near])


def _either(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"(or {' '.join(parts)})"


def _lines(indent: int, words: Sequence[str], width: int = 110) -> str:
    """Words, filled into lines."""
    lines = [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return "\n".join(" " * indent + line for line in lines)
