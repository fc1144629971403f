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

INTRODUCTION = (
    "A Boolean world model encodes an image as bits, its code, and predicts the next code from the code and an action."
)
CSS = """
body { margin: 2.5rem auto; padding: 0 1.5rem; max-width: 72rem; color: #1d232b; font: .9375rem/1.5 sans-serif; }
section { margin-top: 2.2rem; border-top: 1px solid #d9dee5; overflow-x: auto; }
.about, .how, figcaption { color: #667080; }
table { border-collapse: collapse; }
th, td { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #d9dee5; text-align: right; vertical-align: top; }
th { font-weight: 500; }
th:first-child, .words td, .words th { text-align: left; }
figure { margin: 0; }
img { width: 100%; }
.small { display: grid; grid-template-columns: repeat(auto-fill, minmax(13.5rem, 1fr)); gap: 1rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(27rem, 100%), 1fr)); gap: 1rem; }
.card { padding: 1rem; background: #f6f8fa; border-radius: .5rem; }
.card table { width: 100%; table-layout: fixed; }
.card th, .card td { border: 0; padding: .25rem; text-align: center; }
.card img { display: block; max-height: 11rem; object-fit: contain; image-rendering: pixelated; }
"""


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
