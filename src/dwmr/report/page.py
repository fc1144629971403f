"""Write the report of a run: one HTML file that needs no other file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dwmr.data.transitions import Transitions
from dwmr.evaluation.evaluate import Evaluation
from dwmr.files import HTML_MARK, atomic_write_text
from dwmr.models.run_folder import RunInfo
from dwmr.models.world_model import WorldModel
from dwmr.report import sections
from dwmr.report.examples import transitions
from dwmr.report.markup import Markup, Section, element, joined
from dwmr.report.material import Material
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
    certificate: Mapping[str, Any] | None = None,
    title: str | None = None,
) -> None:
    """Write a page with a run's scores, reliability, single transitions, roll-outs, training curves and settings.

    Args:
        metrics: one record per epoch, see `dwmr.models.run_folder.read_metrics`
        evaluation: `evaluate_many` of ``model`` on ``test``
        certificate: `dwmr.certify` of the model, if the page is to show it
        title: by default the preset's name

    Raises:
        InputError: matplotlib is missing, or ``evaluation`` does not belong to ``test``; nothing is written.
    """
    material = Material(model, info, metrics, evaluation, test, certificate)
    atomic_write_text(path, _render(material, title or info.config.name))


def _render(material: Material, title: str) -> str:
    parts = _sections(material)
    links = element("nav", *(element("a", part.title, href=f"#{part.anchor}") for part in parts))
    about = [element("p", line, class_="about") for line in (_about(material, title), INTRODUCTION)]
    header = element("header", element("h1", title), *about, links, sections.key_figures(material.figures))
    body = joined([header, *map(_html, parts)])
    head = joined(
        [
            Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
            Markup('<meta name="color-scheme" content="light dark">'),
            Markup(HTML_MARK),
            element("title", title),
            element("style", Markup(CSS)),
        ]
    )
    return f'<!doctype html>\n<html lang="en">\n<head>{head}</head>\n<body>\n{body}\n</body>\n</html>\n'


def _sections(material: Material) -> list[Section]:
    figures = material.figures
    parts = [
        sections.board_scores(figures) if material.boards is not None else None,
        sections.trust(material.certificate) if material.certificate is not None else None,
        transitions(material),
        sections.rollouts(figures["rollout"]) if figures.get("rollout") else None,
        sections.code_health(figures["codes"]),
        sections.training(material.metrics),
        sections.configuration(material.info, len(material.metrics)),
    ]
    return [part for part in parts if part is not None]


def _about(material: Material, title: str) -> str:
    config, about = material.info.config, material.test.about
    source = " ".join(str(about[name]) for name in ("benchmark", "split") if name in about)
    return " · ".join(
        [
            *([config.name] if config.name != title else []),
            f"seed {material.info.seed}",
            f"{len(material.metrics)} of {config.epochs} epochs",
            f"{config.bits} bits",
            f"evaluated on {len(material.test):,} transitions{source and ': '}{source}",
        ]
    )


def _html(part: Section) -> Markup:
    how = element("p", part.how, class_="how")
    return element("section", element("h2", part.title), how, part.content, id=part.anchor)
