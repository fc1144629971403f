"""How well a run plans: tasks solved in their worlds, and what the plans cost."""

import contextlib
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dwmr.errors import InputError
from dwmr.evaluation.intervals import wilson
from dwmr.planning.acting import DONE, Episode, Limits, act, one_step
from dwmr.planning.agent import Agent
from dwmr.planning.problem import EXHAUSTED, OUT_OF_BUDGET, Plan
from dwmr.planning.search import PLANNERS, find_planner
from dwmr.progress import bar
from dwmr.seeding import rng
from dwmr.worlds.tasks import StateNumbers, Task

ENTRIES = (*PLANNERS, "simulator", "greedy_step", "random")
"""Planners, and the controls beside them: a search with the true rules, no search, and no plan."""


class TaskWorld:
    """The world of a task, seen through images."""

    def __init__(self, task: Task) -> None:
        self.task, self.state = task, task.start

    def paint(self, state: Any) -> np.ndarray:
        return self.task.paint(state)

    def observe(self) -> np.ndarray:
        return self.paint(self.state)

    def act(self, action: int) -> None:
        self.state = self.task.world.step(self.state, action)


class TrueWorld(TaskWorld):
    """The world of a task, seen as the number of its state, int64 (1,), in the place of an image."""

    def paint(self, state: Any) -> np.ndarray:
        return np.array([self.task.rules.number(state)])


@dataclass(frozen=True)
class TrueDynamics:
    """The true rules as dynamics. A code is the number of a state."""

    rules: StateNumbers
    n_actions: int

    def successors(self, words: Tensor) -> tuple[Tensor, Tensor | None]:
        ends = self.rules.successors(words[:, 0].cpu().numpy())
        return torch.from_numpy(ends).unsqueeze(-1).to(words.device), None


def true_agent(task: Task) -> Agent:
    """An agent of a `TrueWorld`: it knows the rules, and a code is the number of a state."""
    return Agent(torch.from_numpy, TrueDynamics(task.rules, len(task.world.action_names)), bits=64)


def evaluate_planner(
    kinds: dict[str, list[Task]], agent: Agent, name: str, limits: Limits = Limits(), *, seed: int = 0
) -> dict[str, Any]:
    """Try every task once with a planner or control of `ENTRIES`.

    Returns its results entry: the figures of the first kind of tasks, and those of the other kinds by name.
    """
    entry: dict[str, Any] = {}
    for kind, tasks in kinds.items():
        trials: list[dict[str, Any]] = []
        with bar(name, len(tasks)) as shown:
            for number, task in enumerate(tasks):
                trials.append(solve_task(task, agent, name, limits, seed, number)[0])
                shown.describe(f"{sum(trial['solved'] for trial in trials)} solved")
                shown.advance()
        entry |= {kind: summarize(trials)} if entry else {"tasks": kind, **summarize(trials)}
    return entry


def solve_task(
    task: Task, agent: Agent, name: str, limits: Limits, seed: int = 0, number: int = 0
) -> tuple[dict[str, Any], Episode]:
    """Act in the world of a task, with the planner or control of that name; ``number`` varies the random actions.

    Returns the figures of the trial, with counts summed over all its plans, and what was done.
    """
    generator = rng(seed, "acting", name, number)
    world, controls = TaskWorld(task), {"greedy_step": one_step(), "random": one_step(generator)}
    if name == "simulator":
        world, agent, name = TrueWorld(task), true_agent(task), "breadth_first"
    planner, goal = controls.get(name) or find_planner(name), agent.goal_of(world.paint(task.goal))
    episode = act(world, agent, goal, planner, agent.heuristic_for(goal), limits, generator=generator)
    first = episode.plans[0] if episode.plans else Plan(OUT_OF_BUDGET, [], torch.empty(0))
    trial = {
        "task": task.name,
        "ending": episode.ending,
        "solved": episode.ending == DONE and task.reached(world.state),  # the agent believes so, and is right
        "plan_found": first.solved,  # the first plan reaches the goal in the model
        "plan_right": first.solved and task.solved_by(first.actions),  # and in the world, followed without observing
        "exhausted": first.outcome == EXHAUSTED,  # the first search proved that there is no plan in the model
        "optimal": task.optimal,
        "actions": len(episode.actions),
        "replans": episode.replans,
        "random_actions": episode.random_actions,
        "expanded": sum(plan.expanded for plan in episode.plans),
        "generated": sum(plan.generated for plan in episode.plans),
        "seconds": episode.seconds,
    }
    return trial, episode


def summarize(trials: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The figures of a results entry. Lengths are those of solved tasks, seconds those of all searches of a task."""
    every = {name: [trial[name] for trial in trials] for name in trials[0]}
    ratios = [trial["actions"] / trial["optimal"] for trial in trials if trial["solved"]]
    searching = sum(every["seconds"])
    return {
        "solved": len(ratios),
        "of": len(trials),
        "interval": wilson(len(ratios), len(trials)),
        "claimed_wrongly": every["ending"].count(DONE) - len(ratios),
        "plan_found": sum(every["plan_found"]),
        "plan_found_but_wrong": sum(every["plan_found"]) - sum(every["plan_right"]),
        "exhausted": sum(every["exhausted"]),
        "length_over_optimal": statistics.fmean(ratios) if ratios else None,
        "share_optimal": 100 * statistics.fmean(ratio == 1 for ratio in ratios) if ratios else None,
        "replans_mean": statistics.fmean(every["replans"]),
        "surprises_mean": statistics.fmean(every["random_actions"]),
        "expanded_mean": statistics.fmean(every["expanded"]),
        "generated_mean": statistics.fmean(every["generated"]),
        "generated_per_second": sum(every["generated"]) / searching if searching else None,
        "seconds_median": statistics.median(every["seconds"]),
        "seconds_95": float(np.percentile(every["seconds"], 95)),
    }


def read_results(path: Path) -> dict[str, dict[str, Any]]:
    """A results file, {benchmark: {planner: entry}}; empty if there is none."""
    with contextlib.suppress(ValueError):
        results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        if isinstance(results, dict) and all(isinstance(each, dict) for each in results.values()):
            return results
    raise InputError(f"{path} is not a file of planning results, {{benchmark: {{planner: figures}}}}")
