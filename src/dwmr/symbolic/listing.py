"""Rules to read, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dwmr.symbolic.cells import Symbols
from dwmr.symbolic.fitting import Rule
from dwmr.symbolic.rules import BitRules, CellRules
from dwmr.symbolic.saliency import Box, cell_box

SYMBOLS_PICTURE, BITS_PICTURE = "symbols.png", "bits.png"
MOST_SHOWN = 6  # rules of one bit and action that are listed; the others are counted


def listing(
    rules: CellRules | BitRules,
    actions: Sequence[str],
    image_shape: tuple[int, int, int],
    fidelity: dict[str, Any],
    pixels: Sequence[Box | None] | None = None,
    picture: bool = False,
) -> str:
    """Everything the rules say. ``pixels`` are those that each bit depends on, for rules of single bits."""
    head = ["# What the model has learned", "", *_standing(rules, fidelity), ""]
    if isinstance(rules, CellRules):
        body = _cell_listing(rules, actions, image_shape, picture)
    else:
        body = _bit_listing(rules, actions, pixels, picture)
    return "\n".join([*head, *body]) + "\n"


def _standing(rules: CellRules | BitRules, fidelity: dict[str, Any]) -> list[str]:
    form = "shared by all cells" if isinstance(rules, CellRules) else "each for one bit"
    return [
        f"{rules.size} rules, {form}, stand in for the predictor. On {fidelity['pairs']:,} codes and actions that they "
        f"were not fitted on they give the predictor's next code in {fidelity['states']:.2f}% of cases (predicting no "
        f"change: {fidelity['copy']:.2f}%) and {fidelity['bits']:.3f}% of its bits. Where no rule applies, nothing "
        "changes.",
    ]


def _cell_listing(
    rules: CellRules, actions: Sequence[str], image_shape: tuple[int, int, int], picture: bool
) -> list[str]:
    symbols = rules.symbols
    layout = symbols.layout
    _, height, width = image_shape
    top, bottom, left, right = cell_box(layout, 0, height, width)
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
    for symbol in range(symbols.count):
        targets = sorted(
            {symbols.name(rule.target) for listed in rules.by_action for rule in listed if rule.own == symbol}
        )
        lines.append(f"| {symbols.name(symbol)} | {', '.join(targets) or 'never changes'} |")
    for name, listed in zip(actions, rules.by_action):
        lines += ["", f"## On {name}", *_grouped(listed, rules)]
    for bit in range(layout.depth):
        lines += ["", f"## Bit {bit} of a cell"]
        for name, listed in zip(actions, rules.by_action):
            flips = [rule for rule in listed if _has(symbols, rule.own, bit) != _has(symbols, rule.target, bit)]
            lines += [
                f"- flips on {name} when the cell is {symbols.name(rule.own)}{_when(rule, rules, ' and ')}"
                for rule in flips
            ]
        if lines[-1].startswith("##"):
            lines.append("- never flips")
    return lines


def _grouped(listed: Sequence[Rule], rules: CellRules) -> list[str]:
    """The rules of one action, and how many examples of the fit each decided rightly."""
    lines = []
    for rule in listed:
        own, target = rules.symbols.name(rule.own), rules.symbols.name(rule.target)
        share = f"{rule.right:,} cases" + (f", wrong in {rule.wrong:,}" if rule.wrong else "")
        lines.append(f"- a cell that is {own} becomes {target}{_when(rule, rules, ' when ')} ({share})")
    return lines or ["- nothing changes"]


def _when(rule: Rule, rules: CellRules, link: str) -> str:
    conditions = [rules.atoms[feature].text(rules.symbols, sign) for feature, sign in rule.literals]
    return f"{link}{' and '.join(conditions)}" if conditions else ""


def _has(symbols: Symbols, symbol: int, bit: int) -> bool:
    return symbols.name(symbol)[bit] == "1"


def _bit_listing(
    rules: BitRules, actions: Sequence[str], pixels: Sequence[Box | None] | None, picture: bool
) -> list[str]:
    lines = [f"![Which pixels each bit depends on]({BITS_PICTURE})"] if picture else []
    for bit in range(len(rules.by_action[0])):
        lines += ["", f"## Bit {bit}", *([f"depends on {_pixels(pixels[bit])}"] if pixels is not None else []), ""]
        for name, by_bit in zip(actions, rules.by_action):
            shown = sorted(by_bit[bit], key=lambda rule: -rule.right)
            for rule in shown[:MOST_SHOWN]:
                conditions = [f"bit {other} is {'on' if sign else 'off'}" for other, sign in rule.literals]
                when = " and ".join([f"it is {'on' if rule.own else 'off'}", *conditions])
                lines.append(f"- flips on {name} when {when} ({rule.right:,} cases, wrong in {rule.wrong:,})")
            if len(shown) > MOST_SHOWN:
                lines.append(f"- flips on {name} by {len(shown) - MOST_SHOWN} more rules")
        if not lines[-1].startswith("-"):
            lines.append("- never flips")
    return lines


def _pixels(box: Box | None) -> str:
    if box is None:
        return "no pixels that could be found"
    top, bottom, left, right = box
    return f"pixels in rows {top}–{bottom - 1}, columns {left}–{right - 1}"
