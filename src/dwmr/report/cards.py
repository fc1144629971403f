"""Single transitions: which ones a report shows, and a card for each."""

import math

import numpy as np

from dwmr.data.transitions import Transitions
from dwmr.evaluation.evaluate import Evaluation
from dwmr.models.world_model import WorldModel
from dwmr.plotting.pictures import png_bytes, to_picture
from dwmr.report.markup import Markup, Section, element, image, joined, table

SHOWN = 6
OFF, ON, FLIPPED, WRONG = np.array([[227, 231, 236], [29, 35, 43], [47, 111, 208], [216, 72, 62]], np.uint8)


def pick(changed: np.ndarray, wrong: np.ndarray) -> list[int]:
    """Up to three transitions, spread over the data, whose next code is predicted incorrectly, then up to three that
    change the code and are predicted correctly, then others; at most six. Both arrays are bool (N,)."""
    chosen: list[int] = []
    for kind in (wrong, changed & ~wrong, ~changed & ~wrong):
        found = np.flatnonzero(kind)
        count = min(SHOWN // 2, SHOWN - len(chosen), len(found))
        chosen += found[np.linspace(0, len(found) - 1, count).astype(int)].tolist()
    return chosen


def transitions(model: WorldModel, evaluation: Evaluation, test: Transitions) -> Section:
    """The section with the cards."""
    changed = (evaluation.codes != evaluation.next_codes).any(1).cpu().numpy()
    wrong = (evaluation.predicted != evaluation.next_codes).any(1).cpu().numpy()
    how = (
        "Each card shows a frame, the next frame, and what the model predicts, with their codes. Dark squares are bits "
        "that are on. Blue bits flip between the two frames; red bits are predicted incorrectly."
    )
    tally = (
        f"{changed.sum():,} of {len(changed):,} transitions change the code: {(changed & ~wrong).sum():,} of these are "
        f"predicted without error, and {(~changed & ~wrong).sum():,} of the {(~changed).sum():,} others."
    )
    cards = [_card(model, evaluation, test, index) for index in pick(changed, wrong)]
    content = joined([element("p", tally), element("div", *cards, class_="cards")])
    return Section("transitions", "Transitions", how, content)


def _card(model: WorldModel, evaluation: Evaluation, test: Transitions, index: int) -> Markup:
    codes = evaluation.codes, evaluation.next_codes, evaluation.predicted
    now, then, predicted = (part[index].cpu().numpy() for part in codes)
    flipped, wrong = now != then, predicted != then
    drawn: object = "no decoder"
    if model.decoder is not None:
        drawn = _picture(model.decode(predicted[None])[0].cpu().numpy(), "decoded from the predicted code")
    rows: list[list[object]] = [
        ["frame", _picture(test.obs[index], "frame"), _picture(test.next_obs[index], "next frame"), drawn],
        [
            "code",
            _grid(_painted(now)),
            _grid(_painted(then, flipped, FLIPPED), note=f"{flipped.sum()} flipped"),
            _grid(_painted(predicted, wrong, WRONG), note=f"{wrong.sum()} wrong"),
        ],
    ]
    caption = element("figcaption", element("b", f"Transition {index}, action {test.actions[index]}"))
    return element("figure", caption, table(["", "now", "next", "predicted"], rows), class_="card")


def _picture(frame: np.ndarray, describe: str) -> Markup:
    return image(png_bytes(to_picture(np.asarray(frame))), describe)


def _painted(bits: np.ndarray, marked: np.ndarray | None = None, colour: np.ndarray = ON) -> np.ndarray:
    """The colours (K, 3) of bits: dark if on, light if off, ``colour`` if marked."""
    colours = np.where(bits[:, None], ON, OFF)
    return colours if marked is None else np.where(marked[:, None], colour, colours)


def _grid(colours: np.ndarray, note: str = "") -> Markup:
    """Items in their colours (count, 3) as squares, in a square of rows and columns."""
    columns = math.ceil(math.sqrt(len(colours)))
    padded = np.pad(colours, ((0, -len(colours) % columns), (0, 0)), constant_values=255)
    squares = padded.reshape(-1, columns, 3).astype(np.uint8)
    return joined([image(png_bytes(squares), "grid"), element("small", note)])
