"""A planning task as an agent meets it, and the true rules in the place of a learned model."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from dwmr.worlds.tasks import Rules, Task


class TaskWorld:
    """The world of a task, seen through images."""

    def __init__(self, task: Task) -> None:
        self._task, self.state = task, task.start

    def observe(self) -> np.ndarray:
        return self._task.paint(self.state)

    def act(self, action: int) -> None:
        self.state = self._task.world.step(self.state, action)

    @property
    def solved(self) -> bool:
        return self._task.reached(self.state)


class TrueWorld(TaskWorld):
    """The world of a task, seen as the number of its state: an image of one row of bytes."""

    def observe(self) -> np.ndarray:
        return true_code(self._task, self.state).numpy().view(np.uint8)[None]


class TrueDynamics:
    """The true rules as dynamics. A code is the number of a state."""

    def __init__(self, rules: Rules, n_actions: int) -> None:
        self.rules, self.n_actions = rules, n_actions

    def successors(self, words: Tensor) -> tuple[Tensor, Tensor | None]:
        ends, possible = self.rules.successors(words[:, 0].cpu().numpy())
        children = torch.from_numpy(ends).unsqueeze(-1).to(words.device)
        return children, None if possible is None else torch.from_numpy(possible).to(words.device)


def true_dynamics(task: Task) -> TrueDynamics:
    return TrueDynamics(task.rules, len(task.world.action_names))


def true_code(task: Task, state: object) -> Tensor:
    """The code (1, 1) of a state for `true_dynamics`."""
    return torch.tensor([[task.rules.number(state)]])


def true_codes(images: np.ndarray) -> Tensor:
    """The codes that a `TrueWorld` shows."""
    return torch.from_numpy(np.ascontiguousarray(images[:, 0, 0])).view(torch.int64)
