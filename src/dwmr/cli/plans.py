"""Planning: between two images, in the world of a task, over all tasks; and training a heuristic."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from dwmr.cli import tables
from dwmr.cli.common import (
    LEVEL_HELP,
    AsJson,
    Device,
    Overwrite,
    RunFolder,
    Seed,
    app,
    example,
    load_data,
    open_model,
    out,
    print_json,
    say,
    task_number,
    world_of,
)
from dwmr.data.image_files import read_image
from dwmr.data.transitions import Splits
from dwmr.errors import InputError, unknown
from dwmr.files import check_output
from dwmr.models.run_folder import RunInfo, checkpoint_digest
from dwmr.models.world_model import WorldModel
from dwmr.planning import PLANNERS, Agent, Budget, find_planner, prepared
from dwmr.planning.benchmark import ENTRIES, Results, Setting, TrialLog, evaluate_planner, solve_task
from dwmr.planning.heuristic_training import HeuristicTraining
from dwmr.planning.heuristic_training import train_heuristic as train
from dwmr.planning.strip import Strip, save_strip, strip_files
from dwmr.presets import changes
from dwmr.provenance import describe_machine
from dwmr.worlds.registry import WORLDS, action_names, tasks_of

STARTS = 20_000  # training frames that imagined walks begin from

DATA_HELP = "Data from which the run is prepared the first time; by default the data of its world."
Data = Annotated[Path | None, typer.Option(help=DATA_HELP)]
OnePlanner = Annotated[str, typer.Option(help=f"{', '.join(PLANNERS)}.")]
Seconds = Annotated[float, typer.Option(help="Seconds a search may take.", min=0)]
StripPath = Annotated[Path | None, typer.Option("--strip", help="Draw the plan: a PNG, and a GIF beside it.")]


@app.command(
    epilog=example(
        "dwmr plan runs/ice --start now.png --goal there.png",
        "dwmr plan runs/ice --start now.png --goal there.png --planner astar --strip plan.png",
        "dwmr plan runs/mine --data data/mine",
    )
)
def plan(
    run: RunFolder,
    start: Annotated[Path | None, typer.Option(help="Image of the start: PNG or .npy.")] = None,
    goal: Annotated[Path | None, typer.Option(help="Image of the goal.")] = None,
    planner: OnePlanner = "breadth_first",
    seconds: Seconds = Setting.seconds,
    strip: StripPath = None,
    overwrite: Overwrite = False,
    data: Data = None,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Find actions that lead from one image to another, or prove that the model knows none.

    A search ends in one of three ways. Solved: the actions lead to the goal in the model. Exhausted: no actions do.
    Out of budget: time was up, and the actions lead to the state that looks nearest to the goal.

    The first call prepares the run: it learns which actions are possible, which codes count as equal, and how to draw
    codes, and stores this in RUN/planning. Later calls need neither the data nor any training. Without images the run
    is only prepared, and with --overwrite it is prepared again.
    """
    if (start is None) != (goal is None):
        raise InputError("--start and --goal belong together: name both images, or none to prepare the run only")
    search = find_planner(planner)
    _check_strip(strip, overwrite, [run, data, start, goal])
    info, model = open_model(run, device)
    if start is None or goal is None:
        _check_part(run / prepared.AGENT, overwrite)
        agent = _prepare(run, info, model, data, seed)
        if as_json:
            print_json({"prepared": str(run / prepared.AGENT), "radius": agent.radius, **agent.about})
        else:
            say(f"{run / prepared.AGENT}: codes that differ in at most {agent.radius} bits count as one state")
        return
    first, last = (read_image(path, model.image_shape) for path in (start, goal))
    agent = _agent(run, info, model, data, seed)
    target = agent.goal_of(last)
    here, heuristic = agent.encode(first[None]), agent.heuristic_for(target)
    found = search(agent.dynamics, here, target, heuristic, Budget(seconds=seconds))
    real: list[np.ndarray | None] = [first, *[None] * len(found.actions)]
    if found.solved and found.actions:
        real[-1] = last
    title = f"{planner}: {found.outcome}, {len(found.actions)} actions"
    shown = Strip(real, found.codes, _names(info, agent, found.actions), title)
    names = ("outcome", "reason", "actions", "optimal", "expanded", "generated", "seconds")
    figures = {name: getattr(found, name) for name in names} | {"radius": agent.radius}
    _report(run, model, shown, figures, strip, as_json)


@app.command(
    "plan-level",
    epilog=example("dwmr plan-level runs/ice", "dwmr plan-level runs/ice --level 3 --planner astar --strip acted.png"),
)
def plan_level(
    run: RunFolder,
    level: Annotated[int, typer.Option(help=LEVEL_HELP, min=0)] = 0,
    planner: OnePlanner = "breadth_first",
    seconds: Seconds = Setting.seconds,
    strip: StripPath = None,
    overwrite: Overwrite = False,
    data: Data = None,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Solve one task by acting in its world.

    The agent follows its plan, and plans again when the world does not do what was predicted. It stops when it believes
    that it has reached the goal; the true state decides whether it has.
    """
    find_planner(planner)
    _check_strip(strip, overwrite, [run, data])
    info, model = open_model(run, device)
    world = world_of(run, info)
    number = task_number(world, level)
    agent = _agent(run, info, model, data, seed)
    task = world.with_digits(_digits(agent)).task(number, seed=seed)
    setting = Setting(seconds=seconds, task_seconds=3 * seconds, seed=seed)
    trial, episode = solve_task(task, agent, planner, setting)
    reached = "goal reached" if trial.solved else f"goal not reached ({trial.ending})"
    title = f"{task.name}: {planner}, {reached} after {trial.actions} actions (shortest: {task.optimal})"
    shown = Strip(episode.frames, torch.cat(episode.expected), _names(info, agent, episode.actions), title)
    reasons = [plan.reason for plan in episode.plans if plan.reason and not plan.solved]
    figures = asdict(trial) | {"actions": episode.actions, "reason": reasons[0] if reasons else ""}
    _report(run, model, shown, figures, strip, as_json)


@app.command(
    "plan-tasks",
    epilog=example(
        "dwmr plan-tasks runs/ice",
        "dwmr plan-tasks runs/ice --planner breadth_first --planner simulator --trials 20 --json",
        "dwmr plan-tasks runs/ice --out experiments/results/planning.json",
    ),
)
def plan_tasks(
    run: RunFolder,
    planner: Annotated[list[str] | None, typer.Option(help=f"One or more of {', '.join(ENTRIES)}.")] = None,
    seconds: Seconds = Setting.seconds,
    trials: Annotated[int | None, typer.Option(help="Tasks of each kind; all by default.", min=1)] = None,
    results: Annotated[Path | None, typer.Option("--out", help="Results file to add to.")] = None,
    overwrite: Overwrite = False,
    data: Data = None,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Measure how well a run plans: solve all tasks of its world by acting in them.

    All planners and controls solve the same tasks. With --out, finished entries of the same run and options are kept,
    and an evaluation that was stopped continues with the next task.
    """
    names = planner or list(ENTRIES)
    for name in names:
        if name not in ENTRIES:
            raise unknown("planner", name, ENTRIES)
    if results is not None:
        check_output(results, overwrite=True, inputs=[run, data], written=True)
    info, model = open_model(run, device)
    world_of(run, info)
    agent = _agent(run, info, model, data, seed)
    benchmark = info.config.benchmark
    simulated = next((name for name in names if name in PLANNERS), Setting.simulated)
    setting = Setting(seconds=seconds, task_seconds=3 * seconds, simulated=simulated, seed=seed)
    made_with = {
        "preset": info.config.name,
        "checkpoint": checkpoint_digest(run),
        "setting": asdict(setting),
        "radius": agent.radius,
        "trials": trials,
        "heuristic": agent.network is not None,
    }
    stored = None if results is None else Results(results, benchmark)
    if stored is not None and not overwrite:
        stored.check(names, made_with)
    entries: dict[str, dict[str, Any]] = {}
    for name in names:
        entry = stored.entry(name) if stored is not None else None
        tasks = tasks_of(benchmark, seed=seed, trials=trials, digits=_digits(agent))  # new: tasks draw as they are used
        if entry is None or entry.get("made_with") != made_with:
            log = TrialLog(stored.log_path(name) if stored is not None else None, made_with)
            entry = evaluate_planner(tasks, agent, name, setting, log=log)
            entry |= {"machine": describe_machine(model.device), "agent": agent.about, "made_with": made_with}
            entry |= {"set": changes(info.config), "distilled": info.distilled is not None}
            if stored is not None:
                stored.store(name, entry)
        entries[name] = entry
    if as_json:
        print_json({benchmark: entries})
        return
    for table in tables.planning(entries, list(tasks)):
        out.print(table)
    if results is not None:
        say(f"results: {results}")


@app.command(
    "train-heuristic",
    epilog=example("dwmr train-heuristic runs/p", "dwmr train-heuristic runs/p --updates 2500 --batch 512"),
)
def train_heuristic(
    run: RunFolder,
    updates: Annotated[int, typer.Option(help="Number of minibatches.", min=1)] = HeuristicTraining.updates,
    batch: Annotated[int, typer.Option(help="Pairs of a start and a goal in each.", min=1)] = HeuristicTraining.batch,
    overwrite: Overwrite = False,
    data: Data = None,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Train a heuristic on imagined random walks.

    It is stored in RUN/planning, and all planning commands use it from then on. The walks begin in training images:
    for a run of your own data, name that data with --data, also if the run is prepared.
    """
    _check_part(run / prepared.HEURISTIC, overwrite)
    info, model = open_model(run, device)
    if data is None and info.config.benchmark not in WORLDS:
        raise InputError(f"training a heuristic needs the data of the run: dwmr train-heuristic {run} --data DATA")
    agent = _agent(run, info, model, data, seed, heuristic=False)
    starts = agent.encode(_data(info, model, data).train.obs[:STARTS])
    network, about = train(agent, starts, HeuristicTraining(updates=updates, batch=batch), seed=seed)
    path = prepared.save_heuristic(run, network, about)
    if as_json:
        print_json({"heuristic": str(path), **about})
        return
    say(f"{path}: {updates:,} updates, loss from {about['loss'][0]:.3f} to {about['loss'][-1]:.3f}")


def _agent(
    run: Path, info: RunInfo, model: WorldModel, data: Path | None, seed: int, *, heuristic: bool = True
) -> Agent:
    """The agent stored in the run folder. The first time it is learned from data."""
    agent = prepared.load_agent(run, model) or _prepare(run, info, model, data, seed)
    return replace(agent, network=prepared.load_heuristic(run, model)) if heuristic else agent


def _prepare(run: Path, info: RunInfo, model: WorldModel, data: Path | None, seed: int) -> Agent:
    """Learn what planning needs from data, and store it in the run folder."""
    if data is None and info.config.benchmark not in WORLDS:
        if (run / prepared.AGENT).exists():
            raise InputError(f"preparing {run} again needs its data: dwmr plan {run} --data DATA --overwrite")
        raise InputError(f"{run} is not prepared for planning; prepare it once with: dwmr plan {run} --data DATA")
    return prepared.prepare_run(run, model, _data(info, model, data), decoder=info.config.decoder, seed=seed)


def _data(info: RunInfo, model: WorldModel, data: Path | None) -> Splits:
    splits = load_data(data, info.config.benchmark)
    got, expected = (splits.train.image_shape, splits.train.n_actions), (model.image_shape, model.n_actions)
    if got != expected:
        raise InputError(
            f"the run takes images {expected[0]} and {expected[1]} actions, but the data has {got[0]} and {got[1]}"
        )
    return splits


def _digits(agent: Agent) -> str:
    """The source of the handwriting in the data, for tasks in the same hand."""
    return str(agent.about.get("digits", "mnist"))


def _names(info: RunInfo, agent: Agent, actions: list[int]) -> list[str]:
    names = agent.about.get("action_names") or action_names(info.config.benchmark, info.n_actions)
    return [names[action] for action in actions]


def _check_part(path: Path, overwrite: bool) -> None:
    """Refuse to replace what planning stored in the run folder, whose name is not the user's choice."""
    if path.exists() and not overwrite:
        raise InputError(f"{path} exists already; replace it with --overwrite")
    check_output(path, overwrite=overwrite, written=True)


def _check_strip(strip: Path | None, overwrite: bool, inputs: list[Path | None]) -> None:
    if strip is not None and not strip.name:
        raise InputError(f"--strip names a file to write, got {str(strip)!r}")
    for path in strip_files(strip) if strip is not None else ():
        check_output(path, overwrite=overwrite, inputs=inputs)
    if strip is not None and strip.suffix not in ("", ".png"):
        raise InputError(f"--strip writes a PNG and a GIF beside it: name a file that ends in .png, got {str(strip)!r}")


def _report(
    run: Path, model: WorldModel, shown: Strip, figures: dict[str, Any], strip: Path | None, as_json: bool
) -> None:
    """Draw and print a plan."""
    if strip is not None:
        painter = prepared.load_painter(run, model)
        save_strip(shown, painter, strip)
        figures |= {"strip": [str(path) for path in strip_files(strip)], "drawn_by": painter.source}
    if as_json:
        print_json(figures)
        return
    say(shown.title)
    say("actions: " + (" ".join(shown.actions) or "none"))
    if figures["reason"]:
        say(f"the budget of {figures['reason']} ended: this is the best way known, not a plan to the goal")
    say(f"{figures['generated']:,} states generated in {figures['seconds']:.2f} s")
    if strip is not None:
        say(f"strip: {', '.join(figures['strip'])}; imagined codes drawn by {figures['drawn_by']}")
