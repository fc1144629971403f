"""Write the report of a run: one HTML file that needs no other file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dwmr.data.transitions import Transitions
from dwmr.errors import InputError
from dwmr.evaluation.evaluate import Evaluation
from dwmr.files import HTML_MARK, atomic_write_text
from dwmr.models.run_folder import RunInfo
from dwmr.models.world_model import WorldModel
from dwmr.report import sections
from dwmr.report.cards import transitions
from dwmr.report.markup import Markup, element
from dwmr.report.style import CSS

INTRODUCTION = (
    "A Boolean world model encodes an image as bits, its code, and predicts the next code from the code and an action."
)


def write_report(
    path: str | Path,
    *,
    model: WorldModel,
    info: RunInfo,
    metrics: Sequence[Mapping[str, Any]],
    evaluation: Evaluation,
    test: Transitions,
    certificate: Mapping[str, Any],
) -> None:
    """Write a page with a run's scores, reliability, single transitions, roll-outs and training curves.

    Args:
        metrics: one record per epoch, see `dwmr.models.run_folder.read_metrics`
        evaluation: `evaluate_many` of ``model`` on ``test``
        certificate: `dwmr.certify` of ``model`` on ``test``

    Raises:
        InputError: matplotlib is missing, or ``evaluation`` does not belong to ``test``; nothing is written.
    """
    if len(test) != len(evaluation.codes):
        raise InputError(f"the evaluation has {len(evaluation.codes)} transitions, but test has {len(test)}")
    figures = evaluation.figures
    source = " ".join(str(test.about[name]) for name in ("benchmark", "split") if name in test.about)
    about = (
        f"seed {info.seed} · {len(metrics)} of {info.config.epochs} epochs · {info.config.bits} bits · "
        f"evaluated on {len(test):,} transitions{source and ': '}{source}"
    )
    head = element(
        "head",
        Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup(HTML_MARK),
        element("title", info.config.name),
        element("style", Markup(CSS)),
    )
    body = element(
        "body",
        element("h1", info.config.name),
        *(element("p", line, class_="about") for line in (about, INTRODUCTION)),
        *([sections.board_scores(figures)] if "encoding" in figures else []),
        sections.reliability(certificate),
        transitions(model, evaluation, test),
        *([sections.rollouts(figures["rollout"])] if figures.get("rollout") else []),
        sections.training(metrics),
    )
    atomic_write_text(path, f"<!doctype html>\n{element('html', head, body, lang='en')}\n")
