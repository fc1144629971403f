"""The report of a run: one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dwmr.data.transitions import Transitions
from dwmr.evaluation.evaluate import Evaluation
from dwmr.files import atomic_write_text
from dwmr.models.checkpoint import RunInfo
from dwmr.models.world_model import WorldModel
from dwmr.report import sections
from dwmr.report.examples import transitions
from dwmr.report.markup import Markup, Section, element, joined
from dwmr.report.material import Material, gather
from dwmr.report.style import CSS


def write_report(
    path: str | Path,
    *,
    model: WorldModel,
    info: RunInfo,
    metrics: Sequence[Mapping[str, Any]],
    evaluation: Evaluation,
    test: Transitions,
    certificate: Mapping[str, Any] | None = None,
    title: str | None = None,
) -> None:
    """Write a page about a run: scores, training, bits, single transitions, roll-outs, configuration.

    Args:
        evaluation: `evaluate_many` of ``model`` on ``test``
        certificate: `dwmr.certify` of the model, if the page is to show it
        title: the preset's name if not given

    Raises:
        InputError: matplotlib is not installed, or the evaluation is not of this test split; nothing was written.
    """
    atomic_write_text(path, render(model, info, metrics, evaluation, test, certificate, title or info.config.name))


def render(
    model: WorldModel,
    info: RunInfo,
    metrics: Sequence[Mapping[str, Any]],
    evaluation: Evaluation,
    test: Transitions,
    certificate: Mapping[str, Any] | None,
    title: str,
) -> str:
    material = gather(evaluation, test)
    scores = evaluation.figures
    parts = list(_sections(model, info, metrics, scores, test, material, certificate))
    links = element("nav", *(element("a", part.title, href=f"#{part.anchor}") for part in parts))
    header = element(
        "header",
        element("h1", title),
        element("p", _about(info, len(metrics), test, title), class_="about"),
        links,
        sections.key_figures(scores),
    )
    body = joined([header, *map(_html, parts)])
    head = joined(
        [
            Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
            Markup('<meta name="color-scheme" content="light dark">'),
            element("title", title),
            element("style", Markup(CSS)),
        ]
    )
    return f'<!doctype html>\n<html lang="en">\n<head>{head}</head>\n<body>\n{body}\n</body>\n</html>\n'


def _sections(
    model: WorldModel,
    info: RunInfo,
    metrics: Sequence[Mapping[str, Any]],
    scores: Mapping[str, Any],
    test: Transitions,
    material: Material,
    certificate: Mapping[str, Any] | None,
) -> Iterator[Section]:
    if material.boards is not None:
        yield sections.board_scores(scores)
    yield sections.training(metrics)
    yield sections.bit_statistics(material, test.n_actions)
    yield transitions(model, test, material)
    if material.boards is not None:
        yield sections.confusion_matrix(material.boards)
    if scores.get("rollout"):
        yield sections.rollouts(scores["rollout"])
    if certificate is not None:
        yield sections.trust(certificate)
    yield sections.code_health(scores["codes"])
    yield sections.configuration(info, len(metrics))


def _about(info: RunInfo, epochs_done: int, test: Transitions, title: str) -> str:
    config = info.config
    source = " ".join(str(test.about[name]) for name in ("benchmark", "split") if name in test.about)
    return " · ".join(
        [
            *([config.name] if config.name != title else []),
            f"seed {info.seed}",
            f"{epochs_done} of {config.epochs} epochs",
            f"{config.bits} bits",
            f"judged on {len(test):,} transitions{source and ': '}{source}",
        ]
    )


def _html(part: Section) -> Markup:
    how = element("p", part.how, class_="how")
    return element("section", element("h2", part.title), how, part.content, id=part.anchor)
