"""What a planner searches: where a model says actions lead, which actions are possible, and what was observed instead.

Predictions use full float32 even where the device multiplies in TF32 by default, so a GPU predicts the codes that a
CPU predicts, except where a logit is within rounding of zero.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from dwmr.models.world_model import WorldModel
from dwmr.ops.precision import products
from dwmr.planning.applicability import Applicability
from dwmr.planning.packing import pack, unpack
from dwmr.planning.problem import Dynamics

PREDICTED_AT_ONCE = 1 << 15
CODES_IN_CACHE = 512  # on a CPU: the output of one layer is still in the cache when the next layer reads it


@dataclass(frozen=True)
class PredictedDynamics:
    """The predictions of a model, and which actions are possible in a code; None: all of them.

    ``predict_all`` takes codes bool (N, K) to the next codes of all actions, bool (N, A, K).
    """

    predict_all: Callable[[Tensor], Tensor]
    bits: int
    n_actions: int
    possible: Applicability | None = None

    @torch.no_grad()
    def successors(self, words: Tensor) -> tuple[Tensor, Tensor | None]:
        size = CODES_IN_CACHE if words.device.type == "cpu" else len(words)
        codes = unpack(words, self.bits)
        with products(tf32=False):
            children = torch.cat([pack(self.predict_all(part)) for part in codes.split(max(1, size))])
        return children, None if self.possible is None or self.possible.everything else self.possible(codes)


def one_by_one(predict: Callable[[Tensor, Tensor], Tensor], n_actions: int) -> Callable[[Tensor], Tensor]:
    """All actions by a function of bits bool (N, K) and actions (N,)."""

    def predict_all(codes: Tensor) -> Tensor:
        actions = torch.arange(n_actions, device=codes.device).repeat(len(codes))
        return predict(codes.repeat_interleave(n_actions, dim=0), actions).view(len(codes), n_actions, -1)

    return predict_all


def at_once(logits: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """All actions by the logits (N, A, K) for float codes (N, K), as a predictor's `all_actions` gives them."""
    return lambda codes: logits(codes.float()).sigmoid_() >= 0.5


def model_dynamics(model: WorldModel, possible: Applicability | None = None) -> PredictedDynamics:
    """The dynamics of a world model, by the predictor's `all_actions` method if it has one."""
    logits = getattr(model.predictor, "all_actions", None)
    one = one_by_one(lambda bits, actions: model.predict(bits, actions, PREDICTED_AT_ONCE), model.n_actions)
    predict_all = one if logits is None else at_once(logits)
    return PredictedDynamics(predict_all, model.bits, model.n_actions, possible)


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
