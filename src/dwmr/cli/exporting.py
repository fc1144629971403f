"""Exporting a model: ONNX networks, or rules and PDDL."""

import re
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from dwmr.cli import common
from dwmr.cli.common import command, open_run, say
from dwmr.data.image_files import read_image
from dwmr.errors import InputError, unknown
from dwmr.files import check_output
from dwmr.models.callables import as_bits
from dwmr.models.onnx_export import ENCODER, PREDICTOR, export_onnx
from dwmr.models.run_folder import read_info
from dwmr.symbolic import export_pddl, layout_of, learn_symbols, pddl
from dwmr.symbolic.export import EXPORTED
from dwmr.worlds.digits import SOURCES
from dwmr.worlds.registry import action_names, find_world

FILES = {"onnx": (ENCODER, PREDICTOR), "pddl": EXPORTED}
CHECKED = 2000  # images on which an ONNX export is checked
PROBLEM_HELP = f"For pddl: also write this task of the run's built-in world as a problem. {common.TASK_HELP}"
IMAGE_HELP = "For pddl: image of the problem's {}, as PNG, or as .npy (uint8, shape C, H, W or H, W, C). Needs --{}."
SEEDED = f"the start and goal of --task ({common.FIXED_LEVELS}), and {common.RENDERING}"
PDDL_NAME = re.compile("[a-z][a-z0-9-]*")


@command(
    "dwmr export runs/ice --to onnx --out ice-onnx",
    "dwmr export runs/ice --to pddl --out ice-pddl --task 0",
    "dwmr export runs/mine --to pddl --out mine-pddl --start now.png --goal then.png",
)
def export(
    run: common.RunFolder,
    to: Annotated[str, typer.Option("--to", help="onnx: encoder and predictor as two ONNX files; pddl: rules.")],
    out: Annotated[Path, typer.Option(help="Folder to create.")],
    data: common.RunData = None,
    index: Annotated[int | None, typer.Option("--task", help=PROBLEM_HELP, min=0)] = None,
    start: Annotated[Path | None, typer.Option(help=IMAGE_HELP.format("start", "goal"))] = None,
    goal: Annotated[Path | None, typer.Option(help=IMAGE_HELP.format("goal", "start"))] = None,
    overwrite: common.Overwrite = False,
    seed: Annotated[int, common.seed_of(SEEDED)] = 0,
    device: common.Device = "auto",
    as_json: common.AsJson = False,
) -> None:
    """Export a model as ONNX networks, or as rules: a PDDL domain for classical planners, and a readable list.

    Each rule says which bits an action changes, and under which condition. The rules are fitted to the predictor on the
    split train, and compared with it on test (or val, or if there is neither, on the last fifth of train). With --task,
    or with --start and --goal, a PDDL problem (a start and a goal to plan for) is added.
    """
    if to not in FILES:
        raise unknown("target", to, FILES)
    given = {"--task": index is not None, "--start": start is not None, "--goal": goal is not None}
    given |= {"--seed": seed != 0, "--device": device not in ("auto", "cpu")}
    refused = [option for option, named in given.items() if named and to == "onnx"]
    if refused:
        raise InputError(f"{', '.join(refused)} cannot be used with --to onnx; it writes networks, on the CPU")
    check_output(out, overwrite=overwrite, inputs=[run, data, start, goal], holds=FILES[to])
    if to == "onnx":
        _onnx(run, out, data, overwrite, as_json)
        return
    if (start is None) != (goal is None) or (index is not None and start is not None):
        raise InputError("name a problem by --task, or by --start and --goal together")
    number = None if index is None else common.task_number(common.world_of(run, read_info(run)), index)
    info, model, splits, train = open_run(run, data, "train", device)
    world, shown, images = info.benchmark, None, []
    if number is not None:
        digits = train.about.get("digits")
        task = find_world(world).with_digits(digits if digits in SOURCES else "mnist").task(number, seed=seed)
        shown, images = task.name, [task.paint(task.start), task.paint(task.goal)]
    elif start is not None and goal is not None:
        images = [read_image(path, model.image_shape) for path in (start, goal)]
    held_out = splits.test or splits.val
    if held_out is None:  # judge the rules on the last fifth of the only split
        kept = len(train) * 4 // 5
        if kept == 0:
            raise InputError(f"{len(train)} transitions are too few to fit rules on")
        train, held_out = train[:kept], train[kept:]
    names, layout = train.action_names or (), layout_of(model)
    if not names or not all(map(PDDL_NAME.fullmatch, names)):
        names = action_names(world, model.n_actions)
    symbols = learn_symbols(model.encode, model.predict, train, held_out, actions=names, layout=layout)
    problem = None
    if images:
        first, last = as_bits(model.encode(np.stack(images)))
        name = (shown or "problem").partition(",")[0].replace(" ", "-")
        problem = pddl.problem(symbols.rules, first, last, name)
    files = export_pddl(symbols, model.encode, train, out, problem=problem, overwrite=overwrite)
    found = symbols.fidelity
    if as_json:
        common.print_json({"out": str(out), "files": files, "problem": shown, "fidelity": found})
        return
    say(f"{out}: {', '.join(files)}")
    share = f"{found['states']:.2f}% of {found['pairs']:,} held-out (code, action) pairs"
    say(f"{found['rules']} rules; they match the predictor's next code in {share}")
    if shown is not None:
        say(f"problem: {shown}")


def _onnx(run: Path, out: Path, data: Path | None, overwrite: bool, as_json: bool) -> None:
    _, model, _, train = open_run(run, data, "train", "cpu")
    step = -(-len(train) // CHECKED)
    images, actions = np.asarray(train.obs[::step]), np.asarray(train.actions[::step])
    export_onnx(model, out, images, actions, overwrite=overwrite)
    if as_json:
        checked = {"images": len(images), "bits": model.bits}
        common.print_json({"out": str(out), "files": [ENCODER, PREDICTOR], "checked": checked})
        return
    say(f"{out}: {ENCODER} and {PREDICTOR}; they give the model's bits on {len(images):,} images and codes")
