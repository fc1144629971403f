"""How well a run plans: tasks solved in their worlds, and what the plans cost."""

from __future__ import annotations

import contextlib
import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dwmr.errors import InputError, unknown
from dwmr.evaluation.intervals import wilson
from dwmr.files import append_line, atomic_write_json, atomic_write_text
from dwmr.planning.acting import DONE, Episode, Limits, act, greedy_step, random_step
from dwmr.planning.agent import Agent
from dwmr.planning.problem import EXHAUSTED, Budget, CodeGoal, no_heuristic
from dwmr.planning.search import PLANNERS, find_planner
from dwmr.planning.simulator import TaskWorld, TrueWorld, true_code, true_codes, true_dynamics
from dwmr.progress import bar
from dwmr.seeding import rng
from dwmr.worlds.tasks import Task

CONTROLS = ("simulator", "greedy_step", "random")
ENTRIES = (*PLANNERS, *CONTROLS)


@dataclass(frozen=True)
class Setting:
    """How tasks are tried: everything that decides the outcome besides the run and the tasks."""

    seconds: float = 10.0  # of one search
    task_seconds: float = 30.0  # of all searches of a task
    max_actions: int = 100
    simulated: str = "breadth_first"  # the planner of the control "simulator"
    seed: int = 0

    @property
    def limits(self) -> Limits:
        return Limits(Budget(seconds=self.seconds), self.max_actions, self.task_seconds)


@dataclass(frozen=True)
class Trial:
    """One task. Counts are sums over all its plans."""

    task: str
    ending: str
    solved: bool  # the agent believes that it reached the goal, and it did
    plan_found: bool  # the first plan reaches the goal in the model
    plan_right: bool  # and in the world, if it is followed without observing
    exhausted: bool  # the first search proved that there is no plan in the model
    optimal: int
    actions: int
    replans: int
    random_actions: int
    expanded: int
    generated: int
    seconds: float


class TrialLog:
    """Finished trials by task. With a path they are kept, one JSON line each, and a killed evaluation continues.

    The first line is ``made_with``. A file that was made with anything else is started again.
    """

    def __init__(self, path: Path | None = None, made_with: dict[str, Any] | None = None) -> None:
        self.path, self.trials = path, dict[str, Trial]()
        if path is None:
            return
        first = json.dumps(made_with, sort_keys=True)
        before, *lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else [""]
        for line in lines if before == first else ():
            with contextlib.suppress(ValueError):  # the last line may be cut off
                trial = Trial(**json.loads(line))
                self.trials[trial.task] = trial
        kept = [json.dumps(asdict(trial)) for trial in self.trials.values()]
        atomic_write_text(path, "".join(line + "\n" for line in [first, *kept]))

    def add(self, trial: Trial) -> None:
        self.trials[trial.task] = trial
        if self.path is not None:
            append_line(self.path, json.dumps(asdict(trial)))


@dataclass(frozen=True)
class Results:
    """A results file, {benchmark: {planner: figures}}, and in it the entries of one benchmark."""

    path: Path
    benchmark: str

    def entry(self, name: str) -> dict[str, Any] | None:
        return self._read().get(self.benchmark, {}).get(name)

    def check(self, names: Sequence[str], made_with: dict[str, Any]) -> None:
        """Refuse to replace entries that were made with another run or other options."""
        for name in names:
            entry = self.entry(name)
            if entry is not None and entry.get("made_with") != made_with:
                raise InputError(
                    f"{self.path} holds an entry of {name} on {self.benchmark} that was made with another run or other "
                    "options; --overwrite replaces it"
                )

    def store(self, name: str, entry: dict[str, Any]) -> None:
        """Add or replace an entry; its finished trials are no longer needed."""
        results = self._read()
        results.setdefault(self.benchmark, {})[name] = entry
        atomic_write_json(self.path, results)
        self.log_path(name).unlink(missing_ok=True)

    def log_path(self, name: str) -> Path:
        """Where the finished trials of an incomplete entry are kept."""
        return self.path.with_name(f"{self.path.name}.{self.benchmark}.{name}.trials")

    def _read(self) -> dict[str, Any]:
        if not self.path.exists():
            return {}
        with contextlib.suppress(ValueError):
            results = json.loads(self.path.read_text(encoding="utf-8"))
            if isinstance(results, dict) and all(isinstance(each, dict) for each in results.values()):
                return results
        raise InputError(f"{self.path} is not a file of planning results, {{benchmark: {{planner: figures}}}}")


def try_tasks(
    tasks: Sequence[Task],
    agent: Agent,
    name: str,
    setting: Setting = Setting(),
    *,
    log: TrialLog | None = None,
    progress: bool | None = None,
) -> list[Trial]:
    """Try every task once, with the planner or control of that name. Trials in the log are not repeated."""
    if name not in ENTRIES:
        raise unknown("planner", name, ENTRIES)
    log, solved = log or TrialLog(), 0
    with bar(name, len(tasks), show=progress) as shown:
        for number, task in enumerate(tasks):
            if task.name not in log.trials:
                log.add(solve_task(task, agent, name, setting, number)[0])
            solved += log.trials[task.name].solved
            shown.describe(f"{solved} solved")
            shown.advance()
    return [log.trials[task.name] for task in tasks]


def summarize(trials: Sequence[Trial]) -> dict[str, Any]:
    """The figures of a results entry. Lengths are those of solved tasks, seconds those of all searches of a task."""
    solved = [trial for trial in trials if trial.solved]
    ratios = [trial.actions / trial.optimal for trial in solved]
    seconds = [trial.seconds for trial in trials]
    searching = sum(seconds)
    return {
        "solved": len(solved),
        "of": len(trials),
        "interval": wilson(len(solved), len(trials)),
        "claimed_wrongly": sum(trial.ending == DONE and not trial.solved for trial in trials),
        "plan_found": sum(trial.plan_found for trial in trials),
        "plan_found_but_wrong": sum(trial.plan_found and not trial.plan_right for trial in trials),
        "exhausted": sum(trial.exhausted for trial in trials),
        "length_over_optimal": statistics.fmean(ratios) if ratios else None,
        "share_optimal": 100 * statistics.fmean(ratio == 1 for ratio in ratios) if ratios else None,
        "replans_mean": statistics.fmean(trial.replans for trial in trials),
        "surprises_mean": statistics.fmean(trial.random_actions for trial in trials),
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
    log: TrialLog | None = None,
    progress: bool | None = None,
) -> dict[str, Any]:
    """The entry of a planner: the figures of the first kind of tasks, and those of the other kinds by name."""
    entry: dict[str, Any] = {}
    for kind, tasks in kinds.items():
        figures = summarize(try_tasks(tasks, agent, name, setting, log=log, progress=progress))
        entry |= {kind: figures} if entry else {"tasks": kind, **figures}
    return entry


def solve_task(task: Task, agent: Agent, name: str, setting: Setting, number: int = 0) -> tuple[Trial, Episode]:
    """Act in the world of a task, with the planner or control of that name; ``number`` varies the random actions."""
    generator = rng(setting.seed, "acting", name, number)
    if name == "simulator":
        agent = Agent(true_codes, true_dynamics(task), bits=64)
        world: TaskWorld = TrueWorld(task)
        goal, heuristic, name = CodeGoal(true_code(task, task.goal)), no_heuristic, setting.simulated
    else:
        world, goal = TaskWorld(task), agent.goal_of(task.paint(task.goal))
        heuristic = agent.heuristic_for(goal)
    planner = {"greedy_step": greedy_step, "random": random_step(generator)}.get(name) or find_planner(name)
    episode = act(world, agent, goal, planner, heuristic, setting.limits, generator=generator)
    first = episode.plans[0] if episode.plans else None
    trial = Trial(
        task=task.name,
        ending=episode.ending,
        solved=episode.ending == DONE and world.solved,
        plan_found=first is not None and first.solved,
        plan_right=first is not None and first.solved and task.solved_by(first.actions),
        exhausted=first is not None and first.outcome == EXHAUSTED,
        optimal=task.optimal,
        actions=len(episode.actions),
        replans=episode.replans,
        random_actions=episode.random_actions,
        expanded=sum(plan.expanded for plan in episode.plans),
        generated=sum(plan.generated for plan in episode.plans),
        seconds=episode.seconds,
    )
    return trial, episode
