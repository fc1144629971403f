"""Single transitions to look at: which ones are shown, and one card for each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dwmr.data.transitions import Transitions
from dwmr.models.world_model import WorldModel
from dwmr.report import grids
from dwmr.report.markup import Markup, Section, element, image, joined
from dwmr.report.material import Boards, Material

SHOWN = 6


def pick(changed: np.ndarray, errors: np.ndarray, what: str) -> list[tuple[int, str]]:
    """Up to `SHOWN` different transitions, each with the reason it was chosen.

    changed  bool (N,): the action changes the board (or, without labels, the code)
    errors   integers (N,): cells (or bits) that are imagined wrongly
    """
    right, wrong = errors == 0, errors > 0
    wanted = [
        (changed & right, 2, f"the action changes the {what}, which is imagined rightly"),
        (wrong & (np.arange(len(errors)) == errors.argmax()), 1, f"the {what} imagined worst of all"),
        (changed & wrong, 1, f"the action changes the {what}, which is imagined wrongly"),
        (~changed & wrong, 1, f"the action changes nothing, yet the {what} is imagined wrongly"),
        (~changed & right, 1, f"the action changes nothing, and the {what} is imagined rightly"),
    ]
    chosen: dict[int, str] = {}
    # A second round fills the places of the kinds that do not occur.
    for more in (0, SHOWN):
        for mask, usual, reason in wanted:
            left = np.setdiff1d(np.flatnonzero(mask), list(chosen))
            places = min(usual + more, SHOWN - len(chosen))
            chosen |= dict.fromkeys(_spread(left, places), reason)
    return list(chosen.items())


def transitions(model: WorldModel, test: Transitions, material: Material) -> Section:
    boards = material.boards
    if boards is not None:
        what, unit = "board", "cells"
        changed = (boards.now != boards.then).any(1)
        errors = (boards.imagined != boards.then).sum(1)
    else:
        what, unit = "code", "bits"
        changed = (material.codes != material.next_codes).any(1)
        errors = (material.predicted != material.next_codes).sum(1)
    right = errors == 0
    how = (
        "The code of a frame, of the next frame, and as imagined from the former: full bits are on, faint ones off; "
        "blue bits flipped, red bits are imagined wrongly"
        + (", and red frames mark cells that are read wrongly." if boards is not None else ".")
    )
    tally = (
        f"Of the {len(test):,} transitions {changed.sum():,} change the {what}; in {(changed & right).sum():,} of them "
        f"the whole {what} is imagined rightly, and in {(~changed & right).sum():,} of the {(~changed).sum():,} others."
    )
    cards = [
        _card(model, test, material, index, f"{reason} ({errors[index]} {unit} wrong)")
        for index, reason in pick(changed, errors, what)
    ]
    content = joined([element("p", tally), element("div", *cards, class_="cards")])
    return Section("transitions", "Transitions", how, content)


def _card(model: WorldModel, test: Transitions, material: Material, index: int, reason: str) -> Markup:
    rows = [_row("frame", _frames(model, test, material, index)), _row("code", _codes(material, index))]
    if material.boards is not None:
        where = grids.layout(material.boards.now.shape[1], material.boards.shape)
        rows.append(_row("board", _true_boards(where, material.boards, index)))
        rows.append(_row("read", _read_boards(where, material.boards, index)))
    columns = element("tr", *(element("th", name, scope="col") for name in ("", "now", "next", "imagined")))
    heading = element("b", f"Transition {index}, action {test.actions[index]}")
    caption = element("figcaption", heading, f" · chosen: {reason}")
    return element("figure", caption, element("table", columns, joined(rows)), class_="card")


def _row(name: str, cells: Iterator[object]) -> Markup:
    return element("tr", element("th", name, scope="row"), *(element("td", cell) for cell in cells))


def _frames(model: WorldModel, test: Transitions, material: Material, index: int) -> Iterator[object]:
    yield image(np.asarray(test.obs[index]), "frame")
    yield image(np.asarray(test.next_obs[index]), "next frame")
    if model.decoder is not None:
        decoded = model.decode(material.predicted[index : index + 1])[0].cpu().numpy()
        yield joined([image(decoded, "decoded from the imagined code"), element("small", "decoded")], "")
    else:
        yield element("small", "no decoder")


def _codes(material: Material, index: int) -> Iterator[Markup]:
    now, then, imagined = material.codes[index], material.next_codes[index], material.predicted[index]
    boards = material.boards
    where = grids.layout(len(now), boards.shape if boards is not None and boards.grid_probe else None)
    flipped, wrong = (now != then).sum(), (imagined != then).sum()
    yield grids.code(where, now)
    yield joined([grids.code(where, then, now, "flip"), _count(flipped, "flipped", "flip")], "")
    yield joined([grids.code(where, imagined, then, "wrong"), _count(wrong, "wrong", "wrong")], "")


def _true_boards(where: np.ndarray, boards: Boards, index: int) -> Iterator[object]:
    yield grids.board(where, boards.now[index])
    yield grids.board(where, boards.then[index])
    yield ""


def _read_boards(where: np.ndarray, boards: Boards, index: int) -> Iterator[Markup]:
    for read, true in (
        (boards.read_now, boards.now),
        (boards.read_then, boards.then),
        (boards.imagined, boards.then),
    ):
        wrong = (read[index] != true[index]).sum()
        yield joined([grids.board(where, read[index], true[index]), _count(wrong, "wrong", "wrong")], "")


def _count(count: int, word: str, kind: str) -> Markup:
    return element("small", f"{count} {word}", class_=kind if count else "none")


def _spread(indices: np.ndarray, count: int) -> list[int]:
    """``count`` of the indices, or all if there are fewer, at even distances."""
    count = min(count, len(indices))
    return [int(indices[(2 * place + 1) * len(indices) // (2 * count)]) for place in range(count)]
