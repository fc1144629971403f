"""A trained model in other forms."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from dwmr.cli.common import AsJson, Device, Overwrite, Seed, app, example, open_run, print_json, say
from dwmr.data.transitions import Splits, Transitions
from dwmr.errors import InputError, unknown
from dwmr.files import check_output
from dwmr.models.onnx_export import ENCODER, PREDICTOR, export_onnx, require_packages
from dwmr.models.world_model import WorldModel
from dwmr.planning.strip import read_image
from dwmr.symbolic import EXPORTED, Task, export_pddl, fast_downward, layout_of, learn_symbols, solve
from dwmr.symbolic.rules import FORMS
from dwmr.worlds.registry import WORLDS, action_names

TARGETS = ("onnx", "pddl")
CHECKED = 2000  # images on which an ONNX export is checked
KEPT_BACK = 0.2  # of lone training data, to judge the rules on


@app.command(
    epilog=example(
        "dwmr export runs/ice --to onnx --out ice-onnx",
        "dwmr export runs/ice --to pddl --out ice-pddl --level 2000 --solve",
        "dwmr export runs/mine --to pddl --out mine-pddl --start now.png --goal then.png",
    )
)
def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    to: Annotated[str, typer.Option("--to", help="onnx or pddl.")],
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    data: Annotated[Path | None, typer.Option(help="Data folder or .npz; by default the run's benchmark.")] = None,
    level: Annotated[int | None, typer.Option(help="pddl: the problem is this level of the world.", min=0)] = None,
    start: Annotated[Path | None, typer.Option(help="pddl: image of the problem's start.")] = None,
    goal: Annotated[Path | None, typer.Option(help="pddl: image of its goal.")] = None,
    form: Annotated[str, typer.Option(help="pddl: rules shared by cells, of single bits, or auto.")] = "auto",
    run_planner: Annotated[bool, typer.Option("--solve", help="pddl: solve the problem with Fast Downward.")] = False,
    overwrite: Overwrite = False,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Write a model in another form: ONNX networks, or rules as PDDL with a listing to read."""
    if to not in TARGETS:
        raise unknown("target", to, TARGETS)
    holds = (ENCODER, PREDICTOR) if to == "onnx" else EXPORTED
    check_output(out, overwrite=overwrite, inputs=[run, data, start, goal], holds=holds)
    if to == "onnx":
        _onnx(run, out, data, overwrite, as_json)
        return
    if (start is None) != (goal is None) or (level is not None and start is not None):
        raise InputError("name a problem by --level, or by --start and --goal together")
    if form not in ("auto", *FORMS):
        raise unknown("form", form, ("auto", *FORMS))
    if run_planner:
        if level is None and start is None:
            raise InputError("--solve needs a problem: --level, or --start and --goal")
        fast_downward.find()
    info, model, splits, train = open_run(run, data, "train", device)
    benchmark = info.config.benchmark
    task = _task(model, benchmark, level, start, goal)
    fitted_on, judged_on = _parts(splits, train)
    symbolic = learn_symbols(
        model.encode,
        model.predict,
        fitted_on,
        judged_on,
        actions=action_names(benchmark, model.n_actions),
        layout=layout_of(model),
        form=form,
    )
    solution = solve(symbolic, model.encode, model.predict, task) if run_planner and task is not None else None
    files = export_pddl(
        symbolic, model.encode, fitted_on, out, task=task, solution=solution, seed=seed, overwrite=overwrite
    )
    if as_json:
        print_json({"out": str(out), "files": files, "fidelity": symbolic.fidelity, "solution": solution})
        return
    found = symbolic.fidelity
    say(f"{out}: {', '.join(files)}")
    cases = f"{found['pairs']:,} held-out cases"
    say(f"{found['rules']} rules, the predictor's next code in {found['states']:.2f}% of {cases}")
    if solution is not None:
        say(_in_words(solution))


def _onnx(run: Path, out: Path, data: Path | None, overwrite: bool, as_json: bool) -> None:
    require_packages()
    _, model, _, judged = open_run(run, data, "train", "cpu")
    step = -(-len(judged) // CHECKED)
    images, actions = np.asarray(judged.obs[::step]), np.asarray(judged.actions[::step])
    checked = export_onnx(model, out, images, actions, overwrite=overwrite)
    if as_json:
        print_json({"out": str(out), "files": [ENCODER, PREDICTOR], "checked": checked})
        return
    say(f"{out}: {ENCODER} and {PREDICTOR}, the same {checked['bits']} bits on {checked['images']:,} images and codes")


def _task(model: WorldModel, benchmark: str, level: int | None, start: Path | None, goal: Path | None) -> Task | None:
    if start is not None and goal is not None:
        return Task("problem", read_image(start, model.image_shape), read_image(goal, model.image_shape))
    if level is None:
        return None
    if benchmark not in WORLDS:
        raise InputError(f"the run's world {benchmark!r} has no levels; name images by --start and --goal")
    return Task.of_world(benchmark, level)


def _parts(splits: Splits, train: Transitions) -> tuple[Transitions, Transitions]:
    """What to fit on and what to judge on: another split, or the end of the only one."""
    held_out = splits.test or splits.val
    if held_out is not None:
        return train, held_out
    kept = int(len(train) * (1 - KEPT_BACK))
    if kept == 0:
        raise InputError(f"{len(train)} transitions are too few to fit rules on")
    return train[:kept], train[kept:]


def _in_words(solution: dict[str, Any]) -> str:
    if solution["plan"] is None:
        nothing = {"exhausted": "the rules admit no plan"}
        return f"Fast Downward: {nothing.get(solution['outcome'], solution['outcome'])}"
    agrees = "the predictor agrees" if solution["predictor_agrees"] else "the predictor ends elsewhere"
    ending = ""
    if "reached" in solution:
        really = "reaches the goal" if solution["reached"] else "misses the goal"
        ending = f"; in the real environment it {really} (shortest way: {solution['shortest']})"
    return f"Fast Downward: {' '.join(solution['plan'])} ({solution['length']} actions); {agrees}{ending}"
