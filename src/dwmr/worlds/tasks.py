"""Planning tasks, the rules over numbered states, and true graphs: what evaluations ask of a world."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dwmr.errors import InputError

if TYPE_CHECKING:
    from dwmr.worlds.world import World


class StateNumbers:
    """The rules of any world, with states numbered in the order in which they are first reached.

    A search over the numbers finds what it would find with a perfect model.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.states: list[Any] = []
        self._numbers: dict[Hashable, int] = {}
        self._ends: dict[int, list[int]] = {}

    def number(self, state: Any) -> int:
        number = self._numbers.setdefault(self.world.key(state), len(self.states))
        if number == len(self.states):
            self.states.append(state)
        return number

    def successors(self, numbers: np.ndarray) -> np.ndarray:
        """Numbers (N,) to the next numbers (N, A)."""
        for number in numbers.tolist():
            if number not in self._ends:
                state, actions = self.states[number], range(len(self.world.action_names))
                self._ends[number] = [self.number(self.world.step(state, action)) for action in actions]
        return np.array([self._ends[number] for number in numbers.tolist()], np.int64)

    def explore(self, start: Any) -> tuple[list[Any], np.ndarray]:
        """All states that can be reached from the start, the start first, and where each action leads (S, A)."""
        self.number(start)
        done = 0
        while done < len(self.states):
            done, first = len(self.states), done
            self.successors(np.arange(first, done))
        return self.states, self.successors(np.arange(done))


@dataclass(frozen=True, eq=False)
class Task:
    """A planning task: get from the start to the goal.

    start, goal  states of the world
    optimal      number of actions in a shortest solution
    generator    draws what varies between renderings
    """

    name: str
    world: World
    start: Any
    goal: Any
    optimal: int
    generator: np.random.Generator

    def paint(self, state: Any) -> np.ndarray:
        """A fresh frame of a state, uint8 (C, H, W)."""
        return self.world.render(state, self.generator)

    def reached(self, state: Any) -> bool:
        return self.world.key(state) == self.world.key(self.goal)

    def solved_by(self, actions: Sequence[int]) -> bool:
        """Whether the actions lead from the start to the goal."""
        state = self.start
        for action in actions:
            state = self.world.step(state, action)
        return self.reached(state)

    @cached_property
    def rules(self) -> StateNumbers:
        return StateNumbers(self.world)


@dataclass(frozen=True, eq=False)
class StateGraph:
    """The true graph of a level: the S states that can be reached from the first one.

    images  uint8 (S, C, H, W), a frame of each state
    states  S descriptions, used to list wrong edges
    table   int (S, A), the state that each action leads to
    """

    name: str
    images: np.ndarray
    states: Sequence[str]
    table: np.ndarray

    def __post_init__(self) -> None:
        count, shape = len(self.images), self.table.shape
        if len(self.states) != count or len(shape) != 2 or shape[0] != count:
            raise InputError(
                f"{self.name}: images, states and rows of the table must be equally many, got {count} images, "
                f"{len(self.states)} states and a table of shape {shape}"
            )
        if int(self.table.min()) < 0 or int(self.table.max()) >= count:
            raise InputError(f"{self.name}: the entries of the table must be states in [0, {count})")


def shortest_solution(world: World, start: Any) -> tuple[Any, int]:
    """The solved state that takes fewest moves from the start, and how many; of several always the same one."""
    states, steps, seen = [start], [0], {world.key(start)}
    for state, done in zip(states, steps):  # both grow
        if world.solved(state):
            return state, done
        for action in range(len(world.action_names)):
            after = world.step(state, action)
            if (key := world.key(after)) not in seen:
                seen.add(key)
                states.append(after)
                steps.append(done + 1)
    raise ValueError("no moves solve the state")


def distance(world: World, start: Any, goal: Any) -> int:
    """Fewest moves from start to goal, where every move can be undone by other moves. Searches from both ends."""
    layers, seen = [[start], [goal]], [{world.key(start)}, {world.key(goal)}]
    moves = 0
    while seen[0].isdisjoint(seen[1]):
        side = int(len(layers[0]) > len(layers[1]))
        if not layers[side]:
            raise ValueError("no moves lead from the start to the goal")
        layer = []
        for state in layers[side]:
            for action in range(len(world.action_names)):
                after = world.step(state, action)
                if (key := world.key(after)) not in seen[side]:
                    seen[side].add(key)
                    layer.append(after)
        layers[side] = layer
        moves += 1
    return moves
