"""Single transitions: which ones a report shows, and a card for each."""

from __future__ import annotations

import math

import numpy as np

from dwmr.data.transitions import Transitions
from dwmr.evaluation.evaluate import Evaluation
from dwmr.models.world_model import WorldModel
from dwmr.plotting.pictures import png_bytes, to_picture
from dwmr.report.markup import Markup, Section, element, image, joined, table

SHOWN = 6
OFF, ON, FLIPPED, WRONG = np.array([[227, 231, 236], [29, 35, 43], [47, 111, 208], [216, 72, 62]], np.uint8)
_COLOURS = "d9dee5 bfdcf5 c5e6bd fbcf8f dcc8f2 b5e3dc f4c3d9 efe79c d9c3ab b7c4ea dcebb4 c3c8cf"
LABELS = np.array([list(bytes.fromhex(colour)) for colour in _COLOURS.split()])  # repeated from the thirteenth on


def pick(changed: np.ndarray, wrong: np.ndarray) -> dict[int, str]:
    """Up to six different transitions, each with the reason why it was chosen.

    Args:
        changed: bool (N,), whether the action changes the code
        wrong: bool (N,), whether the next code is predicted incorrectly
    """
    kinds = {
        "the code changes and is predicted correctly": changed & ~wrong,
        "the code changes and is predicted incorrectly": changed & wrong,
        "the code does not change, but is predicted incorrectly": ~changed & wrong,
        "the code does not change and is predicted correctly": ~changed & ~wrong,
    }
    chosen: dict[int, str] = {}
    for most in (1, SHOWN):  # the second round fills the places of kinds that do not occur
        for reason, kind in kinds.items():
            left = np.setdiff1d(np.flatnonzero(kind), list(chosen))
            places = min(most, SHOWN - len(chosen), len(left))
            chosen |= dict.fromkeys(left[np.linspace(0, len(left) - 1, places).astype(int)].tolist(), reason)
    return chosen


def transitions(model: WorldModel, evaluation: Evaluation, test: Transitions) -> Section:
    """The section with the cards."""
    changed = (evaluation.codes != evaluation.next_codes).any(1).cpu().numpy()
    wrong = (evaluation.predicted != evaluation.next_codes).any(1).cpu().numpy()
    how = (
        "Each card shows a frame, the next frame, and what the model predicts, with their codes. Dark squares are bits "
        "that are on. Blue bits flip between the two frames; red bits are predicted incorrectly. Boards read from the "
        "codes show a colour per label, and incorrect cells in red."
    )
    tally = (
        f"{changed.sum():,} of {len(changed):,} transitions change the code: {(changed & ~wrong).sum():,} of these are "
        f"predicted without error, and {(~changed & ~wrong).sum():,} of the {(~changed).sum():,} others."
    )
    cards = [_card(model, evaluation, test, index, reason) for index, reason in pick(changed, wrong).items()]
    content = joined([element("p", tally), element("div", *cards, class_="cards")])
    return Section("transitions", "Transitions", how, content)


def _card(model: WorldModel, evaluation: Evaluation, test: Transitions, index: int, reason: str) -> Markup:
    codes = [part[index : index + 1] for part in (evaluation.codes, evaluation.next_codes, evaluation.predicted)]
    now, then, predicted = (part[0].cpu().numpy() for part in codes)
    flipped, wrong = now != then, predicted != then
    drawn: object = "no decoder"
    if model.decoder is not None:
        drawn = _picture(model.decode(codes[2])[0].cpu().numpy(), "decoded from the predicted code")
    rows: list[list[object]] = [
        ["frame", _picture(test.obs[index], "frame"), _picture(test.next_obs[index], "next frame"), drawn],
        [
            "code",
            _grid(_painted(now)),
            _grid(_painted(then, flipped, FLIPPED), note=f"{flipped.sum()} flipped"),
            _grid(_painted(predicted, wrong, WRONG), note=f"{wrong.sum()} wrong"),
        ],
    ]
    labels = test.board_labels("the report")
    if evaluation.probe is not None and labels is not None:
        rows.append(["read"])
        for code, boards in zip(codes, (labels[0], labels[1], labels[1])):
            board, true = evaluation.probe.read(code)[0], boards[index]
            missed = board != true.ravel()
            colours = np.where(missed[:, None], WRONG, LABELS[board % len(LABELS)])
            rows[-1].append(_grid(colours, true.shape, note=f"{missed.sum()} wrong"))
    caption = element("figcaption", element("b", f"Transition {index}, action {test.actions[index]}"), f": {reason}")
    return element("figure", caption, table(["", "now", "next", "predicted"], rows), class_="card")


def _picture(frame: np.ndarray, describe: str) -> Markup:
    return image(png_bytes(to_picture(np.asarray(frame))), describe)


def _painted(bits: np.ndarray, marked: np.ndarray | None = None, colour: np.ndarray = ON) -> np.ndarray:
    """The colours (K, 3) of bits: dark if on, light if off, ``colour`` if marked."""
    colours = np.where(bits[:, None], ON, OFF)
    return colours if marked is None else np.where(marked[:, None], colour, colours)


def _grid(colours: np.ndarray, shape: tuple[int, ...] = (), note: str = "") -> Markup:
    """Items in their colours (count, 3) as squares: in rows and columns of this shape, or nearly in a square."""
    count = len(colours)
    columns = shape[1] if len(shape) == 2 else math.ceil(math.sqrt(count))
    padded = np.pad(colours, ((0, -count % columns), (0, 0)), constant_values=255)
    squares = padded.reshape(-1, columns, 3).astype(np.uint8)
    return joined([image(png_bytes(squares), "grid"), element("small", note)])
