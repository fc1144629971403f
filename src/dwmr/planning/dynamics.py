"""A world model as dynamics, in three layers: what it predicts, which actions are possible, what was seen otherwise.

Predictions are made in full float32, also where the device would multiply in TF32 by default, so that a GPU finds the
codes that a CPU finds, but for logits within rounding of zero.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from dwmr.models.predictors import MLPPredictor
from dwmr.models.world_model import WorldModel
from dwmr.ops.precision import full_float32
from dwmr.planning.packing import pack, unpack
from dwmr.planning.problem import Dynamics

Predict = Callable[[Tensor, Tensor], Tensor]
Possible = Callable[[Tensor], Tensor]

CODES_AT_ONCE = {"cpu": 1024, "cuda": 1 << 15}  # predicted by a model's own predictor
CODES_IN_CACHE = 512  # expanded at once on a CPU: what one layer writes, the next still finds in the cache


class PredictedDynamics:
    """Any ``predict``: bits bool (N, K) and actions int64 (N,) to the next bits."""

    def __init__(self, predict: Predict, bits: int, n_actions: int) -> None:
        self.n_actions, self._bits, self._predict = n_actions, bits, predict

    def successors(self, words: Tensor) -> tuple[Tensor, Tensor | None]:
        codes = unpack(words, self._bits).repeat_interleave(self.n_actions, dim=0)
        actions = torch.arange(self.n_actions, device=words.device).repeat(len(words))
        with full_float32():
            after = self._predict(codes, actions)
        return pack(after.bool()).view(len(words), self.n_actions, -1), None


class MLPDynamics:
    """The faithful 8-puzzle predictor: its first layer sees the bits once for all actions, and adds each action's
    column to the sum. The sums are float32 in another order than the predictor's own."""

    def __init__(self, predictor: MLPPredictor, bits: int, n_actions: int) -> None:
        first, second, last = (layer for layer in predictor.layers if isinstance(layer, nn.Linear))
        self.n_actions, self._bits = n_actions, bits
        self._from_bits = first.weight[:, :bits].detach().T.contiguous()
        self._from_action = (first.weight[:, bits:].T + first.bias).detach().contiguous()
        self._second = second.weight.detach().T.contiguous(), second.bias.detach()
        self._last = last.weight.detach().T.contiguous(), last.bias.detach()

    @torch.no_grad()
    def successors(self, words: Tensor) -> tuple[Tensor, Tensor | None]:
        part = CODES_IN_CACHE if words.device.type == "cpu" else len(words)
        with full_float32():
            after = [self._after(codes) for codes in words.split(max(1, part))]
        return torch.cat(after) if len(after) > 1 else after[0], None

    def _after(self, words: Tensor) -> Tensor:
        codes = unpack(words, self._bits).to(self._from_bits.dtype)
        shared = codes @ self._from_bits
        hidden = (shared.unsqueeze(1) + self._from_action).flatten(0, 1).relu_()
        hidden = torch.addmm(self._second[1], hidden, self._second[0]).relu_()
        logits = torch.addmm(self._last[1], hidden, self._last[0])
        return pack(logits.sigmoid_() >= 0.5).view(len(words), self.n_actions, -1)


class LimitedDynamics:
    """Only what ``possible`` allows: bits bool (N, K) to bool (N, A)."""

    def __init__(self, dynamics: Dynamics, possible: Possible, bits: int) -> None:
        self.n_actions, self._dynamics, self._possible, self._bits = dynamics.n_actions, dynamics, possible, bits

    def successors(self, words: Tensor) -> tuple[Tensor, Tensor | None]:
        children, known = self._dynamics.successors(words)
        possible = self._possible(unpack(words, self._bits))
        return children, possible if known is None else possible & known


class CorrectedDynamics:
    """What was seen in the world counts more than what is predicted."""

    def __init__(self, dynamics: Dynamics) -> None:
        self.n_actions, self._dynamics = dynamics.n_actions, dynamics
        self._seen: dict[tuple[tuple[int, ...], int], tuple[Tensor, Tensor]] = {}

    def __len__(self) -> int:
        return len(self._seen)

    def correct(self, words: Tensor, action: int, after: Tensor) -> None:
        """From the code (1, W) the action led to the code (1, W)."""
        self._seen[tuple(words[0].tolist()), action] = words.clone(), after.clone()

    def successors(self, words: Tensor) -> tuple[Tensor, Tensor | None]:
        children, possible = self._dynamics.successors(words)
        if not self._seen:
            return children, possible
        codes, ends = (torch.cat(side) for side in zip(*self._seen.values()))
        actions = torch.tensor([action for _, action in self._seen], device=words.device)
        rows, which = torch.nonzero((words.unsqueeze(1) == codes).all(-1), as_tuple=True)
        children[rows, actions[which]] = ends[which]
        if possible is not None:
            possible[rows, actions[which]] = True
        return children, possible


def model_dynamics(model: WorldModel) -> Dynamics:
    """The dynamics of a world model: the quickest that its predictor allows."""
    if type(model.predictor) is MLPPredictor:
        return MLPDynamics(model.predictor, model.bits, model.n_actions)
    batch = CODES_AT_ONCE[model.device.type]
    return PredictedDynamics(lambda bits, taken: model.predict(bits, taken, batch), model.bits, model.n_actions)
