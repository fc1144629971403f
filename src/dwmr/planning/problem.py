"""The inputs and the answer of a planner: a dynamics, a goal, perhaps a heuristic and a budget; a plan.

Codes are packed words, int64 (N, W), as in `dwmr.planning.packing`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from dwmr.planning.packing import hamming

SOLVED, EXHAUSTED, OUT_OF_BUDGET = "solved", "exhausted", "out of budget"

Goal = Callable[[Tensor], Tensor]
"""Codes (N, W) to bool (N,): the goal is reached."""

Heuristic = Callable[[Tensor], Tensor]
"""Codes (N, W) to the estimated number of actions left, (N,)."""


class Dynamics(Protocol):
    """Where actions lead. Every action costs one."""

    @property
    def n_actions(self) -> int: ...

    def successors(self, words: Tensor) -> tuple[Tensor, Tensor | None]:
        """Codes (N, W) to the next codes (N, A, W), and which actions are possible, bool (N, A); None: all are."""


@dataclass(frozen=True)
class CodeGoal:
    """Codes that differ from ``words`` (1, W) in at most ``radius`` bits."""

    words: Tensor
    radius: int = 0

    def __call__(self, words: Tensor) -> Tensor:
        return hamming(words, self.words) <= self.radius


@dataclass(frozen=True)
class Budget:
    """Limits of a search."""

    nodes: int = 20_000_000  # generated states; so many need at most 4 GB of memory for codes of up to 256 bits
    seconds: float = 60.0


@dataclass(frozen=True)
class Plan:
    """The answer of a planner.

    `SOLVED`: the actions lead to the goal in the model. `EXHAUSTED`: no actions do, since the goal is not among the
    states that can be reached. `OUT_OF_BUDGET`: neither is known; the actions lead to the state that looks nearest.
    """

    outcome: str
    actions: list[int]
    codes: Tensor  # int64 (T + 1, W): the states on the way, the start first
    optimal: bool = False  # no plan in the model is shorter, if the heuristic never overestimates
    reason: str = ""  # which part of the budget ended
    expanded: int = 0
    generated: int = 0
    kept: int = 0
    seconds: float = 0.0

    @property
    def solved(self) -> bool:
        return self.outcome == SOLVED
