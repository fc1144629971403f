"""Planning tasks, searches by the rules, and true graphs: what evaluations ask of a world."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dwmr.errors import InputError

if TYPE_CHECKING:
    from dwmr.worlds.world import World

State = TypeVar("State")


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
                self._ends[number] = [self.number(after) for after in self.world.successors(self.states[number])]
        return np.array([self._ends[number] for number in numbers.tolist()], np.int64)

    def explore(self, start: Any) -> tuple[list[Any], np.ndarray]:
        """All states that can be reached from the start, the start first, and where each action leads (S, A)."""
        self.number(start)
        ends = [self.successors(np.array([number])) for number, _ in enumerate(self.states)]  # the states grow
        return self.states, np.concatenate(ends)


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
        return self.reached(functools.reduce(self.world.step, actions, self.start))

    @functools.cached_property
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
        count = len(self.images)
        if len(self.states) != count or self.table.ndim != 2 or len(self.table) != count:
            sizes = f"{count} images, {len(self.states)} states and a table of shape {self.table.shape}"
            raise InputError(f"{self.name}: images, states and rows of the table must be equally many, got {sizes}")
        if not ((self.table >= 0) & (self.table < count)).all():
            raise InputError(f"{self.name}: the entries of the table must be states in [0, {count})")


def breadth_first(
    start: State, successors: Callable[[State], Iterable[State]], key: Callable[[State], Hashable] = lambda state: state
) -> Iterator[tuple[State, tuple[int, ...]]]:
    """Each state that can be reached, nearest first, and the actions of a shortest way to it.

    First in, first out, actions in order: of several shortest ways always the same one.
    """
    queue: list[tuple[State, tuple[int, ...]]] = [(start, ())]
    seen = {key(start)}
    for state, way in queue:  # grows
        yield state, way
        for action, after in enumerate(successors(state)):
            if (name := key(after)) not in seen:
                seen.add(name)
                queue.append((after, (*way, action)))


def distance(world: World, start: Any, goal: Any) -> int:
    """Fewest moves from start to goal, where every move can be undone by other moves. Searches from both ends."""
    layers, seen = [[start], [goal]], [{world.key(start)}, {world.key(goal)}]
    moves = 0
    while seen[0].isdisjoint(seen[1]):
        side = int(len(layers[0]) > len(layers[1]))
        if not layers[side]:
            raise ValueError("no moves lead from the start to the goal")
        reached = {world.key(after): after for state in layers[side] for after in world.successors(state)}
        layers[side] = [after for key, after in reached.items() if key not in seen[side]]
        seen[side] |= reached.keys()
        moves += 1
    return moves
