"""The base class of all worlds.

To add a world, write a file with a subclass of `World` and register it in `dwmr.worlds.registry`. Data, planning tasks,
certificates, exports and the Gymnasium environment all come from the world object.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np

from dwmr.errors import InputError, unknown
from dwmr.seeding import below, rng
from dwmr.worlds import tiles
from dwmr.worlds.digits import load_digits
from dwmr.worlds.noise import add_noise
from dwmr.worlds.tasks import StateGraph, StateNumbers, Task, breadth_first

EPISODE_STEPS, EPISODES_PER_LEVEL = 20, 2


@dataclass(frozen=True)
class World(ABC):
    """A world, with its options as fields.

    Subclasses define the abstract methods and the constants without a value; the rest has defaults. A state is a
    value: `step` returns another one and leaves the old one alone.

    Attributes:
        noise: standard deviation of the pixel noise in every frame, on the [0, 1] scale.
        name: what the world is called, also in the names of random streams. Renaming it changes its data.
        allowed: the values of options that may not have just any.
        walk_stream: names the random stream of `walk`, by default ``name``. Changing it changes the data.
        action_names: one name per action.
        n_classes: labels are below this. By default the number of `pictures`.
        image_shape: (channels, height, width) of a frame.
        sizes: transitions in each split.
        levels: seeds of the levels in each split.
        small_levels: whether the states of a level are few enough to list them all.
        task_kinds: kinds of planning tasks, the main one first.
        task_numbers: numbers of the tasks of each kind.
        level_name: what a level is called in the names of tasks.
    """

    noise: float = field(default=0.0, kw_only=True)

    name: ClassVar[str]
    allowed: ClassVar[Mapping[str, Sequence[Any]]] = {}
    walk_stream: ClassVar[str] = ""
    sizes: ClassVar[Mapping[str, int]] = {"train": 20_000, "val": 5_000, "test": 5_000}
    levels: ClassVar[Mapping[str, range]] = {"train": range(1000), "val": range(1000, 1250), "test": range(1250, 1500)}
    task_kinds: ClassVar[tuple[str, ...]] = ("levels",)
    task_numbers: ClassVar[range] = range(2000, 2100)
    level_name: ClassVar[str] = "level"

    def __post_init__(self) -> None:
        for name, values in self.allowed.items():
            if (given := getattr(self, name)) in values:
                continue
            if isinstance(values, range):
                raise InputError(f"{name} must lie between {values[0]} and {values[-1]}, got {given}")
            raise unknown(name, given, values)

    # Rules

    @property
    @abstractmethod
    def action_names(self) -> tuple[str, ...]: ...

    @property
    def n_classes(self) -> int:
        return len(self.pictures)

    @abstractmethod
    def reset(self, seed: int) -> Any:
        """The first state of the level, a function of the seed alone."""

    @abstractmethod
    def step(self, state: Any, action: int) -> Any:
        """The next state; an illegal move changes nothing."""

    @abstractmethod
    def solved(self, state: Any) -> bool:
        """Whether the goal of the level is reached."""

    @abstractmethod
    def labels(self, state: Any) -> np.ndarray:
        """What is true of the state: uint8 (rows, cols), one label per cell."""

    def successors(self, state: Any) -> list[Any]:
        """The next state for each action."""
        return [self.step(state, action) for action in range(len(self.action_names))]

    def key(self, state: Any) -> Any:
        """A hashable, sortable value that only equal states share. By default the state itself."""
        return state

    def state_name(self, state: Any) -> str:
        """The state in words."""
        return str(state)

    # Drawing

    @property
    @abstractmethod
    def image_shape(self) -> tuple[int, int, int]: ...

    @property
    def pictures(self) -> np.ndarray:
        """A picture for each label, uint8 (n_classes, C, h, w)."""
        raise NotImplementedError

    def draw(self, labels: np.ndarray, generator: np.random.Generator, split: str = "train") -> np.ndarray:
        """Frames without noise, uint8 (N, C, H, W), of labels (N, rows, cols). By default made of `pictures`.

        The generator chooses what varies between renderings of a state. ``split`` selects the pictures to draw with,
        where splits must not share any.
        """
        return tiles.mosaic(labels, self.pictures)

    def render(self, state: Any, generator: np.random.Generator, split: str = "test") -> np.ndarray:
        """One frame of the state, uint8 (C, H, W), with noise."""
        return self.noisy(np.ascontiguousarray(self.draw(self.labels(state)[None], generator, split)[0]), generator)

    def noisy(self, images: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Images with the world's noise, if it has any."""
        return add_noise(images, generator, self.noise) if self.noise else images

    def with_digits(self, source: str) -> World:
        """The same world drawn with other digits; by default there are none to exchange."""
        return self

    def drawing(self, split: str) -> dict[str, Any]:
        """What to store with frames of a split about how they were drawn."""
        return {}

    # Data

    def split_shape(self, split: str, count: int) -> tuple[int, int]:
        """How many episodes of how many steps make at least ``count`` transitions; levels are kept whole."""
        return -(-count // (EPISODE_STEPS * EPISODES_PER_LEVEL)) * EPISODES_PER_LEVEL, EPISODE_STEPS

    def walk(self, seed: int, split: str, episodes: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Random walks: labels uint8 (E, T + 1, rows, cols) and actions int64 (E, T).

        Episodes start where a level starts, and take any action; reaching the goal does not end them.
        """
        per_level = 1 if split == "rollout" else EPISODES_PER_LEVEL
        levels = self.levels["test" if split == "rollout" else split]
        needed = -(-episodes // per_level)
        if needed > len(levels):
            raise InputError(f"the split {split!r} has {len(levels)} levels, but {needed} were asked for")
        starts = [self.reset(level) for level in levels[:needed]]
        generator = rng(seed, "level walk", self.walk_stream or self.name, split)
        actions = below(generator, len(self.action_names), (episodes, steps))
        walks = [
            [self.labels(state) for state in accumulate(chosen, self.step, initial=starts[index // per_level])]
            for index, chosen in enumerate(actions.tolist())
        ]
        return np.array(walks), actions

    # Planning

    def task(self, number: int, kind: str = "", seed: int = 0) -> Task:
        """One planning task, by default of the main kind; ``seed`` decides how its frames are drawn.

        By default it leads from the start of the level to the solved state that takes fewest moves.
        """
        start = self.reset(number)
        ways = breadth_first(start, self.successors, self.key)
        solutions = ((state, len(way)) for state, way in ways if self.solved(state))
        if (found := next(solutions, None)) is None:
            raise InputError(f"{self.level_name} {number} of {self.name} cannot be solved")
        return Task(f"{self.level_name} {number}", self, start, *found, rng(seed, "planning", self.name, number))

    def tasks(self, seed: int = 0, trials: int | None = None) -> dict[str, list[Task]]:
        """The planning tasks by kind, or the first ``trials`` of each kind."""
        numbers = [self.task_numbers.start + index for index in range(trials or len(self.task_numbers))]
        return {kind: [self.task(number, kind, seed) for number in numbers] for kind in self.task_kinds}

    @property
    def small_levels(self) -> bool:
        return False

    def true_graphs(self, levels: Sequence[int] | None = None, seed: int = 0) -> list[StateGraph] | None:
        """The true graph of each level, by default of the test levels; None if levels have too many states."""
        if not self.small_levels:
            return None
        return [self._true_graph(level, seed) for level in (self.levels["test"] if levels is None else levels)]

    def _true_graph(self, level: int, seed: int) -> StateGraph:
        start = self.reset(level)
        states, table = StateNumbers(self).explore(start)
        order = np.array([0, *sorted(range(1, len(states)), key=lambda number: self.key(states[number]))])
        place = np.argsort(order)
        generator = rng(seed, "graph noise", level)
        images = self.draw(np.stack([self.labels(states[number]) for number in order]), generator, "test")
        names = [self.state_name(states[number]) for number in order]
        return StateGraph(f"level {level}", self.noisy(images, generator), names, place[table[order]])


@dataclass(frozen=True)
class DigitWorld(World):
    """A world drawn in handwritten digits, at least in the style ``digits``.

    Attributes:
        digits: their source, as `dwmr.worlds.digits.load_digits` takes it.
    """

    digits: str = field(default="mnist", kw_only=True)

    @property
    def style(self) -> str:
        return "digits"

    def with_digits(self, source: str) -> World:
        return replace(self, digits=source)

    def drawing(self, split: str) -> dict[str, Any]:
        return {"digits": load_digits(self.digits, split).source} if self.style == "digits" else {}
