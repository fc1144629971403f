"""Worlds whose splits hold out states."""

import zlib
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dwmr.seeding import below, rng
from dwmr.worlds.tasks import Task, distance
from dwmr.worlds.world import World

NEAR = 8
"""Most moves between start and goal of a task where there are too many states for any goal."""

_SPLITS = ("test", "val", *["train"] * 8)
_SPARE = 4


@dataclass(frozen=True)
class StateWorld(World):
    """A world whose splits hold out states.

    A hash of its labels puts each state into a split: 80% are training states, 10% validation and 10% test states.
    Training episodes stay within training states. In the other splits every transition is an episode of its own, from
    a state of the split; what it leads to may be a training state. Roll-outs start in test states and go anywhere.
    """

    levels = dict.fromkeys(("train", "val", "test"), range(1))

    @abstractmethod
    def random_state(self, generator: np.random.Generator) -> Any:
        """Any state that data may start in."""

    def split_of(self, state: Any) -> str:
        """The split that the state belongs to."""
        return _SPLITS[zlib.crc32(self.labels(state).tobytes()) % len(_SPLITS)]

    def random_state_of(self, split: str, generator: np.random.Generator) -> Any:
        state = self.random_state(generator)
        while self.split_of(state) != split:
            state = self.random_state(generator)
        return state

    def split_shape(self, split: str, count: int) -> tuple[int, int]:
        return super().split_shape(split, count) if split == "train" else (count, 1)

    def walk(self, seed: int, split: str, episodes: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Walks of random actions from random states; training walks leave out actions that leave their split."""
        generator = rng(seed, self.name, "walk", split)
        walks = [self._episode(generator, split, steps) for _ in range(episodes)]
        labels = np.array([[self.labels(state) for state in states] for states, _ in walks])
        return labels, np.array([actions for _, actions in walks], np.int64)

    def _episode(self, generator: np.random.Generator, split: str, steps: int) -> tuple[list[Any], list[int]]:
        while True:
            states, actions = [self.random_state_of("test" if split == "rollout" else split, generator)], list[int]()
            for action in below(generator, len(self.action_names), _SPARE * steps).tolist():
                after = self.step(states[-1], action)
                if split != "train" or self.split_of(after) == "train":
                    states.append(after)
                    actions.append(action)
                if len(actions) == steps:
                    return states, actions


@dataclass(frozen=True)
class Puzzle(StateWorld):
    """A world of one level, whose states can all be reached from each other and are equally likely.

    Tasks lead from test states to any state, or to one at most 8 moves away if there are many.
    """

    task_kinds = ("pairs",)

    def reset(self, seed: int) -> Any:
        generator = rng(seed, self.name, "reset")
        state = self.random_state(generator)
        while self.solved(state):
            state = self.random_state(generator)
        return state

    @property
    def many_states(self) -> bool:
        """Whether there are too many states for tasks to any goal: more than ten million."""
        return False

    def task(self, number: int, kind: str = "", seed: int = 0) -> Task:
        generator = rng(seed, "planning", self.name, number)
        start = goal = self.random_state_of("test", generator)
        if self.many_states:
            goal = self._near(generator, start)
        while self.key(goal) == self.key(start):
            goal = self.random_state(generator)
        return Task(f"pair {number}", self, start, goal, distance(self, start, goal), generator)

    def _near(self, generator: np.random.Generator, start: Any) -> Any:
        """The end of a walk of 1 to 8 moves that visits no state twice."""
        moves = 1 + int(below(generator, NEAR, 1)[0])
        state, seen = start, {self.key(start)}
        for action in below(generator, len(self.action_names), _SPARE * NEAR).tolist():
            after = self.step(state, action)
            if self.key(after) not in seen and len(seen) <= moves:
                state = after
                seen.add(self.key(after))
        return state


def odd(order: Sequence[int]) -> bool:
    """Whether an odd number of swaps makes this order of the numbers from 0."""
    return sum(one > other for index, one in enumerate(order) for other in order[index + 1 :]) % 2 == 1
