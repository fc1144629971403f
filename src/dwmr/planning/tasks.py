"""Tasks to judge planning by: the worlds, what is asked in them, and the shortest solutions by the true rules.

IceSlider and DigitJump: the levels of seeds 2000 on, which no split holds. 8-puzzle: start and goal drawn evenly among
the solvable pairs of different boards, in test digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dwmr.data.collect import NOISE_STD
from dwmr.errors import unknown
from dwmr.planning.board_rules import TableDynamics, TileDynamics, fewest_moves, pack_boards
from dwmr.planning.goals import CodeGoal
from dwmr.planning.problem import Dynamics
from dwmr.seeding import rng
from dwmr.worlds import digit_jump, ice_slider, sliding_tiles
from dwmr.worlds.digits import load_digits
from dwmr.worlds.grid_world import GridState, cell_of
from dwmr.worlds.noise import add_noise

FIRST_LEVEL = 2000
LEVELS, PAIRS = 100, 200
MAX_ACTIONS = 100


@dataclass(frozen=True)
class Task:
    """One trial.

    start, goal   states, as the rules have them
    step, paint   the rules, and a state as an image (C, H, W), drawn anew each time
    optimal       actions of a shortest solution
    rules         the true dynamics, and ``word`` a state's code in it
    agent         labels of a cell with the agent in it; None where there is none, and the whole board matters
    """

    name: str
    start: Any
    goal: Any
    step: Callable[[Any, int], Any]
    paint: Callable[[Any], np.ndarray]
    same: Callable[[Any, Any], bool]
    optimal: int
    rules: Callable[[torch.device], Dynamics]
    word: Callable[[Any], Tensor]
    agent: tuple[int, ...] | None = None

    def solved_by(self, actions: list[int]) -> bool:
        """Whether the actions lead from the start to the goal."""
        state = self.start
        for action in actions:
            state = self.step(state, action)
        return self.same(state, self.goal)


class TaskWorld:
    """The task's world as an agent meets it."""

    def __init__(self, task: Task) -> None:
        self._task, self.state = task, task.start

    def look(self) -> np.ndarray:
        return self._task.paint(self.state)

    def act(self, action: int) -> None:
        self.state = self._task.step(self.state, action)

    @property
    def solved(self) -> bool:
        return self._task.same(self.state, self._task.goal)


class TrueWorld(TaskWorld):
    """The same for who sees the true state: a look is its code, as an image of one row of bytes."""

    def look(self) -> np.ndarray:
        return self._task.word(self.state).numpy().view(np.uint8)[None]


def true_codes(images: np.ndarray) -> Tensor:
    """What `TrueWorld` shows, as codes."""
    return torch.from_numpy(np.ascontiguousarray(images[:, 0, 0])).view(torch.int64)


def tasks_of(
    benchmark: str, *, seed: int = 0, trials: int | None = None, digits: str = "mnist"
) -> dict[str, list[Task]]:
    """The tasks of a benchmark by the name of their kind; the first kind is the one the benchmark is known by."""
    game, noisy = benchmark.removesuffix("-noisy"), benchmark.endswith("-noisy")
    noise = NOISE_STD if noisy else 0.0
    if game == "iceslider":
        numbers = range(FIRST_LEVEL, FIRST_LEVEL + (trials or LEVELS))
        return {
            f"min_solution_{shortest}": [_ice_level(number, shortest, noise, seed) for number in numbers]
            for shortest in (8, 1)
        }
    if game == "digitjump":
        numbers = range(FIRST_LEVEL, FIRST_LEVEL + (trials or LEVELS))
        return {"levels": [_jump_level(number, noise, seed) for number in numbers]}
    if game == "8puzzle":
        return {"pairs": list(_puzzle_pairs(trials or PAIRS, noise, seed, digits))}
    raise unknown(
        "benchmark with tasks to plan in", benchmark, ("iceslider", "iceslider-noisy", "8puzzle", "digitjump")
    )


def _ice_level(number: int, shortest: int, noise: float, seed: int) -> Task:
    level = ice_slider.make_level(number, shortest)
    puzzle = ice_slider.IceSlider()
    return _level_task(
        f"level {number}, longer than {shortest}", puzzle, GridState(level, cell_of(level.start)),
        cell_of(level.goal), ice_slider.destinations(level), len(ice_slider.solve(level)), (ice_slider.AGENT,),
        noise, rng(seed, "planning", "iceslider", number, shortest),
    )  # fmt: skip


def _jump_level(number: int, noise: float, seed: int) -> Task:
    level = digit_jump.make_level(number)
    return _level_task(
        f"level {number}", digit_jump.DigitJump(), GridState(level, digit_jump.START), digit_jump.GOAL,
        digit_jump.destinations(level), len(digit_jump.solve(level)),
        tuple(range(digit_jump.MAX_DIGIT, digit_jump.N_CLASSES)), noise, rng(seed, "planning", "digitjump", number),
    )  # fmt: skip


def _level_task(
    name: str, puzzle: Any, start: GridState, goal: int, table: np.ndarray, optimal: int, agent: tuple[int, ...],
    noise: float, generator: np.random.Generator,
) -> Task:  # fmt: skip
    def paint(state: GridState) -> np.ndarray:
        return _noisy(puzzle.draw(state, generator).transpose(2, 0, 1), noise, generator)

    return Task(
        name=name,
        start=start,
        goal=GridState(start.level, goal),
        step=puzzle.step,
        paint=paint,
        same=lambda one, other: one.agent == other.agent,
        optimal=optimal,
        rules=lambda device: TableDynamics(table, device),
        word=lambda state: torch.tensor([[state.agent]]),
        agent=agent,
    )


def _puzzle_pairs(count: int, noise: float, seed: int, digits: str) -> Iterator[Task]:
    pictures = load_digits(digits, split="test")
    boards = rng(seed, "planning", "8puzzle boards")
    for number in range(count):
        start = goal = sliding_tiles.random_board(boards, 3, 3)
        while np.array_equal(start, goal):
            goal = sliding_tiles.random_board(boards, 3, 3)
        generator = rng(seed, "planning", "8puzzle digits", number)

        def paint(board: np.ndarray, generator: np.random.Generator = generator) -> np.ndarray:
            return _noisy(sliding_tiles.draw(board[None], pictures, generator)[0], noise, generator)

        yield Task(
            name=f"pair {number}",
            start=start,
            goal=goal,
            step=sliding_tiles.step,
            paint=paint,
            same=np.array_equal,
            optimal=fewest_moves(start, goal),
            rules=lambda device: TileDynamics(device=device),
            word=lambda board: pack_boards(board[None]),
        )


def _noisy(image: np.ndarray, noise: float, generator: np.random.Generator) -> np.ndarray:
    return add_noise(np.ascontiguousarray(image), generator, noise) if noise else np.ascontiguousarray(image)


def true_goal(task: Task, device: torch.device) -> CodeGoal:
    return CodeGoal(task.word(task.goal).to(device))
