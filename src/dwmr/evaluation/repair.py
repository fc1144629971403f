"""Better codes at inference, without labels and without training: from what else the data shows of a state.

Two sources, both frames of the same state in a trajectory (tier J):

votes    next_obs[t] and obs[t + 1] are two looks at one state: their logits are added
filter   a state follows from the last one by the action taken: the code is chosen among those that the model predicts
         from the codes thought possible before, and those a few bits off, by the logits of all frames so far. How far
         to believe the predictor is measured on transitions, again without labels (`Faults`)

Nothing looks ahead: the code of a state uses frames up to that state, never later ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from dwmr.data.transitions import Transitions
from dwmr.errors import InputError
from dwmr.evaluation.variance import same_state_pairs
from dwmr.models.callables import explore
from dwmr.models.world_model import Array, WorldModel

TIER = "J"
USES = {
    "votes": "both frames of a state (next_obs[t], obs[t+1])",
    "filter": "earlier frames of the episode and the actions between them",
}
CANDIDATES = 16  # codes thought possible at a time
RARELY = 0.01
LEAST_FLIP, MOST_FLIP = 0.001, 0.5
MOST_REACHABLE = 200_000
TRIED_ON = 2000  # transitions


@dataclass(frozen=True)
class Faults:
    """What to expect of a predictor: how often a code is not as predicted, and how often each bit (K,) differs then."""

    mistake: float
    flips: Tensor

    @classmethod
    def rare(cls, model: WorldModel) -> Faults:
        """Codes as predicted, or else anything: for a predictor that is nearly always exactly right."""
        return cls(RARELY, torch.full((model.bits,), MOST_FLIP, device=model.device))

    @classmethod
    def measured(cls, model: WorldModel, data: Transitions) -> Faults:
        """Each bit for itself, as often wrong as the prediction misses the next frame's bit: for a predictor that
        is mostly right about bits, seldom about codes."""
        predicted = model.predict(model.encode(data.obs), np.asarray(data.actions))
        wrong = (predicted != model.encode(data.next_obs)).float().mean(0)
        return cls(1 - RARELY, wrong.clamp(LEAST_FLIP, MOST_FLIP))


@dataclass(frozen=True)
class Repaired:
    """Codes bool (N, K) of N transitions:

    codes         of the states before, from all looks up to there
    predicted     of the states after, imagined from these
    before, after of the states before from frames `obs` alone, and of the states after from frames `next_obs` alone:
                  they share no frame, so that where they agree it is not because they saw the same
    """

    codes: Tensor
    predicted: Tensor
    before: Tensor
    after: Tensor


class Repair:
    """Reads frames with a world model and mends the codes. ``votes`` and ``filtering`` can be left out separately."""

    def __init__(
        self,
        model: WorldModel,
        faults: Faults | None = None,
        *,
        votes: bool = True,
        filtering: bool = True,
        candidates: int = CANDIDATES,
    ) -> None:
        if candidates < 1:
            raise InputError(f"repair needs at least one candidate, got {candidates}")
        if faults is None:
            faults = Faults.rare(model)
        self.model, self.faults, self.candidates = model, faults, candidates
        self.votes, self.filtering = votes, filtering

    @classmethod
    def measured(cls, model: WorldModel, data: Transitions) -> Repair:
        """The repair that suits a model, chosen without labels: with either kind of faults, or without the filter,
        whichever makes codes from one look at each state agree best with the other look, which it has not seen."""
        pairs = same_state_pairs(data.episode)
        if not len(pairs):
            raise InputError("repair needs episodes: which transitions follow each other")
        first = int(pairs[0])  # from here on, so that there are pairs among those that are tried
        tried = data[first : first + TRIED_ON]
        follows = torch.from_numpy(same_state_pairs(tried.episode)).to(model.device)
        held_out = model.encode(tried.next_obs)[follows]
        options = [
            cls(model, filtering=False),
            cls(model, Faults.rare(model)),
            cls(model, Faults.measured(model, data)),
        ]
        agreements = [
            float((repair.transitions(tried).before[follows + 1] == held_out).float().mean()) for repair in options
        ]
        return options[int(np.argmax(agreements))]

    @property
    def about(self) -> dict[str, str | bool]:
        """What information the mended codes use."""
        on = {"votes": self.votes, "filter": self.filtering}
        return {"tier": TIER, "uses": "; ".join(USES[name] for name in on if on[name]), **on}

    def reachable(self, code: Array, limit: int = MOST_REACHABLE) -> Tensor:
        """Every code (S, K) that the model reaches from one code (K,), itself first, at most ``limit``."""
        start = torch.as_tensor(code, device=self.model.device)[None]
        (found,) = explore(self.model.predict, start, self.model.n_actions, np.array([limit]))
        return torch.from_numpy(found.codes).to(self.model.device)

    def decode(self, images: Array, candidates: Array) -> Tensor:
        """The code of each image (N, C, H, W) among candidates bool (S, K), by the encoder's logits: bool (N, K)."""
        return nearest(self.model.encode_logits(images), torch.as_tensor(candidates, device=self.model.device))

    def follow(self, looks: Tensor, actions: Tensor) -> Tensor:
        """The codes bool (E, T, K) of E sequences of T states, each from the frames up to it: logits (E, T, K), zero
        where a state was not seen, and the actions (E, T − 1) between them."""
        if not self.filtering:
            return looks >= 0
        codes = (looks[:, 0] >= 0).unsqueeze(1)
        scores = likelihood(looks[:, 0], codes)
        path = [codes[:, 0]]
        for step in range(1, looks.shape[1]):
            codes, scores = self._step(codes, scores, actions[:, step - 1], looks[:, step])
            path.append(codes[:, 0])
        return torch.stack(path, dim=1)

    def _step(self, codes: Tensor, scores: Tensor, actions: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
        """From candidates bool (E, W, K) and their scores (E, W) to those after an action and a look (E, K)."""
        mistake, flips = self.faults.mistake, self.faults.flips
        moved = self.model.predict(codes.flatten(0, 1), actions.repeat_interleave(codes.shape[1]))
        as_predicted = moved.unflatten(0, codes.shape[:2])
        prior = torch.where(as_predicted, 1.0, -1.0) * torch.logit(1 - flips)
        corrected = seen.unsqueeze(1) + prior >= 0
        changes = torch.where(corrected == as_predicted, torch.log1p(-flips), flips.log()).sum(2)
        found = torch.cat([as_predicted, corrected], dim=1)
        before = torch.cat([scores + math.log(1 - mistake), scores + math.log(mistake) + changes], dim=1)
        return _best(found, before + likelihood(seen, found), self.candidates)

    def transitions(self, data: Transitions) -> Repaired:
        """The codes of transitions, episode by episode; at each episode's start nothing is known yet."""
        if data.episode is None:
            raise InputError("repair needs episodes: which transitions follow each other")
        model, count = self.model, len(data)
        before, after = model.encode_logits(data.obs), model.encode_logits(data.next_obs)
        follows = torch.from_numpy(same_state_pairs(data.episode)).to(model.device)
        both = before.clone()
        if self.votes:
            both[follows + 1] += after[follows]
        actions = torch.from_numpy(np.array(data.actions, dtype=np.int64)).to(model.device)
        # Three readings: of all looks, of the frames before alone, and of the frames after alone.
        read = torch.empty(3, count, model.bits, dtype=torch.bool, device=model.device)
        for index in _episodes(data.episode):
            place = torch.from_numpy(index).to(model.device)
            looks = torch.cat([both[place], before[place], after[place]])
            moves = torch.cat([actions[place][:, :-1], actions[place][:, :-1], actions[place][:, 1:]])
            read[:, place] = self.follow(looks, moves).unflatten(0, (3, len(index)))
        codes, alone, alone_after = read
        return Repaired(codes, model.predict(codes, actions), alone, alone_after)


def nearest(logits: Tensor, candidates: Tensor, batch: int = 1024) -> Tensor:
    """Of the candidates bool (S, K) the one of greatest Σ c_k · logit_k for each of logits (N, K): bool (N, K)."""
    signs = candidates.to(logits.dtype).T
    return torch.cat([candidates[(part @ signs).argmax(1)] for part in logits.split(batch)])


def likelihood(logits: Tensor, codes: Tensor) -> Tensor:
    """Logarithm of the probability (E, W) that logits (E, K) give to each of the codes bool (E, W, K)."""
    signed = torch.where(codes, logits.unsqueeze(1), -logits.unsqueeze(1))
    return F.logsigmoid(signed).sum(2)


def _best(codes: Tensor, scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The best different codes, the best first: codes bool (E, W, K) and scores (E, W) to at most ``count`` of each.

    Of equal codes the better one stays; the other's place is taken at a score of minus infinity.
    """
    order = scores.argsort(dim=1, descending=True, stable=True)
    codes = codes.gather(1, order.unsqueeze(2).expand_as(codes))
    scores = scores.gather(1, order)
    values = codes.to(torch.float32)
    apart = torch.cdist(values, values, p=1) > 0.5
    repeats = (~apart).tril(-1).any(2)
    scores = scores.masked_fill(repeats, -torch.inf)
    order = scores.argsort(dim=1, descending=True, stable=True)[:, :count]
    return codes.gather(1, order.unsqueeze(2).expand(-1, -1, codes.shape[2])), scores.gather(1, order)


def _episodes(episode: np.ndarray) -> list[np.ndarray]:
    """The places (E, T) of all episodes of each length."""
    episode = np.asarray(episode)
    starts = np.flatnonzero(np.r_[True, episode[1:] != episode[:-1]])
    lengths = np.diff(np.r_[starts, len(episode)])
    return [starts[lengths == length][:, None] + np.arange(length) for length in np.unique(lengths)]
