"""Single transitions: which ones a report shows, and a card for each."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dwmr.report import grids
from dwmr.report.markup import Markup, Section, element, image, joined
from dwmr.report.material import Boards, Material

SHOWN = 6


def pick(changed: np.ndarray, errors: np.ndarray, what: str) -> list[tuple[int, str]]:
    """Up to six different transitions, each with the reason why it was chosen.

    Args:
        changed: bool (N,), whether the action changes the board (or, without labels, the code)
        errors: integers (N,), the number of cells (or bits) predicted incorrectly
        what: "board" or "code"
    """
    correct, wrong = errors == 0, errors > 0
    kinds = [
        (changed & correct, 2, f"the {what} changes and is predicted correctly"),
        (wrong & (np.arange(len(errors)) == errors.argmax()), 1, f"the {what} with the most errors"),
        (changed & wrong, 1, f"the {what} changes and is predicted incorrectly"),
        (~changed & wrong, 1, f"the {what} does not change, but is predicted incorrectly"),
        (~changed & correct, 1, f"the {what} does not change and is predicted correctly"),
    ]
    chosen: dict[int, str] = {}
    # The second round fills the places of kinds that do not occur.
    for more in (0, SHOWN):
        for mask, usual, reason in kinds:
            left = np.setdiff1d(np.flatnonzero(mask), list(chosen))
            places = min(usual + more, SHOWN - len(chosen))
            chosen |= dict.fromkeys(_spread(left, places), reason)
    return list(chosen.items())


def transitions(material: Material) -> Section:
    boards = material.boards
    if boards is not None:
        what, unit = "board", "cells"
        changed = (boards.now != boards.then).any(1)
        errors = (boards.imagined != boards.then).sum(1)
    else:
        what, unit = "code", "bits"
        changed = (material.codes != material.next_codes).any(1)
        errors = (material.predicted != material.next_codes).sum(1)
    correct = errors == 0
    how = (
        "Each card shows a frame, the next frame, and what the model predicts, with their codes. Dark squares are bits "
        "that are on. Blue bits flip between the two frames; red bits are predicted incorrectly."
        + (" Boards read from the code mark incorrect cells with a red frame." if boards is not None else "")
    )
    tally = (
        f"{changed.sum():,} of {len(errors):,} transitions change the {what}: {(changed & correct).sum():,} of these "
        f"are predicted without error, and {(~changed & correct).sum():,} of the {(~changed).sum():,} others."
    )
    cards = [
        _card(material, index, f"{reason} ({errors[index]} wrong {unit})")
        for index, reason in pick(changed, errors, what)
    ]
    content = joined([element("p", tally), element("div", *cards, class_="cards")])
    return Section("transitions", "Transitions", how, content)


def _card(material: Material, index: int, reason: str) -> Markup:
    rows = [_row("frame", _frames(material, index)), _row("code", _codes(material, index))]
    boards = material.boards
    if boards is not None:
        where = grids.layout(boards.now.shape[1], boards.shape)
        rows.append(_row("board", [grids.board(where, boards.now[index]), grids.board(where, boards.then[index]), ""]))
        rows.append(_row("read", _read_boards(where, boards, index)))
    columns = element("tr", *(element("th", name, scope="col") for name in ("", "now", "next", "predicted")))
    heading = element("b", f"Transition {index}, action {material.test.actions[index]}")
    caption = element("figcaption", heading, f": {reason}")
    return element("figure", caption, element("table", columns, joined(rows)), class_="card")


def _row(name: str, cells: Iterable[object]) -> Markup:
    return element("tr", element("th", name, scope="row"), *(element("td", cell) for cell in cells))


def _frames(material: Material, index: int) -> list[object]:
    test, model = material.test, material.model
    frames = [image(np.asarray(test.obs[index]), "frame"), image(np.asarray(test.next_obs[index]), "next frame")]
    if model.decoder is None:
        return [*frames, element("small", "no decoder")]
    decoded = model.decode(material.predicted[index : index + 1])[0].cpu().numpy()
    return [*frames, joined([image(decoded, "decoded from the predicted code"), element("small", "decoded")], "")]


def _codes(material: Material, index: int) -> list[Markup]:
    now, then, predicted = material.codes[index], material.next_codes[index], material.predicted[index]
    boards = material.boards
    where = grids.layout(len(now), boards.shape if boards is not None and boards.grid_probe else None)
    flipped, wrong = (now != then).sum(), (predicted != then).sum()
    return [
        grids.code(where, now),
        joined([grids.code(where, then, now, "flip"), _count(flipped, "flipped", "flip")], ""),
        joined([grids.code(where, predicted, then, "wrong"), _count(wrong, "wrong", "wrong")], ""),
    ]


def _read_boards(where: np.ndarray, boards: Boards, index: int) -> list[Markup]:
    pairs = ((boards.read_now, boards.now), (boards.read_then, boards.then), (boards.imagined, boards.then))
    drawn = []
    for read, true in pairs:
        wrong = (read[index] != true[index]).sum()
        drawn.append(joined([grids.board(where, read[index], true[index]), _count(wrong, "wrong", "wrong")], ""))
    return drawn


def _count(count: int, word: str, kind: str) -> Markup:
    return element("small", f"{count} {word}", class_=kind if count else "none")


def _spread(indices: np.ndarray, count: int) -> list[int]:
    """``count`` of the indices at even distances, or all if there are fewer."""
    count = min(count, len(indices))
    return [int(indices[(2 * place + 1) * len(indices) // (2 * count)]) for place in range(count)]
