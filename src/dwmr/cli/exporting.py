"""Exporting a model: ONNX networks, or rules and PDDL."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from dwmr.cli.common import (
    LEVEL_HELP,
    AsJson,
    Device,
    Overwrite,
    RunData,
    RunFolder,
    Seed,
    app,
    err,
    example,
    open_run,
    print_json,
    say,
    task_number,
    world_of,
)
from dwmr.data.image_files import read_image
from dwmr.data.transitions import Splits, Transitions
from dwmr.errors import InputError, unknown
from dwmr.files import check_output
from dwmr.models.onnx_export import ENCODER, PREDICTOR, export_onnx, require_packages
from dwmr.models.run_folder import read_info
from dwmr.planning.prepared import DIGITS
from dwmr.symbolic import EXPORTED, Problem, export_pddl, fast_downward, layout_of, learn_symbols, solve
from dwmr.worlds.registry import action_names, find_world

TARGETS = ("onnx", "pddl")
CHECKED = 2000  # images on which an ONNX export is checked
PDDL_NAME = re.compile("[a-z][a-z0-9-]*")
SOLVE_HELP = f"pddl: solve the problem with Fast Downward, in at most {fast_downward.SECONDS:.0f} seconds."
HELD_OUT = 0.2  # of the training data, to judge rules on where there is no other split


@app.command(
    epilog=example(
        "dwmr export runs/ice --to onnx --out ice-onnx",
        "dwmr export runs/ice --to pddl --out ice-pddl --level 0 --solve",
        "dwmr export runs/mine --to pddl --out mine-pddl --start now.png --goal then.png",
    )
)
def export(
    run: RunFolder,
    to: Annotated[str, typer.Option("--to", help="onnx or pddl.")],
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    data: RunData = None,
    level: Annotated[int | None, typer.Option(help=f"pddl: the problem. {LEVEL_HELP}", min=0)] = None,
    start: Annotated[Path | None, typer.Option(help="pddl: image of the problem's start.")] = None,
    goal: Annotated[Path | None, typer.Option(help="pddl: image of its goal.")] = None,
    run_planner: Annotated[bool, typer.Option("--solve", help=SOLVE_HELP)] = False,
    overwrite: Overwrite = False,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Export a model as ONNX networks, or as rules: PDDL for planners, and a list to read.

    Each rule says which bits an action changes, and when. --level, or --start and --goal, add a problem for planners.
    """
    if to not in TARGETS:
        raise unknown("target", to, TARGETS)
    if to == "onnx":
        given = {"--level": level is not None, "--start": start is not None, "--goal": goal is not None}
        given |= {"--solve": run_planner, "--seed": seed != 0, "--device": device not in ("auto", "cpu")}
        if refused := [option for option, named in given.items() if named]:
            raise InputError(f"{', '.join(refused)} cannot be used with --to onnx; it writes networks, on the CPU")
    holds = (ENCODER, PREDICTOR) if to == "onnx" else EXPORTED
    check_output(out, overwrite=overwrite, inputs=[run, data, start, goal], holds=holds)
    if to == "onnx":
        _onnx(run, out, data, overwrite, as_json)
        return
    if (start is None) != (goal is None) or (level is not None and start is not None):
        raise InputError("name a problem by --level, or by --start and --goal together")
    if run_planner:
        if level is None and start is None:
            raise InputError("--solve needs a problem: --level, or --start and --goal")
        fast_downward.find()
    number = None if level is None else task_number(world_of(run, read_info(run)), level)
    info, model, splits, train = open_run(run, data, "train", device)
    world = info.config.benchmark
    problem = None
    if start is not None and goal is not None:
        problem = Problem("problem", read_image(start, model.image_shape), read_image(goal, model.image_shape))
    elif number is not None:
        digits = train.about.get("digits")
        drawn = find_world(world).with_digits(digits if digits in DIGITS else "mnist")
        problem = Problem.of_task(drawn.task(number, seed=seed))
    fitted_on, judged_on = _parts(splits, train)
    names, layout = train.action_names or (), layout_of(model)
    if not names or not all(map(PDDL_NAME.fullmatch, names)):
        names = action_names(world, model.n_actions)
    rules = learn_symbols(model.encode, model.predict, fitted_on, judged_on, actions=names, layout=layout)
    solution = None
    if run_planner and problem is not None:
        err.print(f"solving with Fast Downward, at most {fast_downward.SECONDS:.0f} s …")
        solution = solve(rules, model.encode, model.predict, problem)
    files = export_pddl(
        rules, model.encode, fitted_on, out, problem=problem, solution=solution, overwrite=overwrite, seed=seed
    )
    found, shown = rules.fidelity, problem.task.name if problem is not None and problem.task is not None else None
    if as_json:
        print_json({"out": str(out), "files": files, "problem": shown, "fidelity": found, "solution": solution})
        return
    say(f"{out}: {', '.join(files)}")
    cases = f"{found['pairs']:,} held-out cases"
    say(f"{found['rules']} rules; they give the predictor's next code in {found['states']:.2f}% of {cases}")
    if shown is not None:
        say(f"problem: {shown}")
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


def _parts(splits: Splits, train: Transitions) -> tuple[Transitions, Transitions]:
    """The data to fit and to judge rules on: another split, or the end of the only one."""
    held_out = splits.test or splits.val
    if held_out is not None:
        return train, held_out
    kept = int(len(train) * (1 - HELD_OUT))
    if kept == 0:
        raise InputError(f"{len(train)} transitions are too few to fit rules on")
    return train[:kept], train[kept:]


def _in_words(solution: dict[str, Any]) -> str:
    if solution["plan"] is None:
        outcome = solution["outcome"]
        if outcome == "exhausted":
            return "Fast Downward: the rules admit no plan"
        return f"Fast Downward: {outcome}, no plan found in {solution['seconds']:.0f} s"
    agrees = "the predictor agrees" if solution["predictor_agrees"] else "the predictor ends elsewhere"
    ending = ""
    if "reached" in solution:
        really = "reaches the goal" if solution["reached"] else "misses the goal"
        ending = f"; in the real environment it {really} (shortest way: {solution['shortest']})"
    return f"Fast Downward: {' '.join(solution['plan'])} ({solution['length']} actions); {agrees}{ending}"
