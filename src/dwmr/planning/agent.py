"""A run made ready to plan: how it sees, what it predicts, what it takes for possible, and what it takes for equal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dwmr.data.transitions import Transitions
from dwmr.errors import InputError
from dwmr.models.world_model import WorldModel
from dwmr.planning.applicability import Applicability, fit_applicability
from dwmr.planning.dynamics import LimitedDynamics, PredictedDynamics, model_dynamics
from dwmr.planning.goals import CodeGoal, choose_radius
from dwmr.planning.heuristics import HammingHeuristic, most_flips
from dwmr.planning.packing import hamming, pack
from dwmr.planning.problem import Dynamics, Goal, Heuristic, no_heuristic
from dwmr.planning.value import ValueHeuristic, ValueNetwork

HEURISTICS = ("auto", "zero", "hamming", "value")
FRAMES = 20_000  # of each split, at most, to learn from


@dataclass(frozen=True)
class Agent:
    """What planning and acting need of a model.

    encode     uint8 images (N, C, H, W) to codes, int64 (N, W)
    dynamics   where possible actions lead
    radius     codes that differ in so many bits still count as one state
    flips      the most bits that an action flips
    value      a learned guess of the actions left between two codes, or None
    """

    encode: Callable[[np.ndarray], Tensor]
    dynamics: Dynamics
    bits: int
    radius: int = 0
    flips: int = 1
    value: ValueNetwork | None = None
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def n_actions(self) -> int:
        return self.dynamics.n_actions

    def goal_of(self, image: np.ndarray, radius: int | None = None) -> CodeGoal:
        """The goal that an image (C, H, W) shows."""
        return CodeGoal(self.encode(image[None]), radius=self.radius if radius is None else radius)

    def heuristic_for(self, goal: Goal, name: str = "auto") -> Heuristic:
        """By name; ``auto`` is the learned one where there is one, else the Hamming distance. A goal that is no code
        leaves nothing to guess from."""
        if name == "value" and self.value is None:
            raise InputError("this run has no learned heuristic; make one with: dwmr train-heuristic RUN")
        if not isinstance(goal, CodeGoal) or name == "zero":
            return no_heuristic
        if self.value is not None and name in ("auto", "value"):
            return ValueHeuristic(self.value, goal, self.bits)
        return HammingHeuristic(goal, self.flips)


def prepare_agent(
    encode: Callable[[np.ndarray], Any],
    predict: Callable[[Tensor, Tensor], Any],
    train: Transitions,
    val: Transitions | None = None,
    *,
    dynamics: Dynamics | None = None,
    value: ValueNetwork | None = None,
    seed: int = 0,
) -> Agent:
    """From two plain callables and transitions: images to bits (N, K), bits and actions to the next bits.

    What is chosen is chosen on ``val``, or without it on the last fifth of ``train``. ``dynamics`` may be a quicker
    form of ``predict``.
    """
    if val is None:
        cut = len(train) - max(1, len(train) // 5)
        train, val = train[:cut], train[cut:]
    train, val = train[:FRAMES], val[:FRAMES]
    codes, val_codes = _bits(encode(train.obs)), _bits(encode(val.obs))
    next_codes = _bits(encode(val.next_obs))
    actions, val_actions = (
        torch.from_numpy(np.array(part.actions, dtype=np.int64)).to(codes.device) for part in (train, val)
    )
    predicted = _bits(predict(val_codes, val_actions))
    now, then, expected = pack(val_codes), pack(next_codes), pack(predicted)
    labels = val.flat_labels()
    state_changes = (now != expected).cpu().numpy() if labels is None else labels[0] != labels[1]
    moved = state_changes.any(1)
    flips = hamming(now, then).cpu().numpy()
    missed = hamming(expected, then).cpu().numpy()
    possible = fit_applicability(codes, actions, val_codes, val_actions, train.n_actions, seed)
    bits = codes.shape[1]
    if dynamics is None:
        dynamics = PredictedDynamics(lambda bits, taken: _bits(predict(bits, taken)), bits, train.n_actions)
    return Agent(
        encode=lambda images: pack(_bits(encode(images))),
        dynamics=dynamics if possible.everything else LimitedDynamics(dynamics, possible, bits),
        bits=bits,
        radius=choose_radius(_same_state(now, then, val), flips[moved]),
        flips=most_flips(hamming(now, expected).cpu().numpy()),
        value=value,
        about={
            "exact_next": 100 * float((missed == 0).mean()),
            "applicability": _describe(possible, val_codes, val_actions),
        },
    )


def agent_of(
    model: WorldModel,
    train: Transitions,
    val: Transitions | None = None,
    *,
    value: ValueNetwork | None = None,
    seed: int = 0,
) -> Agent:
    """`prepare_agent` for a world model, with the quickest dynamics that its predictor allows."""
    return prepare_agent(
        model.encode, model.predict, train, val, dynamics=model_dynamics(model), value=value, seed=seed
    )


def _same_state(now: Tensor, then: Tensor, transitions: Transitions) -> np.ndarray:
    """Distances of the codes of two frames of one state: the end of a transition and the beginning of the next."""
    if transitions.episode is None:
        return np.zeros(0, np.int64)
    first, second = (torch.from_numpy(index).to(now.device) for index in transitions.same_state_pairs())
    return hamming(then[first], now[second]).cpu().numpy()


def _describe(possible: Applicability, codes: Tensor, actions: Tensor) -> dict[str, Any]:
    """What was learned, as figures of the validation split: possible actions a code, and observed ones ruled out."""
    if possible.everything:
        return {"everything": True}
    allowed = possible(codes)
    taken = allowed.gather(1, actions[:, None])
    return {
        "everything": False,
        "threshold": possible.threshold,
        "mean": float(allowed.sum(1).float().mean()),
        "observed_ruled_out": 100 * float((~taken).float().mean()),
    }


def _bits(codes: Any) -> Tensor:
    """Codes as anyone's encoder may return them, as bool (N, K)."""
    tensor = codes if isinstance(codes, Tensor) else torch.from_numpy(np.array(codes))
    if tensor.ndim != 2:
        raise InputError(f"codes must have the shape (N, K), got {tuple(tensor.shape)}")
    return tensor.bool()
