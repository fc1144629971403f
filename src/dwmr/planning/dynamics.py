"""What a planner searches: where a model says actions lead, which actions are possible, and what was observed instead.

Predictions use full float32 even where the device multiplies in TF32 by default, so a GPU predicts the codes that a
CPU predicts, except where a logit is within rounding of zero.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from dwmr.models.world_model import WorldModel
from dwmr.ops.precision import full_float32
from dwmr.planning.applicability import Applicability
from dwmr.planning.packing import pack, unpack
from dwmr.planning.problem import Dynamics

CODES_AT_ONCE = {"cpu": 1024, "cuda": 1 << 15}
CODES_IN_CACHE = 512  # on a CPU: the output of one layer is still in the cache when the next layer reads it


class PredictedDynamics:
    """Any ``predict``: bits bool (N, K) and actions int64 (N,) to the next bits."""

    def __init__(self, predict: Callable[[Tensor, Tensor], Tensor], bits: int, n_actions: int) -> None:
        self.n_actions, self._bits, self._predict = n_actions, bits, predict

    def successors(self, words: Tensor) -> tuple[Tensor, Tensor | None]:
        codes = unpack(words, self._bits).repeat_interleave(self.n_actions, dim=0)
        actions = torch.arange(self.n_actions, device=words.device).repeat(len(words))
        with full_float32():
            after = self._predict(codes, actions)
        return pack(after.bool()).view(len(words), self.n_actions, -1), None


class AllActionsDynamics:
    """A predictor that gives the logits of all actions at once: float codes (N, K) to (N, A, K)."""

    def __init__(self, logits: Callable[[Tensor], Tensor], bits: int, n_actions: int) -> None:
        self.n_actions, self._bits, self._logits = n_actions, bits, logits

    @torch.no_grad()
    def successors(self, words: Tensor) -> tuple[Tensor, Tensor | None]:
        size = CODES_IN_CACHE if words.device.type == "cpu" else len(words)
        with full_float32():
            parts = [
                pack(self._logits(unpack(part, self._bits).float()).sigmoid_() >= 0.5)
                for part in words.split(max(1, size))
            ]
        return torch.cat(parts), None


class LimitedDynamics:
    """Only the actions that ``possible`` allows: bits bool (N, K) to bool (N, A)."""

    def __init__(self, dynamics: Dynamics, possible: Callable[[Tensor], Tensor], bits: int) -> None:
        self.n_actions, self._dynamics, self._possible, self._bits = dynamics.n_actions, dynamics, possible, bits

    def successors(self, words: Tensor) -> tuple[Tensor, Tensor | None]:
        children, known = self._dynamics.successors(words)
        possible = self._possible(unpack(words, self._bits))
        return children, possible if known is None else possible & known


def limited(dynamics: Dynamics, possible: Applicability, bits: int) -> Dynamics:
    """The dynamics without impossible actions; as they are, if all actions are possible."""
    return dynamics if possible.everything else LimitedDynamics(dynamics, possible, bits)


class CorrectedDynamics:
    """Observed transitions replace predicted ones."""

    def __init__(self, dynamics: Dynamics) -> None:
        self.n_actions, self._dynamics = dynamics.n_actions, dynamics
        self._observed: dict[tuple[tuple[int, ...], int], tuple[Tensor, Tensor]] = {}

    def correct(self, words: Tensor, action: int, after: Tensor) -> None:
        """In the code (1, W) the action led to the code (1, W)."""
        self._observed[tuple(words[0].tolist()), action] = words.clone(), after.clone()

    def successors(self, words: Tensor) -> tuple[Tensor, Tensor | None]:
        children, possible = self._dynamics.successors(words)
        if not self._observed:
            return children, possible
        codes, ends = (torch.cat(side) for side in zip(*self._observed.values()))
        actions = torch.tensor([action for _, action in self._observed], device=words.device)
        rows, which = torch.nonzero((words.unsqueeze(1) == codes).all(-1), as_tuple=True)
        children[rows, actions[which]] = ends[which]
        if possible is not None:
            possible[rows, actions[which]] = True
        return children, possible


def model_dynamics(model: WorldModel) -> Dynamics:
    """The dynamics of a world model, by the predictor's `all_actions` method if it has one."""
    logits = getattr(model.predictor, "all_actions", None)
    if logits is not None:
        return AllActionsDynamics(logits, model.bits, model.n_actions)
    batch = CODES_AT_ONCE[model.device.type]
    return PredictedDynamics(lambda bits, actions: model.predict(bits, actions, batch), model.bits, model.n_actions)
