"""How well a run plans: tasks solved in the real world, and what the plans cost."""

from __future__ import annotations

import contextlib
import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dwmr.errors import InputError, unknown
from dwmr.evaluation.intervals import wilson
from dwmr.evaluation.probes import Probe
from dwmr.files import atomic_write_json, atomic_write_text
from dwmr.planning.acting import DONE, act, greedy_step, random_step
from dwmr.planning.agent import Agent
from dwmr.planning.goals import CodeGoal, board_goal
from dwmr.planning.problem import EXHAUSTED, Budget, Goal
from dwmr.planning.search import PLANNERS, Planner, find_planner
from dwmr.planning.simulator import TaskWorld, TrueWorld, true_code, true_codes, true_dynamics
from dwmr.progress import bar
from dwmr.seeding import rng
from dwmr.worlds.tasks import Task

CONTROLS = ("simulator", "greedy_step", "random")


@dataclass(frozen=True)
class Setting:
    """How tasks are tried: all that decides the outcome besides the run and the tasks."""

    heuristic: str = "auto"
    goal: str = "image"  # or "probe": what a probe reads from it
    nodes: int = Budget.nodes
    seconds: float = 10.0  # a search
    task_seconds: float = 30.0  # all searches of a task
    memory: int = Budget.memory
    max_actions: int = 100
    simulated: str = "breadth_first"  # the planner of the control `simulator`
    seed: int = 0

    @property
    def budget(self) -> Budget:
        return Budget(self.nodes, self.seconds, self.memory)


@dataclass(frozen=True)
class Trial:
    """One task as it went; counts over all its plans."""

    task: str
    said: str
    solved: bool  # the agent says that it is done, and it is
    plan_found: bool  # the first plan reaches the goal in the model
    plan_right: bool  # and in the world, if it is followed without looking
    exhausted: bool  # the first search proved that the model holds no plan
    optimal: int
    actions: int
    replans: int
    surprises: int
    expanded: int
    generated: int
    seconds: float


class KeptTrials:
    """The trials of an entry in the making, a line each in a file beside the results, so that a killed evaluation goes
    on where it was. Trials that were made with anything else are dropped."""

    def __init__(self, results: Path, benchmark: str, name: str, made_with: dict[str, Any]) -> None:
        self.path = results.with_name(f"{results.name}.{benchmark}.{name}.trials")
        self.trials: dict[str, Trial] = {}
        first = json.dumps(made_with, sort_keys=True)
        before, *lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else [""]
        if before == first:
            for line in lines:
                with contextlib.suppress(ValueError):  # the last one may be cut off
                    trial = Trial(**json.loads(line))
                    self.trials[trial.task] = trial
        kept = [json.dumps(asdict(trial)) for trial in self.trials.values()]
        atomic_write_text(self.path, "".join(line + "\n" for line in [first, *kept]))

    def add(self, trial: Trial) -> None:
        self.trials[trial.task] = trial
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(trial)) + "\n")

    def drop(self) -> None:
        """The entry is stored."""
        self.path.unlink(missing_ok=True)


def known_entries() -> list[str]:
    """What a table of results may hold for a benchmark."""
    return [*PLANNERS, *CONTROLS]


def try_tasks(
    tasks: Sequence[Task],
    agent: Agent,
    name: str,
    setting: Setting = Setting(),
    *,
    probe: Probe | None = None,
    kept: KeptTrials | None = None,
    progress: bool | None = None,
) -> list[Trial]:
    """Every task once, by a planner or a control of that name; those that are kept already are not tried again."""
    if name not in known_entries():
        raise unknown("planner", name, known_entries())
    trials = []
    with bar(name, len(tasks), show=progress) as shown:
        for number, task in enumerate(tasks):
            trial = kept.trials.get(task.name) if kept is not None else None
            if trial is None:
                trial = _try(task, agent, name, setting, probe, number)
                if kept is not None:
                    kept.add(trial)
            trials.append(trial)
            shown.describe(f"{sum(trial.solved for trial in trials)} solved")
            shown.advance()
    return trials


def summarize(trials: Sequence[Trial]) -> dict[str, Any]:
    """The figures of a table's entry. Lengths are those of solved tasks; seconds are those of searching, a task."""
    solved = [trial for trial in trials if trial.solved]
    ratios = [trial.actions / trial.optimal for trial in solved]
    seconds = [trial.seconds for trial in trials]
    searching = sum(seconds)
    return {
        "solved": len(solved),
        "of": len(trials),
        "interval": wilson(len(solved), len(trials)),
        "claimed_wrongly": sum(trial.said == DONE and not trial.solved for trial in trials),
        "plan_found": sum(trial.plan_found for trial in trials),
        "plan_found_but_wrong": sum(trial.plan_found and not trial.plan_right for trial in trials),
        "exhausted": sum(trial.exhausted for trial in trials),
        "length_over_optimal": statistics.fmean(ratios) if ratios else None,
        "share_optimal": 100 * statistics.fmean(ratio == 1 for ratio in ratios) if ratios else None,
        "replans_mean": statistics.fmean(trial.replans for trial in trials),
        "surprises_mean": statistics.fmean(trial.surprises for trial in trials),
        "expanded_mean": statistics.fmean(trial.expanded for trial in trials),
        "generated_mean": statistics.fmean(trial.generated for trial in trials),
        "generated_per_second": sum(trial.generated for trial in trials) / searching if searching else None,
        "seconds_median": statistics.median(seconds),
        "seconds_95": float(np.percentile(seconds, 95)),
    }


def evaluate_planner(
    kinds: dict[str, list[Task]],
    agent: Agent,
    name: str,
    setting: Setting = Setting(),
    *,
    probe: Probe | None = None,
    kept: KeptTrials | None = None,
    progress: bool | None = None,
) -> dict[str, Any]:
    """The entry of a planner: the figures of the first kind of tasks, and those of the others under their names."""
    found: dict[str, Any] = {}
    for place, (kind, tasks) in enumerate(kinds.items()):
        figures = summarize(try_tasks(tasks, agent, name, setting, probe=probe, kept=kept, progress=progress))
        found |= {"tasks": kind, **figures} if place == 0 else {kind: figures}
    return found


def check_results(path: Path, benchmark: str = "", name: str = "", made_with: dict[str, Any] | None = None) -> None:
    """Refuse a file that holds anything but planning results, or this planner's entry made with other options."""
    entry = _read(path).get(benchmark, {}).get(name)
    if entry is not None and made_with is not None and entry.get("made_with") != made_with:
        raise InputError(
            f"{path} holds an entry of {name} on {benchmark} that was made with another run or other options; "
            f"--overwrite replaces it"
        )


def stored_entry(path: Path, benchmark: str, name: str, made_with: dict[str, Any]) -> dict[str, Any] | None:
    """The entry of a results file, if there is one that was made with just this."""
    entry = _read(path).get(benchmark, {}).get(name)
    return entry if entry is not None and entry.get("made_with") == made_with else None


def store_entry(path: Path, benchmark: str, name: str, entry: dict[str, Any]) -> None:
    """Put an entry into a results file, {benchmark: {planner: figures}}; the others stay."""
    results = _read(path)
    results.setdefault(benchmark, {})[name] = entry
    atomic_write_json(path, results)


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(results, dict) and all(isinstance(each, dict) for each in results.values()):
            return results
    except ValueError:
        pass
    raise InputError(f"{path} is not a file of planning results, {{benchmark: {{planner: figures}}}}")


def _try(task: Task, agent: Agent, name: str, setting: Setting, probe: Probe | None, number: int) -> Trial:
    generator = rng(setting.seed, "acting", name, number)
    goal: Goal
    world: TaskWorld
    if name == "simulator":
        agent = Agent(true_codes, true_dynamics(task), bits=64)
        goal, world = CodeGoal(true_code(task, task.goal)), TrueWorld(task)
    else:
        goal, world = _goal(task, agent, setting.goal, probe), TaskWorld(task)
    planner = _planner(name, setting.simulated, generator)
    heuristic = agent.heuristic_for(goal, "zero" if name == "simulator" else setting.heuristic)
    episode = act(
        world,
        agent,
        goal,
        planner,
        heuristic,
        setting.budget,
        max_actions=setting.max_actions,
        max_seconds=setting.task_seconds,
        generator=generator,
    )
    first = episode.plans[0] if episode.plans else None
    return Trial(
        task=task.name,
        said=episode.said,
        solved=episode.said == DONE and world.solved,
        plan_found=first is not None and first.solved,
        plan_right=first is not None and first.solved and task.solved_by(first.actions),
        exhausted=first is not None and first.outcome == EXHAUSTED,
        optimal=task.optimal,
        actions=len(episode.actions),
        replans=episode.replans,
        surprises=episode.surprises,
        expanded=sum(plan.expanded for plan in episode.plans),
        generated=sum(plan.generated for plan in episode.plans),
        seconds=sum(plan.seconds for plan in episode.plans),
    )


def _planner(name: str, simulated: str, generator: np.random.Generator) -> Planner:
    controls: dict[str, Callable[[], Planner]] = {
        "simulator": lambda: find_planner(simulated),
        "greedy_step": lambda: greedy_step,
        "random": lambda: random_step(generator),
    }
    return controls[name]() if name in controls else find_planner(name)


def _goal(task: Task, agent: Agent, kind: str, probe: Probe | None) -> Goal:
    image = task.paint(task.goal)
    if kind == "image":
        return agent.goal_of(image)
    if kind != "probe":
        raise unknown("kind of goal", kind, ("image", "probe"))
    if probe is None:
        raise InputError("a goal by probe needs labels: the states of the training frames")
    return board_goal(probe, agent.bits, agent.encode(image[None]), task.world.agent_labels)
