"""An agent: what planning and acting need to know about a model, learned from transitions."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dwmr.data.transitions import Transitions
from dwmr.errors import InputError
from dwmr.planning.applicability import Applicability, fit_applicability
from dwmr.planning.dynamics import PredictedDynamics, one_by_one
from dwmr.planning.heuristics import HammingHeuristic, HeuristicNetwork, LearnedHeuristic, most_flips
from dwmr.planning.packing import hamming, pack
from dwmr.planning.problem import CodeGoal, Dynamics, Heuristic

FRAMES = 20_000  # of each split, at most, to learn from


@dataclass(frozen=True)
class Agent:
    """What planning and acting need."""

    encode: Callable[[np.ndarray], Tensor]  # uint8 images (N, C, H, W) to codes, int64 (N, W)
    dynamics: Dynamics  # where possible actions lead
    bits: int
    radius: int = 0  # codes that differ in at most this many bits count as one state
    flips: int = 1  # the most bits that one action flips
    possible: Applicability | None = None  # which actions are possible in a code, as learned; None: all of them
    network: HeuristicNetwork | None = None  # a learned heuristic
    about: dict[str, Any] = field(default_factory=dict)  # figures of the validation split

    def goal_of(self, image: np.ndarray) -> CodeGoal:
        """The goal to reach what an image (C, H, W) shows."""
        return CodeGoal(self.encode(image[None]), radius=self.radius)

    def heuristic_for(self, goal: CodeGoal) -> Heuristic:
        """The learned heuristic if there is one, otherwise the Hamming distance."""
        return HammingHeuristic(goal, self.flips) if self.network is None else LearnedHeuristic(self.network, goal)


def prepare_agent(
    encode: Callable[[np.ndarray], Any],
    predict: Callable[[Tensor, Tensor], Any],
    train: Transitions,
    val: Transitions | None = None,
    *,
    seed: int = 0,
) -> Agent:
    """Learn what planning needs from two plain callables and transitions.

    Args:
        encode: uint8 images (N, C, H, W) to bits (N, K).
        predict: bits bool (N, K) and actions (N,) to the next bits (N, K).
        train: transitions to learn from.
        val: transitions to choose thresholds on; by default the last fifth of ``train``.
        seed: of the network that learns which actions are possible.
    """
    if val is None:
        cut = len(train) - max(1, len(train) // 5)
        train, val = train[:cut], train[cut:]
    train, val = train[:FRAMES], val[:FRAMES]
    codes, val_codes = _bits(encode(train.obs)), _bits(encode(val.obs))
    actions, val_actions = (torch.tensor(part.actions, dtype=torch.int64, device=codes.device) for part in (train, val))
    possible = fit_applicability(codes, actions, val_codes, val_actions, train.n_actions, seed)
    now, then = pack(val_codes), pack(_bits(encode(val.next_obs)))
    expected = pack(_bits(predict(val_codes, val_actions)))
    labels = val.flat_labels()
    changes = (now != expected).cpu().numpy() if labels is None else labels[0] != labels[1]
    same = np.zeros(0, np.int64)  # distances between two codes of one state: where an action ends, and the next begins
    if val.episode is not None:
        first, second = (torch.from_numpy(index).to(now.device) for index in val.same_state_pairs())
        same = hamming(then[first], now[second]).cpu().numpy()
    bits, predict_all = codes.shape[1], one_by_one(lambda before, taken: _bits(predict(before, taken)), train.n_actions)
    return Agent(
        encode=lambda images: pack(_bits(encode(images))),
        dynamics=PredictedDynamics(predict_all, bits, train.n_actions, possible),
        bits=bits,
        radius=choose_radius(same, hamming(now, then).cpu().numpy()[changes.any(1)]),
        flips=most_flips(hamming(now, expected).cpu().numpy()),
        possible=possible,
        about={
            "exact_next": 100 * float((expected == then).all(1).float().mean()),
            "applicability": possible.figures(val_codes, val_actions),
        },
    )


def choose_radius(same: np.ndarray, different: np.ndarray) -> int:
    """The Hamming distance up to which two codes should count as one state: the one with the fewest mistakes.

    Mistakes are the share of ``same``, distances between codes of one state, that are larger, plus the share of
    ``different``, distances between codes of neighbouring states, that are not.
    """
    radii = np.arange(int(same.max(initial=0)) + 1)
    missed = (same[:, None] > radii).mean(0) if len(same) else np.zeros(len(radii))
    confused = (different[:, None] <= radii).mean(0) if len(different) else np.zeros(len(radii))
    return int(radii[np.argmin(missed + confused)])


def _bits(codes: Any) -> Tensor:
    """Codes as any encoder may return them, as bool (N, K) on their device."""
    tensor = codes if isinstance(codes, Tensor) else torch.from_numpy(np.array(codes))
    if tensor.ndim != 2:
        raise InputError(f"codes must have the shape (N, K), got {tuple(tensor.shape)}")
    return tensor.bool()
