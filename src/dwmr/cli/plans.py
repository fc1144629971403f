"""Planning: between two images, in the world of a task, over all tasks; and training a heuristic."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from dwmr.cli import common, tables
from dwmr.cli.common import command, flag, load_data, open_model, say
from dwmr.data.image_files import read_image
from dwmr.data.transitions import Splits
from dwmr.errors import InputError, unknown
from dwmr.files import atomic_write_json, check_output
from dwmr.models.run_folder import RunInfo, checkpoint_digest
from dwmr.models.world_model import WorldModel
from dwmr.planning import PLANNERS, Agent, Budget, find_planner, prepared
from dwmr.planning.acting import Limits
from dwmr.planning.benchmark import ENTRIES, evaluate_planner, read_results, solve_task
from dwmr.planning.heuristics import HeuristicTraining
from dwmr.planning.heuristics import train_heuristic as train
from dwmr.planning.painting import Strip, save_strip
from dwmr.presets import changes
from dwmr.provenance import describe_machine
from dwmr.worlds.registry import action_names, tasks_of

STARTS = 20_000  # training frames that imagined walks begin from

FIRST_CALL_HELP = " Only read by the first call of a planning command, which prepares the run for all of them"
WORLD_DATA_HELP = common.RUN_DATA_HELP + FIRST_CALL_HELP + "."
WorldData = Annotated[Path | None, typer.Option(help=WORLD_DATA_HELP)]
DATA_HELP = (
    common.RUN_DATA_HELP + FIRST_CALL_HELP + "; that call needs it if the run was trained on other data than that of a "
    "built-in world."
)
IMAGE_HELP = "Image of the {}, as PNG, or as .npy (uint8, shape C, H, W or H, W, C)."
PLANNER_HELP = (
    "breadth_first finds a shortest plan. astar is for larger worlds: it visits fewer states, because a heuristic "
    "estimates the remaining actions (the one trained by dwmr train-heuristic if there is one, else a default). Its "
    "plans are shortest if the heuristic never overestimates. batch_astar is for larger worlds on a GPU: like astar, "
    "but with 10,000 states at a time, and its plans need not be shortest."
)
OnePlanner = Annotated[str, typer.Option(help=PLANNER_HELP)]
ENTRIES_HELP = (
    f"Planner or baseline to evaluate. Can be repeated. Planners: {', '.join(PLANNERS)} (see dwmr plan). Baselines: "
    "simulator (breadth-first search with the true rules); greedy_step (no search: the action that leads nearest to "
    "the goal, by the heuristic that astar uses); random (random possible actions). Default: all planners and "
    "baselines."
)
TRIALS_HELP = (
    "Number of tasks of each kind. Default: all, which is 100 (8-puzzle: 200). IceSlider has two kinds, with 100 tasks "
    "each: min_solution_8 (more than 8 actions needed; dwmr plan-level has only these) and min_solution_1 (more than 1 "
    "action needed). Every other world has one kind."
)
REPLACE_HELP = "Replace the results that the file already has for these planners and this world; keep all others."
SEEDED = (
    f"the random actions, {common.RENDERING}, the tasks ({common.FIXED_LEVELS}), and the networks that the first call "
    "trains"
)
Seconds = Annotated[float, typer.Option(help="Time limit of one search, in seconds.", min=0)]
StripPath = Annotated[Path | None, typer.Option("--strip", help="Draw the plan as a strip of images in this PNG file.")]


@command(
    "dwmr plan runs/ice --start now.png --goal there.png",
    "dwmr plan runs/ice --start now.png --goal there.png --planner astar --strip plan.png",
    "dwmr plan runs/mine --data data/mine --start now.png --goal there.png",
)
def plan(
    run: common.RunFolder,
    start: Annotated[Path, typer.Option(help=IMAGE_HELP.format("start"))],
    goal: Annotated[Path, typer.Option(help=IMAGE_HELP.format("goal"))],
    planner: OnePlanner = "breadth_first",
    seconds: Seconds = Limits.seconds,
    strip: StripPath = None,
    overwrite: common.Overwrite = False,
    data: Annotated[Path | None, typer.Option(help=DATA_HELP)] = None,
    seed: Annotated[int, common.seed_of("the networks that the first call trains; the search is not random")] = 0,
    device: common.Device = "auto",
    as_json: common.AsJson = False,
) -> None:
    """Find a sequence of actions from one image to another, or show that none exists in the model.

    The outcome is "solved", "exhausted" (every state that can be reached in the model was visited, and none is the
    goal), or "out of budget" (the time limit was reached; the actions lead to the state that seems nearest to the
    goal).

    The first call prepares the run: it learns from data which actions are possible in a state, and by how many bits two
    codes of the same state may differ (for example because of noise), so that it recognises the goal. If the model has
    no decoder, it also trains one, which renders codes as images for --strip. All of this is stored in RUN/planning, so
    later calls need neither data nor training.
    """
    search = find_planner(planner)
    _check_strip(strip, overwrite, [run, data, start, goal])
    info, model = open_model(run, device)
    first, last = (read_image(path, model.image_shape) for path in (start, goal))
    agent = _agent(run, info, model, data, seed)
    target, here, budget = agent.goal_of(last), agent.encode(first[None]), Budget(seconds=seconds)
    found = search(agent.dynamics, here, target, agent.heuristic_for(target), budget)
    real: list[np.ndarray | None] = [first, *[None] * len(found.actions)]
    if found.solved and found.actions:
        real[-1] = last
    title = f"{planner}: {found.outcome}, {len(found.actions)} actions"
    names = ("outcome", "reason", "actions", "optimal", "expanded", "generated", "seconds")
    figures = {name: getattr(found, name) for name in names} | {"radius": agent.radius}
    shown = Strip(title, _names(info, agent, found.actions), real, found.codes)
    _report(run, model, shown, figures, strip, as_json)


@command(
    "dwmr plan-level runs/ice",
    "dwmr plan-level runs/ice --task 3 --planner astar --strip acted.png",
    name="plan-level",
)
def plan_level(
    run: common.RunFolder,
    index: Annotated[int, typer.Option("--task", help=common.TASK_HELP, min=0)] = 0,
    planner: OnePlanner = "breadth_first",
    seconds: Seconds = Limits.seconds,
    strip: StripPath = None,
    overwrite: common.Overwrite = False,
    data: WorldData = None,
    seed: Annotated[int, common.seed_of(SEEDED)] = 0,
    device: common.Device = "auto",
    as_json: common.AsJson = False,
) -> None:
    """Solve one task of the built-in world that a model was trained on, by acting in it.

    A task is a start and a goal; docs/reference/worlds.md says what the tasks of each world are. The agent follows its
    plan. It plans again when the code of the new image differs from the prediction in too many bits: more than
    dwmr plan tolerates between two codes of one state. When it finds no plan, it takes a random action, at most 20
    times.

    It stops:

    1. when it believes that it has reached the goal (the task is solved if this is true);

    2. when it finds no plan and has used up its 20 random actions;

    3. after 100 actions in total;

    4. when all its searches together have taken 3 × --seconds.

    A model trained on other data than that of a built-in world has no tasks; use dwmr plan for it.
    """
    find_planner(planner)
    _check_strip(strip, overwrite, [run, data])
    info, model = open_model(run, device)
    world = common.world_of(run, info)
    number = common.task_number(world, index)
    agent = _agent(run, info, model, data, seed)
    task = world.with_digits(agent.about.get("digits", "mnist")).task(number, seed=seed)
    trial, episode = solve_task(task, agent, planner, Limits(seconds, 3 * seconds), seed)
    reached = "goal reached" if trial["solved"] else f"goal not reached ({trial['ending']})"
    lengths = f"{len(episode.actions)} actions (shortest: {task.optimal})"
    title = f"task {index} ({task.name}): {planner}, {reached} after {lengths}"
    reason = next((plan.reason for plan in episode.plans if plan.reason and not plan.solved), "")
    figures = trial | {"actions": episode.actions, "reason": reason}
    shown = Strip(title, _names(info, agent, episode.actions), episode.frames, torch.cat(episode.expected))
    _report(run, model, shown, figures, strip, as_json)


@command(
    "dwmr plan-tasks runs/ice",
    "dwmr plan-tasks runs/ice --planner breadth_first --planner simulator --trials 20 --json",
    "dwmr plan-tasks runs/ice --out experiments/results/planning.json",
    name="plan-tasks",
)
def plan_tasks(
    run: common.RunFolder,
    planner: Annotated[list[str] | None, typer.Option(help=ENTRIES_HELP)] = None,
    seconds: Seconds = Limits.seconds,
    trials: Annotated[int | None, typer.Option(help=TRIALS_HELP, min=1)] = None,
    results: Annotated[
        Path | None, typer.Option("--out", help="JSON file to add the results to. It is created if missing.")
    ] = None,
    overwrite: Annotated[bool, flag("--overwrite", REPLACE_HELP)] = False,
    data: WorldData = None,
    seed: Annotated[int, common.seed_of(SEEDED)] = 0,
    device: common.Device = "auto",
    as_json: common.AsJson = False,
) -> None:
    """Measure planning: solve all tasks of the built-in world that a model was trained on, by acting in it.

    Every planner and baseline tries the same tasks, under the rules of dwmr plan-level. astar, batch_astar and
    greedy_step use the heuristic trained by dwmr train-heuristic if there is one, else the default. With --out, the
    results of each planner or baseline are added to the file as soon as it has tried all tasks.
    """
    names = planner or list(ENTRIES)
    if strange := [name for name in names if name not in ENTRIES]:
        raise unknown("planner", strange[0], ENTRIES)
    info, model = open_model(run, device)
    world, benchmark, limits = common.world_of(run, info), info.benchmark, Limits(seconds, 3 * seconds)
    if results is not None:
        check_output(results, overwrite=True, inputs=[run, data], written=True)
        known = read_results(results).get(benchmark, {})
        stored = [name for name in names if name in known]
        if stored and not overwrite:
            raise InputError(
                f"{results} has entries of {benchmark} already: {', '.join(stored)}; choose others with --planner, "
                "or replace them with --overwrite"
            )
    agent = _agent(run, info, model, data, seed)
    about = {
        "machine": describe_machine(model.device),
        "agent": agent.about,
        "made_with": {
            "preset": info.config.name,
            "checkpoint": checkpoint_digest(run),
            "setting": asdict(limits) | {"seed": seed},
            "radius": agent.radius,
            "trials": trials,
            "heuristic": agent.network is not None,
        },
        "set": changes(info.config),
    }
    entries = {}
    for name in names:  # each with new tasks, which draw as they are used, in the handwriting of the data
        tasks = tasks_of(benchmark, seed=seed, trials=trials, digits=agent.about.get("digits", "mnist"))
        entries[name] = evaluate_planner(tasks, agent, name, limits, seed=seed) | about
        if results is not None:
            together = read_results(results)
            together.setdefault(benchmark, {})[name] = entries[name]
            atomic_write_json(results, together)
    if as_json:
        common.print_json({benchmark: entries})
        return
    for table in tables.planning(entries, world.task_kinds):
        common.out.print(table)
    if results is not None:
        say(f"results: {results}")


@command(
    "dwmr train-heuristic runs/p",
    "dwmr train-heuristic runs/p --updates 2500 --batch 512",
    name="train-heuristic",
)
def train_heuristic(
    run: common.RunFolder,
    updates: Annotated[int, typer.Option(help="Number of minibatches to train on.", min=1)] = HeuristicTraining.updates,
    batch: Annotated[
        int, typer.Option(help="Number of start-goal pairs in each minibatch.", min=1)
    ] = HeuristicTraining.batch,
    overwrite: Annotated[bool, flag("--overwrite", "Replace the heuristic that the run has.")] = False,
    data: common.RunData = None,
    seed: Annotated[int, common.seed_of("the initial weights and the imagined walks")] = 0,
    device: common.Device = "auto",
    as_json: common.AsJson = False,
) -> None:
    """Train a heuristic, a network that estimates how many actions lead from one code to another.

    The heuristic learns from random walks that the model imagines, starting at training images, and is stored in
    RUN/planning. From then on, the planners astar and batch_astar (see dwmr plan --planner) use it instead of their
    default heuristic, which counts the bits that differ from the goal code, and divides by the most bits that one
    action flips. The planner breadth_first searches without a heuristic.
    """
    check_output(run / prepared.HEURISTIC, overwrite=overwrite, written=True)
    info, model = open_model(run, device)
    splits, decoder = _data(info, model, data), info.config.decoder
    agent = prepared.load_agent(run, model) or prepared.prepare_run(run, model, splits, decoder=decoder, seed=seed)
    starts = agent.encode(splits.train.obs[:STARTS])
    network, about = train(agent, starts, HeuristicTraining(updates=updates, batch=batch), seed=seed)
    path = prepared.save_part(run, prepared.HEURISTIC, network.state_dict(), about)
    if as_json:
        common.print_json({"heuristic": str(path), **about})
        return
    say(f"{path}: {updates:,} updates, loss from {about['loss'][0]:.3f} to {about['loss'][-1]:.3f}")


def _agent(run: Path, info: RunInfo, model: WorldModel, data: Path | None, seed: int) -> Agent:
    """The agent stored in the run folder, with its heuristic. The first time it is learned from data."""
    agent = prepared.load_agent(run, model)
    if agent is None:
        splits = _data(info, model, data)
        agent = prepared.prepare_run(run, model, splits, decoder=info.config.decoder, seed=seed)
    return replace(agent, network=prepared.load_heuristic(run, model))


def _data(info: RunInfo, model: WorldModel, data: Path | None) -> Splits:
    """The data to learn from what planning needs."""
    splits = load_data(data, info.benchmark)
    model.check_fits(splits.train)
    return splits


def _names(info: RunInfo, agent: Agent, actions: list[int]) -> list[str]:
    names = agent.about.get("action_names") or action_names(info.benchmark, info.n_actions)
    return [names[action] for action in actions]


def _check_strip(strip: Path | None, overwrite: bool, inputs: list[Path | None]) -> None:
    if strip is None:
        return
    check_output(strip, overwrite=overwrite, inputs=inputs)
    if strip.suffix != ".png":
        raise InputError(f"--strip writes a PNG: name a file that ends in .png, got {str(strip)!r}")


def _report(
    run: Path, model: WorldModel, shown: Strip, figures: dict[str, Any], strip: Path | None, as_json: bool
) -> None:
    """Draw and print a plan."""
    if strip is not None:
        drawn_by = "a decoder fitted afterwards" if model.decoder is None else "the model's own decoder"
        save_strip(shown, prepared.load_painter(run, model), strip, f"imagined codes, rendered by {drawn_by}")
        figures |= {"strip": str(strip), "drawn_by": drawn_by}
    if as_json:
        common.print_json(figures)
        return
    say(shown.title)
    say("actions: " + (" ".join(shown.actions) or "none"))
    if figures["reason"]:
        say(f"the limit of {figures['reason']} was reached: the actions lead near the goal, not to it")
    say(f"{figures['generated']:,} states generated in {figures['seconds']:.2f} s")
    if strip is not None:
        say(f"strip: {strip}; imagined codes rendered by {figures['drawn_by']}")
