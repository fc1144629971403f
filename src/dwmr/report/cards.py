"""Single transitions: which ones a report shows, and a card for each."""

import math

import numpy as np

from dwmr.data.transitions import Transitions
from dwmr.evaluation.evaluate import Evaluation
from dwmr.models.world_model import WorldModel
from dwmr.plotting.pictures import png_bytes, to_picture
from dwmr.report.markup import Markup, element, image, section, table

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


def transitions(model: WorldModel, evaluation: Evaluation, test: Transitions) -> Markup:
    """The section with the cards."""
    changed = (evaluation.codes != evaluation.next_codes).any(1).cpu().numpy()
    wrong = (evaluation.predicted != evaluation.next_codes).any(1).cpu().numpy()
    how = (
        "Each card shows a frame, the next frame, and what the model predicts, with their codes. Dark squares are bits "
        "that are on. Blue bits flip between the two frames; red bits are predicted incorrectly. "
        f"{changed.sum():,} of {len(changed):,} transitions change the code: {(changed & ~wrong).sum():,} of these are "
        f"predicted without error, and {(~changed & ~wrong).sum():,} of the {(~changed).sum():,} others."
    )
    cards = [_card(model, evaluation, test, index) for index in pick(changed, wrong)]
    return section("transitions", "Transitions", how, element("div", *cards, class_="cards"))


def _card(model: WorldModel, evaluation: Evaluation, test: Transitions, index: int) -> Markup:
    codes = evaluation.codes, evaluation.next_codes, evaluation.predicted
    now, then, predicted = (part[index].cpu().numpy() for part in codes)
    drawn: object = "no decoder"
    if model.decoder is not None:
        drawn = _picture(model.decode(predicted[None])[0].cpu().numpy(), "decoded from the predicted code")
    rows: list[list[object]] = [
        ["frame", _picture(test.obs[index], "frame"), _picture(test.next_obs[index], "next frame"), drawn],
        ["code", _code(now), _code(then, now != then, FLIPPED), _code(predicted, predicted != then, WRONG)],
    ]
    caption = element("figcaption", element("b", f"Transition {index}, action {test.actions[index]}"))
    return element("figure", caption, table(["", "now", "next", "predicted"], rows), class_="card")


def _picture(frame: np.ndarray, describe: str) -> Markup:
    return image(png_bytes(to_picture(np.asarray(frame))), describe)


def _code(bits: np.ndarray, marked: np.ndarray | bool = False, colour: np.ndarray = ON) -> Markup:
    """Bits (K,) as squares, in a square of rows and columns: dark if on, light if off, ``colour`` if marked."""
    colours = np.where(np.c_[bits], ON, OFF)
    colours = np.where(np.c_[marked], colour, colours)
    columns = math.ceil(math.sqrt(len(bits)))
    padded = np.pad(colours, ((0, -len(bits) % columns), (0, 0)), constant_values=255)
    return image(png_bytes(padded.reshape(-1, columns, 3)), "code")
