"""Rules in words, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dwmr.symbolic.cells import Box
from dwmr.symbolic.fitting import Rule
from dwmr.symbolic.rules import BitRules, CellRules

SYMBOLS_PICTURE, BITS_PICTURE = "symbols.png", "bits.png"
MAX_LISTED = 6  # rules of one bit and action; the others are counted


def listing(
    rules: CellRules | BitRules,
    actions: Sequence[str],
    image_shape: tuple[int, int, int],
    fidelity: dict[str, Any],
    pixels: Sequence[Box | None] | None = None,
    picture: bool = False,
) -> str:
    """All rules in words. ``pixels`` are those that each bit depends on, for rules of single bits."""
    form = "shared by all cells" if isinstance(rules, CellRules) else "each for one bit"
    head = [
        "# What the model has learned",
        "",
        f"{rules.size} rules, {form}, stand in for the predictor. On {fidelity['pairs']:,} codes and actions that they "
        f"were not fitted on they give the predictor's next code in {fidelity['states']:.2f}% of cases (predicting no "
        f"change: {fidelity['copy']:.2f}%) and {fidelity['bits']:.3f}% of its bits. Where no rule applies, nothing "
        "changes.",
        "",
    ]
    if isinstance(rules, CellRules):
        body = _cell_listing(rules, actions, image_shape, picture)
    else:
        body = _bit_listing(rules, actions, pixels, picture)
    return "\n".join([*head, *body]) + "\n"


def _cell_listing(
    rules: CellRules, actions: Sequence[str], image_shape: tuple[int, int, int], picture: bool
) -> list[str]:
    symbols, layout = rules.symbols, rules.symbols.layout
    top, bottom, left, right = layout.box(0, *image_shape[1:])
    lines = [
        f"The code is a grid of {layout.rows}×{layout.cols} cells with {layout.depth} bits each. Bit n is bit "
        f"n div {layout.rows * layout.cols} of the cell in row n div {layout.cols} mod {layout.rows}, column "
        f"n mod {layout.cols}, and depends on the {bottom - top}×{right - left} pixels of that cell alone.",
        "",
        "## Symbols",
        "What a cell shows is named by its bits.",
        "",
        *([f"![What cells of each symbol look like]({SYMBOLS_PICTURE})", ""] if picture else []),
        "| symbol | becomes |",
        "|---|---|",
    ]
    every = [rule for listed in rules.by_action for rule in listed]
    for symbol in range(symbols.count):
        targets = sorted({symbols.name(rule.target) for rule in every if rule.own == symbol})
        lines.append(f"| {symbols.name(symbol)} | {', '.join(targets) or 'never changes'} |")
    for name, listed in zip(actions, rules.by_action):
        lines += ["", f"## On {name}"]
        for rule in listed:
            cases = f"{rule.right:,} cases" + (f", wrong in {rule.wrong:,}" if rule.wrong else "")
            change = f"a cell that is {symbols.name(rule.own)} becomes {symbols.name(rule.target)}"
            lines.append(f"- {change}{_when(rule, rules, ' when ')} ({cases})")
        if not listed:
            lines.append("- nothing changes")
    for bit in range(layout.depth):
        lines += ["", f"## Bit {bit} of a cell"]
        for name, listed in zip(actions, rules.by_action):
            for rule in listed:
                own, target = symbols.name(rule.own), symbols.name(rule.target)
                if own[bit] != target[bit]:
                    lines.append(f"- flips on {name} when the cell is {own}{_when(rule, rules, ' and ')}")
        if lines[-1].startswith("##"):
            lines.append("- never flips")
    return lines


def _when(rule: Rule, rules: CellRules, link: str) -> str:
    conditions = [rules.atoms[feature].text(rules.symbols, sign) for feature, sign in rule.literals]
    return f"{link}{' and '.join(conditions)}" if conditions else ""


def _bit_listing(
    rules: BitRules, actions: Sequence[str], pixels: Sequence[Box | None] | None, picture: bool
) -> list[str]:
    lines = [f"![Which pixels each bit depends on]({BITS_PICTURE})"] if picture else []
    for bit in range(len(rules.by_action[0])):
        lines += ["", f"## Bit {bit}", *([f"depends on {_pixels(pixels[bit])}"] if pixels is not None else []), ""]
        for name, by_bit in zip(actions, rules.by_action):
            listed = sorted(by_bit[bit], key=lambda rule: -rule.right)
            for rule in listed[:MAX_LISTED]:
                conditions = [f"bit {other} is {'on' if sign else 'off'}" for other, sign in rule.literals]
                when = " and ".join([f"it is {'on' if rule.own else 'off'}", *conditions])
                lines.append(f"- flips on {name} when {when} ({rule.right:,} cases, wrong in {rule.wrong:,})")
            if len(listed) > MAX_LISTED:
                lines.append(f"- flips on {name} by {len(listed) - MAX_LISTED} more rules")
        if not lines[-1].startswith("-"):
            lines.append("- never flips")
    return lines


def _pixels(box: Box | None) -> str:
    if box is None:
        return "no pixels that could be found"
    top, bottom, left, right = box
    return f"pixels in rows {top}–{bottom - 1}, columns {left}–{right - 1}"
