"""`dwmr evaluate` and `dwmr certify`."""

from pathlib import Path
from typing import Annotated, Any

import typer

import dwmr
from dwmr.cli import common, tables
from dwmr.cli.common import command
from dwmr.data.transitions import Splits, Transitions
from dwmr.errors import InputError
from dwmr.evaluation.evaluate import evaluate_many
from dwmr.files import check_output
from dwmr.models.run_folder import read_metrics
from dwmr.models.world_model import WorldModel
from dwmr.worlds.digits import SOURCES
from dwmr.worlds.registry import WORLDS

MAX_LEVELS = 250
LEVELS_HELP = (
    "Number of test levels in which the model's state graph (all reachable states, and which action leads from which "
    "to which) is compared with the true one. The true graph is known only for built-in worlds with few states per "
    "level. 0 skips the comparison."
)
CERTIFY_SEEDED = f'the pixel noise added for the question "noise", and {common.RENDERING} for the question "graph"'


@command(
    "dwmr evaluate runs/ice",
    "dwmr evaluate runs/ice --data data/iceslider --split val --json",
    "dwmr evaluate runs/ice --report report.html",
)
def evaluate(
    run: common.RunFolder,
    data: common.RunData = None,
    split: common.Split = "test",
    horizon: common.Horizon = 1000,
    report: Annotated[Path | None, typer.Option(help="Also write an HTML report to this file.")] = None,
    overwrite: common.Overwrite = False,
    seed: Annotated[int, common.seed_of("how the probe is trained, and the confidence intervals")] = 0,
    device: common.Device = "auto",
    as_json: common.AsJson = False,
) -> None:
    """Evaluate a world model: what its bits say about an image, and how accurate its predictions are over many steps.

    Labels are the content of every cell of the board that an image shows. If the data has labels, a linear probe (a
    small classifier, trained on the split train) predicts them from the bits; its scores come with 95% confidence
    intervals and two simple baselines. A roll-out predicts many steps ahead, given only the first image and the
    actions. If the data has no split named rollout, roll-outs are not measured. docs/reference/metrics.md defines all
    metrics.
    """
    if report is not None:
        from dwmr.plotting.pictures import require_matplotlib

        require_matplotlib()
        if report.is_dir() or not report.name:
            raise InputError(f"--report must be the path of an HTML file, got {str(report)!r}")
        check_output(report, overwrite=overwrite, inputs=[run, data])
    info, model, splits, test = common.open_run(run, data, split, device)
    (evaluation,) = evaluate_many(
        [model], train=splits.train, test=test, rollout=splits.rollout, horizon=horizon, seed=seed, intervals=True
    )
    if report is not None:
        from dwmr.report.page import write_report

        certificate = _certificate(model, splits, test, horizon, seed)
        metrics = read_metrics(run)
        write_report(
            report, model=model, info=info, metrics=metrics, evaluation=evaluation, test=test, certificate=certificate
        )
    if as_json:
        common.print_json(evaluation.figures)
        return
    for table in tables.evaluation(evaluation.figures):
        common.out.print(table)
    if report is not None:
        common.say(f"Report: {report}")


@command("dwmr certify runs/ice", "dwmr certify runs/ice --data data/iceslider --levels 50 --json")
def certify(
    run: common.RunFolder,
    data: common.RunData = None,
    split: common.Split = "test",
    horizon: common.Horizon = 1000,
    levels: Annotated[int, typer.Option(help=LEVELS_HELP, min=0, max=MAX_LEVELS)] = MAX_LEVELS,
    seed: Annotated[int, common.seed_of(CERTIFY_SEEDED)] = 0,
    device: common.Device = "auto",
    as_json: common.AsJson = False,
) -> None:
    """Check how reliable a model is: eight questions, each answered with yes, partly, no or not tested.

    Most questions need no labels (see dwmr evaluate). A question that the data cannot answer is "not tested", and the
    reason is printed. If the data has no split named rollout, roll-outs are measured on the episodes of --split
    instead, for at most 100 steps, whatever --horizon says. docs/howto/check-trust.md explains the questions.
    """
    _, model, splits, test = common.open_run(run, data, split, device)
    certificate = _certificate(model, splits, test, horizon, seed, levels)
    if as_json:
        common.print_json(certificate)
        return
    common.out.print(tables.certificate(certificate))
    common.say(certificate["summary"])


def _certificate(
    model: WorldModel, splits: Splits, test: Transitions, horizon: int, seed: int, levels: int = MAX_LEVELS
) -> dict[str, Any]:
    """`dwmr.certify` of a model, with the true graphs of the world that the data comes from."""
    model.check_fits(test)
    world = WORLDS.get(test.about.get("benchmark", ""))
    graphs = None
    if world is not None and levels:
        digits = test.about.get("digits")
        drawn = world.with_digits(digits if digits in SOURCES else "mnist")
        graphs = drawn.true_graphs(world.levels["test"][:levels], seed)
    return dwmr.certify(
        model.encode, model.predict, test, rollouts=splits.rollout, graphs=graphs, horizon=horizon, seed=seed
    )
