"""Planning: actions from a start to a goal, how well a run plans, and a learned heuristic."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from dwmr.cli import tables
from dwmr.cli.common import AsJson, Device, Overwrite, Seed, app, example, load_data, out, print_json, say
from dwmr.data.transitions import Splits
from dwmr.errors import InputError, unknown
from dwmr.evaluation.probes import Probe, fit_probe
from dwmr.files import check_output
from dwmr.models.checkpoint import RunInfo, checkpoint_digest, read_info
from dwmr.models.world_model import WorldModel
from dwmr.planning.acting import act
from dwmr.planning.agent import HEURISTICS, Agent, agent_of
from dwmr.planning.benchmark import (
    CONTROLS,
    KeptTrials,
    Setting,
    check_results,
    evaluate_planner,
    known_entries,
    store_entry,
    stored_entry,
)
from dwmr.planning.painting import painter_of
from dwmr.planning.search import PLANNERS, find_planner
from dwmr.planning.simulator import TaskWorld
from dwmr.planning.strip import Strip, action_names, read_image, save_strip, strip_files
from dwmr.planning.value import FILE as HEURISTIC
from dwmr.planning.value import ValueTraining, load_value, save_value, train_value
from dwmr.presets import changes
from dwmr.provenance import describe_machine
from dwmr.seeding import rng
from dwmr.worlds.registry import tasks_of
from dwmr.worlds.tasks import Task

STARTS = 20_000  # frames that imagined walks begin from

Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
Data = Annotated[Path | None, typer.Option(help="Data folder or .npz; by default the run's benchmark.")]


@app.command(
    epilog=example(
        "dwmr plan runs/ice --start now.png --goal there.png --strip plan.png",
        "dwmr plan runs/ice --level 3 --strip plan.png",
        "dwmr plan runs/ice --evaluate --planner breadth_first --planner simulator",
        "dwmr plan runs/ice --evaluate --out experiments/results/planning.json",
    )
)
def plan(
    run: Run,
    start: Annotated[Path | None, typer.Option(help="Image of now: PNG or .npy.")] = None,
    goal: Annotated[Path | None, typer.Option(help="Image of the goal.")] = None,
    level: Annotated[int | None, typer.Option(help="Solve this task of --evaluate in its world.", min=0)] = None,
    evaluate: Annotated[bool, typer.Option("--evaluate", help="Try all tasks of the run's benchmark.")] = False,
    planner: Annotated[
        list[str] | None, typer.Option(help=f"{', '.join([*PLANNERS, *CONTROLS])}; with --evaluate several.")
    ] = None,
    heuristic: Annotated[str, typer.Option(help=f"{', '.join(HEURISTICS)}.")] = "auto",
    goal_by: Annotated[str, typer.Option(help="image: its code; probe: the board a probe reads from it.")] = "image",
    radius: Annotated[int | None, typer.Option(help="Bits that may differ; chosen on validation.", min=0)] = None,
    nodes: Annotated[int, typer.Option(help="States a search may generate.", min=1)] = Setting.nodes,
    seconds: Annotated[float, typer.Option(help="Seconds a search may take.", min=0)] = Setting.seconds,
    memory: Annotated[int, typer.Option(help="MB that the states of a search may take.", min=1)] = 4096,
    max_actions: Annotated[int, typer.Option(help="Actions a task may take.", min=1)] = Setting.max_actions,
    trials: Annotated[int | None, typer.Option(help="Tasks of each kind; all of them.", min=1)] = None,
    strip: Annotated[Path | None, typer.Option(help="Write the plan as pictures: PNG, and a GIF beside it.")] = None,
    imagined: Annotated[str, typer.Option(help="Draw imagined codes by a decoder, or nearest frame.")] = "decoder",
    results: Annotated[Path | None, typer.Option("--out", help="With --evaluate: results file to add to.")] = None,
    overwrite: Overwrite = False,
    data: Data = None,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Plan from an image to an image, solve a task, or judge a run by the tasks of its benchmark.

    A search ends in one of three ways: solved, exhausted (the model holds no plan), or out of budget, with the best way
    known. With --out, planners that were tried before with the same run and options are not tried again.
    """
    asked = [start is not None or goal is not None, level is not None, evaluate]
    if sum(asked) != 1 or (start is None) != (goal is None):
        raise InputError("ask for one thing: --start IMG --goal IMG, or --level N, or --evaluate")
    names = planner or (known_entries() if evaluate else ["breadth_first"])
    for name in names:
        if name not in (known_entries() if evaluate else PLANNERS):
            raise unknown("planner", name, known_entries() if evaluate else PLANNERS)
    if heuristic not in HEURISTICS:
        raise unknown("heuristic", heuristic, HEURISTICS)
    if goal_by not in ("image", "probe"):
        raise unknown("kind of goal", goal_by, ("image", "probe"))
    if imagined not in ("decoder", "nearest"):
        raise unknown("way to draw imagined codes", imagined, ("decoder", "nearest"))
    if strip is not None and not strip.name:
        raise InputError(f"--strip names a file to write, got {str(strip)!r}")
    for path in strip_files(strip) if strip is not None else ():
        check_output(path, overwrite=overwrite, inputs=[run, data, start, goal])
    if results is not None:
        check_output(results, overwrite=True, inputs=[run, data], written=True)
        check_results(results)
    simulated = next((name for name in names if name in PLANNERS), "breadth_first")
    setting = Setting(
        heuristic=heuristic,
        goal=goal_by,
        nodes=nodes,
        seconds=seconds,
        task_seconds=3 * seconds,
        memory=memory * 2**20,
        max_actions=max_actions,
        simulated=simulated,
        seed=seed,
    )
    info = read_info(run)
    model = WorldModel.load(run, device=device)
    images = [read_image(path, model.image_shape) for path in (start, goal) if path is not None]
    splits = _data(data, info, model)
    agent = _agent(run, model, splits, radius, seed)
    if evaluate:
        _evaluate(run, info, model, agent, splits, names, setting, trials, results, overwrite, as_json)
        return
    if level is None:
        shown, figures = _plan_images(images, agent, names[0], setting)
    else:
        kinds = tasks_of(info.config.benchmark, seed=seed, trials=level + 1, digits=_digits(splits))
        shown, figures = _solve(next(iter(kinds.values()))[level], agent, names[0], setting)
    if strip is not None:
        paint, words = painter_of(model, info.config, run, splits.train, imagined, seed)
        written = save_strip(shown, paint(shown.codes), words, strip)
        figures |= {"strip": [str(path) for path in written], "drawn_by": words}
    if as_json:
        print_json(figures)
        return
    say(shown.title)
    say("actions: " + (" ".join(action_names(shown.actions, agent.n_actions)) or "none"))
    if figures["reason"]:
        say(f"the budget of {figures['reason']} ended: this is the best way known, not a plan to the goal")
    say(f"{figures['generated']:,} states generated in {figures['seconds']:.2f} s")
    if strip is not None:
        say(f"strip: {', '.join(figures['strip'])}; imagined codes drawn by {figures['drawn_by']}")


@app.command(
    "train-heuristic",
    epilog=example("dwmr train-heuristic runs/p", "dwmr train-heuristic runs/p --updates 20000 --walk 100"),
)
def train_heuristic(
    run: Run,
    updates: Annotated[int, typer.Option(help="Minibatches.", min=1)] = ValueTraining.updates,
    batch: Annotated[int, typer.Option(help="Pairs of a state and a goal in each.", min=1)] = ValueTraining.batch,
    walk: Annotated[int, typer.Option(help="Actions of an imagined walk.", min=1)] = ValueTraining.walk,
    width: Annotated[int, typer.Option(help="Width of the network.", min=1)] = ValueTraining.width,
    lr: Annotated[float, typer.Option(help="Learning rate.", min=0)] = ValueTraining.lr,
    overwrite: Overwrite = False,
    data: Data = None,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Learn a heuristic from imagined random walks; it is kept in the run folder, and plan uses it from then on."""
    info = read_info(run)
    check_output(run / HEURISTIC, overwrite=overwrite, written=True)
    model = WorldModel.load(run, device=device)
    splits = _data(data, info, model)
    agent = agent_of(model, splits.train, splits.val, seed=seed)
    setting = ValueTraining(updates=updates, batch=batch, walk=walk, width=width, lr=lr)
    starts = agent.encode(splits.train.obs[:STARTS])
    network, course = train_value(agent.dynamics, starts, agent.bits, setting, radius=agent.radius, seed=seed)
    path = save_value(run, network, course)
    if as_json:
        print_json({"heuristic": str(path), **course})
        return
    say(f"{path}: {updates:,} updates, loss {course['loss'][0]:.3f} at first, {course['loss'][-1]:.3f} at last")


def _data(data: Path | None, info: RunInfo, model: WorldModel) -> Splits:
    splits = load_data(data, info.config.benchmark)
    have, need = (splits.train.image_shape, splits.train.n_actions), (model.image_shape, model.n_actions)
    if have != need:
        raise InputError(
            f"the run takes images {need[0]} and {need[1]} actions, but the data has {have[0]} and {have[1]}"
        )
    return splits


def _digits(splits: Splits) -> str:
    """The handwriting of the data, for tasks in the same."""
    source = str(splits.train.about.get("digits", "mnist"))
    return source if source in ("mnist", "sklearn") else "mnist"


def _agent(run: Path, model: WorldModel, splits: Splits, radius: int | None, seed: int) -> Agent:
    agent = agent_of(model, splits.train, splits.val, value=load_value(run, model.device), seed=seed)
    return agent if radius is None else dataclasses.replace(agent, radius=radius)


def _plan_images(images: list[np.ndarray], agent: Agent, name: str, setting: Setting) -> tuple[Strip, dict[str, Any]]:
    goal = agent.goal_of(images[1])
    heuristic = agent.heuristic_for(goal, setting.heuristic)
    found = find_planner(name)(agent.dynamics, agent.encode(images[0][None]), goal, heuristic, setting.budget)
    real: list[np.ndarray | None] = [images[0], *[None] * len(found.actions)]
    if found.solved and found.actions:
        real[-1] = images[1]
    title = f"{name}: {found.outcome}, {len(found.actions)} actions"
    return Strip(real, found.codes, found.actions, title), {
        "outcome": found.outcome,
        "reason": found.reason,
        "actions": found.actions,
        "optimal_in_model": found.optimal,
        "expanded": found.expanded,
        "generated": found.generated,
        "seconds": found.seconds,
        "radius": agent.radius,
    }


def _solve(task: Task, agent: Agent, name: str, setting: Setting) -> tuple[Strip, dict[str, Any]]:
    """A task in its world: what was done, and what came of it."""
    world, goal = TaskWorld(task), agent.goal_of(task.paint(task.goal))
    heuristic = agent.heuristic_for(goal, setting.heuristic)
    episode = act(
        world,
        agent,
        goal,
        find_planner(name),
        heuristic,
        setting.budget,
        max_actions=setting.max_actions,
        max_seconds=setting.task_seconds,
        generator=rng(setting.seed, "acting", name),
    )
    title = f"{task.name}: {name} says {episode.said} after {len(episode.actions)} actions (optimal {task.optimal}); "
    title += "the goal is reached" if world.solved else "the goal is not reached"
    return Strip(list(episode.frames), torch.cat(episode.expected), episode.actions, title), {
        "task": task.name,
        "said": episode.said,
        "solved": world.solved,
        "outcome": episode.plans[0].outcome if episode.plans else None,
        "reason": next((plan.reason for plan in episode.plans if plan.reason and not plan.solved), ""),
        "actions": episode.actions,
        "optimal": task.optimal,
        "replans": episode.replans,
        "surprises": episode.surprises,
        "generated": sum(plan.generated for plan in episode.plans),
        "seconds": sum(plan.seconds for plan in episode.plans),
        "radius": agent.radius,
    }


def _evaluate(
    run: Path,
    info: RunInfo,
    model: WorldModel,
    agent: Agent,
    splits: Splits,
    names: list[str],
    setting: Setting,
    trials: int | None,
    results: Path | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    benchmark = info.config.benchmark
    digits = _digits(splits)
    made_with = {
        "preset": info.config.name,
        "checkpoint": checkpoint_digest(run),
        "setting": dataclasses.asdict(setting),
        "radius": agent.radius,
        "trials": trials,
        "heuristic": setting.heuristic != "zero" and agent.value is not None,
    }
    if results is not None and not overwrite:
        for name in names:
            check_results(results, benchmark, name, made_with)
    probe = _probe(model, splits, setting.seed) if setting.goal == "probe" else None
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        entry = stored_entry(results, benchmark, name, made_with) if results is not None else None
        # Every planner meets the same images, whichever were tried before.
        tasks = tasks_of(benchmark, seed=setting.seed, trials=trials, digits=digits)
        if entry is None:
            kept = KeptTrials(results, benchmark, name, made_with) if results is not None else None
            entry = evaluate_planner(tasks, agent, name, setting, probe=probe, kept=kept)
            entry |= {"machine": describe_machine(model.device), "agent": agent.about, "made_with": made_with}
            entry |= {"set": changes(info.config), "distilled": info.distilled is not None}
            if results is not None and kept is not None:
                store_entry(results, benchmark, name, entry)
                kept.drop()
        found[name] = entry
    if as_json:
        print_json({benchmark: found})
        return
    for table in tables.planning(found, list(tasks)):
        out.print(table)
    if results is not None:
        say(f"results: {results}")


def _probe(model: WorldModel, splits: Splits, seed: int) -> Probe:
    labels = splits.train.board_labels("--goal-by probe")
    if labels is None:
        raise InputError("--goal-by probe needs labels: the states of the training frames")
    return fit_probe(model.encode(splits.train.obs), labels[0], labels[2], model.probe, seed)
