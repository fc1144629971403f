"""A symbolic model of any world model, and the folder it is exported to."""

import importlib.util
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dwmr.data.transitions import Transitions
from dwmr.files import atomic_folder
from dwmr.models.callables import Encode, Predict, as_bits
from dwmr.plotting.pictures import figure_png, image_axes, to_picture
from dwmr.symbolic import pddl
from dwmr.symbolic.cells import Layout, Symbols
from dwmr.symbolic.rules import BitRules, CellRules, fidelity, sample_codes

DOMAIN, PROBLEM, RULES, FIDELITY, PICTURE = "domain.pddl", "problem.pddl", "rules.md", "fidelity.json", "symbols.png"
EXPORTED = (DOMAIN, PROBLEM, RULES, FIDELITY, PICTURE)
PICTURED = 400  # frames from which the picture is cut
EXAMPLES = 6  # of each symbol


@dataclass(frozen=True)
class SymbolicModel:
    """Rules, how closely they follow the predictor on held-out codes, and the names of the actions."""

    rules: CellRules | BitRules
    fidelity: dict[str, Any]
    actions: Sequence[str]


def learn_symbols(
    encode: Encode,
    predict: Predict,
    train: Transitions,
    test: Transitions,
    *,
    actions: Sequence[str],
    layout: Layout | None = None,
) -> SymbolicModel:
    """Fit rules to the codes that a model encounters in ``train``, and judge them on those in ``test``.

    The rules are shared by the cells of the layout; without a layout, or if its cells show too many symbols, each bit
    gets its own.
    """
    samples, count = sample_codes(encode, predict, train), train.n_actions
    symbols = None if layout is None else Symbols.found_in(samples.codes[~samples.imagined], layout)
    rules = BitRules.fit(samples, count) if symbols is None else CellRules.fit(samples, count, symbols)
    return SymbolicModel(rules, fidelity(rules, sample_codes(encode, predict, test)), actions)


def export_pddl(
    model: SymbolicModel,
    encode: Encode,
    train: Transitions,
    folder: str | Path,
    *,
    problem: str | None = None,
    overwrite: bool = False,
) -> list[str]:
    """Write domain, rules, fidelity and a problem (as PDDL) into a new folder, or over an old one; the files' names."""
    domain, figures = pddl.domain(model.rules, model.actions), json.dumps(model.fidelity, indent=2) + "\n"
    files = {DOMAIN: domain.encode(), FIDELITY: figures.encode()}
    if problem is not None:
        files[PROBLEM] = problem.encode()
    if isinstance(model.rules, CellRules) and importlib.util.find_spec("matplotlib") is not None:
        images = np.asarray(train.obs[:: -(-len(train) // PICTURED)])
        files[PICTURE] = _symbols_png(model.rules.symbols, images, as_bits(encode(images)))
    files[RULES] = _listing(model, PICTURE in files).encode()
    with atomic_folder(folder, overwrite=overwrite) as fresh:
        for name, content in files.items():
            (fresh / name).write_bytes(content)
    return sorted(files)


def _listing(model: SymbolicModel, picture: bool) -> str:
    """All rules in words, as Markdown."""
    rules, found = model.rules, model.fidelity
    lines = [
        "# What the model has learned",
        "",
        f"These {found['rules']} rules say how each action changes the code. Where no rule applies, nothing changes.",
        "",
        f"On {found['pairs']:,} held-out (code, action) pairs, they match the predictor's next code in "
        f"{found['states']:.2f}% of cases, and {found['bits']:.3f}% of its bits. Without rules, that is if nothing "
        f"ever changed, {found['copy']:.2f}% of the codes would match.",
    ]
    if isinstance(rules, CellRules):
        layout = rules.symbols.layout
        lines += [
            "",
            f"The code has {layout.rows}×{layout.cols} cells, and the same rules hold for every cell. Digits such as "
            f"{rules.symbols.name(0)} are the bits of a cell: “000 → 001” means that a cell changes from 000 to 001. "
            "Outside the board there are no bits, so there “is 000” is false and “is not 000” is true.",
        ]
    if picture:
        lines += ["", f"![What cells of each symbol look like]({PICTURE})"]
    for name, listed in zip(model.actions, rules.by_action):
        lines += ["", f"## On {name}", *([] if listed else ["- nothing changes"])]
        for rule in listed:
            wrong = f", wrong in {rule.wrong:,}" if rule.wrong else ""
            lines.append(f"- {rules.in_words(rule)} ({rule.right:,} cases{wrong})")
    return "\n".join(lines) + "\n"


def _symbols_png(symbols: Symbols, images: np.ndarray, codes: np.ndarray) -> bytes:
    """One row for each symbol: cells that show it, cut from images uint8 (N, C, H, W) with codes (N, K)."""
    read = symbols.read(codes)
    rows, cols = (np.arange(cells + 1) * side // cells for cells, side in zip(read.shape[1:], images.shape[2:]))
    figure, axes = image_axes(symbols.count, EXAMPLES, 0.6 * EXAMPLES + 1.1, 0.62 * symbols.count + 0.1)
    for symbol in range(symbols.count):
        places = np.argwhere(read == symbol)
        chosen = places[np.linspace(0, len(places) - 1, min(EXAMPLES, len(places))).astype(int)]
        for axis, (frame, row, col) in zip(axes[symbol], chosen):
            cut = images[frame, :, rows[row] : rows[row + 1], cols[col] : cols[col + 1]]
            axis.imshow(to_picture(cut), interpolation="nearest")
        first = axes[symbol, 0]
        first.text(-0.25, 0.5, symbols.name(symbol), transform=first.transAxes, ha="right", va="center")
    return figure_png(figure)
