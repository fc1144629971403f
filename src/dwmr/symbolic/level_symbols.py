"""Levels of the benchmarks with an agent: pictures of start and goal, and plans run by the true rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dwmr.data.collect import N_ACTIONS, find, level_start, level_states
from dwmr.errors import InputError
from dwmr.evaluation.level_graphs import GAMES
from dwmr.seeding import rng
from dwmr.worlds import digit_jump, ice_slider
from dwmr.worlds.actions import NAMES
from dwmr.worlds.grid_world import cell_of, shortest_path
from dwmr.worlds.noise import add_noise


@dataclass(frozen=True, eq=False)
class LevelTask:
    """A level as a task: images uint8 (C, H, W) of its start and of the agent on the goal, where each action leads from
    each cell, and how many actions the shortest way takes."""

    start: np.ndarray
    goal: np.ndarray
    moves: np.ndarray
    start_cell: int
    goal_cell: int
    shortest: int

    def reaches(self, plan: Sequence[int]) -> bool:
        """Whether the plan ends on the goal in the real environment."""
        cell = self.start_cell
        for action in plan:
            cell = int(self.moves[cell, action])
        return cell == self.goal_cell


def level_task(benchmark: str, seed: int, min_solution: int = 8) -> LevelTask:
    """The level of a seed; ``min_solution`` is for the games that know it."""
    if benchmark not in GAMES:
        raise InputError(f"{benchmark!r} has no levels; those of {', '.join(GAMES)} have")
    game = GAMES[benchmark]
    level: Any = game.make_level(seed, min_solution) if game is ice_slider else game.make_level(seed)
    moves = game.destinations(level)[:, :N_ACTIONS]
    start = level_start(level)
    goal = cell_of(level.goal) if game is ice_slider else digit_jump.GOAL
    images = game.draw(level_states(level, np.array([start, goal])))
    if noise := find(benchmark).noise:
        images = add_noise(images, rng(0, "level task", seed), noise)
    way = shortest_path(moves.tolist(), start, goal)
    if way is None:
        raise InputError(f"level {seed} has no solution")
    return LevelTask(images[0], images[1], moves, start, goal, len(way))


def action_names(benchmark: str | None, n_actions: int) -> tuple[str, ...]:
    """What the actions of a benchmark are called; without one they have numbers."""
    known = benchmark is not None and n_actions <= len(NAMES)
    return NAMES[:n_actions] if known else tuple(f"action-{number}" for number in range(n_actions))
