"""Correct codes at inference with other frames of the same episode. Needs no labels and no training.

votes   next_obs[t] and obs[t + 1] show the same state, so their logits are added.
filter  The predictor links each state to the one before. Several candidate codes are kept per step: the codes
        predicted from the previous candidates, and variants of them that fit the frame better. The logits of all
        frames so far rank them. How far the predictor is trusted is estimated without labels (`PredictorErrors`).

The code of a state only uses frames up to that state, never later ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from dwmr.data.transitions import Transitions, episode_runs
from dwmr.errors import InputError
from dwmr.models.world_model import WorldModel

VOTES = "both frames of a state (next_obs[t], obs[t+1])"
FILTER = "earlier frames of the episode and the actions between them"
NO_EPISODES = "repair needs episodes, but the data does not say which transitions follow each other"
CANDIDATES = 16  # codes kept per step
RARE = 0.01
MIN_FLIP, MAX_FLIP = 0.001, 0.5
MAX_TRIED = 2000  # transitions on which the variants of repair are compared


@dataclass(frozen=True)
class PredictorErrors:
    """How often the true code differs from the predicted one, and how often each bit (K,) differs in that case."""

    mistake: float
    flips: Tensor

    @classmethod
    def rare(cls, model: WorldModel) -> PredictorErrors:
        """The prediction is exact, or rarely anything else: fits a predictor of mostly exact codes."""
        return cls(RARE, torch.full((model.bits,), MAX_FLIP, device=model.device))

    @classmethod
    def measured(cls, model: WorldModel, data: Transitions) -> PredictorErrors:
        """Each bit is wrong as often as on ``data``: fits a predictor of mostly correct bits, rarely exact codes."""
        predicted = model.predict(model.encode(data.obs), np.asarray(data.actions))
        wrong = (predicted != model.encode(data.next_obs)).float().mean(0)
        return cls(1 - RARE, wrong.clamp(MIN_FLIP, MAX_FLIP))


@dataclass(frozen=True)
class Repaired:
    """Repaired codes of N transitions, bool (N, K) each.

    codes      the states before the actions, from all frames up to them
    predicted  the states after, predicted from ``codes``
    before     the states before, from the frames ``obs`` alone
    after      the states after, from the frames ``next_obs`` alone; as the two share no frame, they agree only if
               repair works
    """

    codes: Tensor
    predicted: Tensor
    before: Tensor
    after: Tensor


class Repair:
    """Encodes episodes with a world model and corrects the codes; ``filtering=False`` uses votes alone."""

    def __init__(self, model: WorldModel, errors: PredictorErrors | None = None, *, filtering: bool = True) -> None:
        self.model, self.filtering = model, filtering
        self.errors = PredictorErrors.rare(model) if errors is None else errors

    @classmethod
    def measured(cls, model: WorldModel, data: Transitions) -> Repair:
        """The variant that suits a model: with either kind of errors, or without the filter.

        Chosen without labels: codes from one frame of each state should agree best with the other frame's, which they
        have not seen.
        """
        if data.episode is None or not len(data.same_state_pairs()[0]):
            raise InputError(NO_EPISODES)
        start = int(data.same_state_pairs()[0][0])  # start here, so that the transitions tried contain pairs
        tried = data[start : start + MAX_TRIED]
        first, second = (torch.from_numpy(index).to(model.device) for index in tried.same_state_pairs())
        held_out = model.encode(tried.next_obs)[first]
        variants = [
            cls(model, filtering=False),
            cls(model, PredictorErrors.rare(model)),
            cls(model, PredictorErrors.measured(model, data)),
        ]
        agreements = [
            float((repair.transitions(tried).before[second] == held_out).float().mean()) for repair in variants
        ]
        return variants[int(np.argmax(agreements))]

    @property
    def about(self) -> dict[str, str | bool]:
        """The information that repaired codes use; tier J is that of frames of one trajectory."""
        uses = "; ".join([VOTES, FILTER] if self.filtering else [VOTES])
        return {"tier": "J", "uses": uses, "votes": True, "filter": self.filtering}

    def transitions(self, data: Transitions) -> Repaired:
        """Repair the codes of transitions, episode by episode.

        Raises:
            InputError: ``data`` has no episodes.
        """
        if data.episode is None:
            raise InputError(NO_EPISODES)
        model, count = self.model, len(data)
        before, after = model.encode_logits(data.obs), model.encode_logits(data.next_obs)
        first, second = (torch.from_numpy(index).to(model.device) for index in data.same_state_pairs())
        both = before.clone()
        both[second] += after[first]
        actions = torch.from_numpy(np.array(data.actions, dtype=np.int64)).to(model.device)
        # Three versions: from all frames, from the frames before alone, and from the frames after alone.
        codes = torch.empty(3, count, model.bits, dtype=torch.bool, device=model.device)
        for index in _episodes(np.asarray(data.episode)):
            place = torch.from_numpy(index).to(model.device)
            logits = torch.cat([both[place], before[place], after[place]])
            moves = torch.cat([actions[place][:, :-1], actions[place][:, :-1], actions[place][:, 1:]])
            codes[:, place] = self.follow(logits, moves).unflatten(0, (3, len(index)))
        return Repaired(codes[0], model.predict(codes[0], actions), codes[1], codes[2])

    def follow(self, logits: Tensor, actions: Tensor) -> Tensor:
        """Codes bool (E, T, K) of E sequences of T states, from the logits (E, T, K) of their frames, zero where there
        is no frame, and the actions (E, T − 1) between them."""
        if not self.filtering:
            return logits >= 0
        codes = (logits[:, 0] >= 0).unsqueeze(1)
        scores = log_likelihood(logits[:, 0], codes)
        path = [codes[:, 0]]
        for step in range(1, logits.shape[1]):
            codes, scores = self._step(codes, scores, actions[:, step - 1], logits[:, step])
            path.append(codes[:, 0])
        return torch.stack(path, dim=1)

    def _step(self, codes: Tensor, scores: Tensor, actions: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
        """From candidates bool (E, W, K) with scores (E, W) to those after an action and a frame's logits (E, K)."""
        mistake, flips = self.errors.mistake, self.errors.flips
        moved = self.model.predict(codes.flatten(0, 1), actions.repeat_interleave(codes.shape[1]))
        predicted = moved.unflatten(0, codes.shape[:2])
        prior = torch.where(predicted, 1.0, -1.0) * torch.logit(1 - flips)
        corrected = logits.unsqueeze(1) + prior >= 0
        changes = torch.where(corrected == predicted, torch.log1p(-flips), flips.log()).sum(2)
        candidates = torch.cat([predicted, corrected], dim=1)
        before = torch.cat([scores + math.log(1 - mistake), scores + math.log(mistake) + changes], dim=1)
        return _best(candidates, before + log_likelihood(logits, candidates), CANDIDATES)


def log_likelihood(logits: Tensor, codes: Tensor) -> Tensor:
    """The log-probability (E, W) of codes bool (E, W, K) under the logits (E, K) of a frame."""
    signed = torch.where(codes, logits.unsqueeze(1), -logits.unsqueeze(1))
    return F.logsigmoid(signed).sum(2)


def _best(codes: Tensor, scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Up to ``count`` of the candidates bool (E, W, K) and their scores (E, W), best first; repeated codes score −∞."""
    order = scores.argsort(dim=1, descending=True, stable=True)
    codes = codes.gather(1, order.unsqueeze(2).expand_as(codes))
    scores = scores.gather(1, order)
    values = codes.to(torch.float32)
    different = torch.cdist(values, values, p=1) > 0.5
    repeats = (~different).tril(-1).any(2)
    scores = scores.masked_fill(repeats, -torch.inf)
    order = scores.argsort(dim=1, descending=True, stable=True)[:, :count]
    return codes.gather(1, order.unsqueeze(2).expand(-1, -1, codes.shape[2])), scores.gather(1, order)


def _episodes(episode: np.ndarray) -> list[np.ndarray]:
    """For each length T of an episode, the indices (E, T) of the transitions of all episodes of this length."""
    starts, lengths = episode_runs(episode)
    return [starts[lengths == length][:, None] + np.arange(length) for length in np.unique(lengths)]
