"""What a planner is given and what it answers: a dynamics, a goal test, perhaps a heuristic; an outcome.

Codes are packed words, int64 (N, W), as in `dwmr.planning.packing`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

SOLVED, EXHAUSTED, OUT_OF_BUDGET = "solved", "exhausted", "out of budget"


class Dynamics(Protocol):
    """Where actions lead; every action costs one."""

    @property
    def n_actions(self) -> int: ...

    def successors(self, words: Tensor) -> tuple[Tensor, Tensor | None]:
        """Codes (N, W) to the next codes (N, A, W), and which actions are possible, bool (N, A); None: all are."""


class Goal(Protocol):
    def __call__(self, words: Tensor) -> Tensor:
        """Codes (N, W) to bool (N,): the goal is reached."""


class Heuristic(Protocol):
    def __call__(self, words: Tensor) -> Tensor:
        """Codes (N, W) to guesses (N,) of how many actions are left."""


def no_heuristic(words: Tensor) -> Tensor:
    """Nothing is known of what is left."""
    return words.new_zeros(len(words))


@dataclass(frozen=True)
class Budget:
    """Where a search ends at the latest: generated states, seconds, bytes of memory for the states it keeps."""

    nodes: int = 20_000_000
    seconds: float = 60.0
    memory: int = 4 * 2**30


@dataclass(frozen=True)
class Plan:
    """The answer of a planner.

    outcome    `SOLVED`: the actions lead to the goal in the model; `EXHAUSTED`: no actions do, proven by looking at
               every state that can be reached; `OUT_OF_BUDGET`: neither is known, and the actions lead to the state
               that looks nearest to the goal
    codes      int64 (T + 1, W): the states on the way, the start first
    optimal    no shorter plan exists in the model (if the heuristic never overestimates)
    reason     which budget ended
    """

    outcome: str
    actions: list[int]
    codes: Tensor
    optimal: bool = False
    reason: str = ""
    expanded: int = 0
    generated: int = 0
    kept: int = 0
    seconds: float = 0.0

    @property
    def solved(self) -> bool:
        return self.outcome == SOLVED
