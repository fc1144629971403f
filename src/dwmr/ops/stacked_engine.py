"""Many runs as one program: all data on the device, the whole update of all runs captured once and replayed.

An update reads its place in the epoch from a counter on the device, picks each run's minibatch by the epoch's order,
and adds its figures to buffers there, so the host only says "again". What changes over a run (weights of the terms,
learning rate, τ, γ, window, noise, temperature) lies in tensors; schedules, other seeds and other hyperparameters never
capture anew. Runs do not mix, so one that diverges harms no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from dwmr.data.batches import Batch, EpochPlan, Later, second_looks
from dwmr.data.transitions import Transitions
from dwmr.models.bits import threshold
from dwmr.ops.capture import capture
from dwmr.ops.stacked_learner import StackedLearner
from dwmr.ops.terms import fast_objective, has_triton
from dwmr.training.engine import EpochFigures, fill, new_hyper
from dwmr.training.objectives import Objective
from dwmr.training.schemes import Learner, Scheme


class StackedEngine:
    """S learners of one architecture and objective on one data set.

    Raises:
        CannotStack: a network holds a layer without a stacked twin.
    """

    def __init__(
        self,
        learners: Sequence[Learner],
        objective: Objective,
        scheme: Scheme,
        train: Transitions,
        device: torch.device,
        two_views: bool = False,
        steps: int = 1,
    ) -> None:
        single = learners[0].model.mean.dtype == torch.float32
        fused = device.type == "cuda" and has_triton() and single
        self.learners, self.scheme, self.device = list(learners), scheme, device
        self.hyper = new_hyper(device, len(self.learners))
        self.stacked = StackedLearner(learners, fast_objective(objective, device), self.hyper, device, fused)
        model = learners[0].model
        self.bits = model.bits
        self.scale, self.shift = (1 / (255 * model.std)).to(device), (-model.mean / model.std).to(device)
        self.fused = fused
        self.obs, self.next_obs = (
            torch.from_numpy(np.array(images)).to(device) for images in (train.obs, train.next_obs)
        )
        self.eye = torch.eye(train.n_actions, dtype=model.mean.dtype, device=device)
        self.actions = torch.from_numpy(np.array(train.actions, dtype=np.int64)).to(device)
        after = torch.from_numpy(second_looks(train)).to(device) if two_views or steps > 1 else None
        self.after, self.again, self.steps = after, after if two_views else None, steps
        self.counter = torch.zeros(1, dtype=torch.int64, device=device)
        self.order: Tensor | None = None
        self.graph: torch.cuda.CUDAGraph | None = None
        self.val: tuple[Transitions, Tensor, Tensor, Tensor] | None = None
        kernels = "Triton kernels" if fused else "torch kernels"
        captured = "captured updates" if device.type == "cuda" else "uncaptured updates"
        self.description = f"{len(self.learners)} run(s) as one program on {device.type}: {captured}, {kernels}"

    def run_epoch(
        self, plans: list[EpochPlan], values: list[dict[str, float]], advance: Callable[[int], None]
    ) -> list[EpochFigures]:
        fill(self.hyper, {name: [now[name] for now in values] for name in values[0]})
        self._lay_out(plans)
        self.stacked.train()
        updates = len(plans[0])
        for _ in range(updates):
            self._replay()
            advance(1)
        terms = self.terms.permute(2, 0, 1).cpu()
        ones, flips = (self.ones / updates).cpu(), (self.flips / updates).cpu()
        finite = self.stacked.finite().cpu()
        return [
            EpochFigures(terms[run], ones[run], float(flips[run]), bool(finite[run]))
            for run in range(len(self.learners))
        ]

    def settle(self) -> None:
        self.stacked.write(self.learners)

    @torch.no_grad()
    def agreement(self, val: Transitions, batch: int = 512) -> list[dict[str, float]]:
        self.stacked.train(False)
        runs = len(self.learners)
        exact, right = torch.zeros(runs, device=self.device), torch.zeros(runs, device=self.device)
        if self.val is None or self.val[0] is not val:
            obs, next_obs = (torch.from_numpy(np.array(images)).to(self.device) for images in (val.obs, val.next_obs))
            actions = torch.from_numpy(np.array(val.actions, dtype=np.int64)).to(self.device)
            self.val = val, obs, next_obs, actions
        _, obs, next_obs, every_action = self.val
        for start in range(0, len(val), batch):
            part = slice(start, start + batch)
            codes, next_codes = self._encode(obs[part]), self._encode(next_obs[part])
            actions = self.eye[every_action[part]]
            logits = self.stacked.model.predictor(codes, actions.expand(runs, -1, -1))
            same = threshold(torch.sigmoid(logits)) == next_codes
            exact += same.all(-1).sum(-1)
            right += same.float().mean(-1).sum(-1)
        count = len(val) / 100
        return [
            {"exact_next": whole / count, "bits_next": bits / count}
            for whole, bits in zip(exact.tolist(), right.tolist())
        ]

    def _encode(self, images: Tensor) -> Tensor:
        """uint8 (N, C, H, W) to bits (S, N, K) of every run."""
        frames = images * self.scale[:, None, None] + self.shift[:, None, None]  # `WorldModel.normalize`
        logits = self.stacked.model.encoder(frames.expand(len(self.learners), *frames.shape))
        return threshold(torch.sigmoid(logits))

    def _lay_out(self, plans: list[EpochPlan]) -> None:
        """Put an epoch's random choices on the device, into the same tensors each time."""
        order = torch.from_numpy(np.stack([plan.order for plan in plans], axis=1))
        noise = _stacked_plan([plan.noise for plan in plans])
        triplets = _stacked_plan([plan.triplets for plan in plans])
        if self.order is None:
            updates, runs = order.shape[:2]
            names = len(self.stacked.objective.terms)
            self.order = order.to(self.device)
            self.noise = None if noise is None else noise.to(self.device)
            self.triplets = None if triplets is None else triplets.to(self.device)
            self.terms = torch.zeros(updates, names, runs, device=self.device)
            self.ones = torch.zeros(runs, self.bits, device=self.device)
            self.flips = torch.zeros(runs, device=self.device)
        else:
            self.order.copy_(order)
            for kept, fresh in ((self.noise, noise), (self.triplets, triplets)):
                if kept is not None and fresh is not None:
                    kept.copy_(fresh)
        for buffer in (self.counter, self.terms, self.ones, self.flips):
            buffer.zero_()

    def _update(self) -> None:
        """One update of every run, at the place the counter says."""
        assert self.order is not None
        index = self.order.index_select(0, self.counter)[0]
        next_images = self._pick(self.next_obs, index)
        batch = Batch(
            images=self._pick(self.obs, index),
            actions=self.eye[self.actions[index]],
            next_images=next_images,
            second_looks=self._second(index, next_images),
            later=tuple(self._later(index)),
            noise=None if self.noise is None else self.noise.index_select(0, self.counter)[0],
            triplets=None if self.triplets is None else self.triplets.index_select(0, self.counter)[0],
        )
        result = self.scheme(self.stacked, batch, self.hyper)
        terms = torch.stack([result.terms[name] for name in self.stacked.objective.terms])
        self.terms.index_copy_(0, self.counter, terms[None])
        self.ones += result.bits.mean(1)
        self.flips += (result.bits != result.next_bits).sum(-1).float().mean(-1)
        self.counter += 1

    def _pick(self, images: Tensor, index: Tensor) -> Tensor:
        """Normalised images (S, N, C, H, W) at each run's places (S, N)."""
        if self.fused:
            from dwmr.ops.triton_pick import pick

            return pick(images, index, self.scale, self.shift)
        return images[index] * self.scale[:, None, None] + self.shift[:, None, None]

    def _second(self, index: Tensor, next_images: Tensor) -> Tensor | None:
        if self.again is None:
            return None
        again = self.again[index]
        others = self._pick(self.obs, again.clamp_min(0))
        return torch.where((again >= 0)[..., None, None, None], others, next_images)

    def _later(self, index: Tensor) -> Iterator[Later]:
        """What came after the transitions at each run's places (S, N), action by action."""
        seen = torch.ones_like(index, dtype=torch.bool)
        for _ in range(self.steps - 1):
            assert self.after is not None
            index = self.after[index]
            seen, index = seen & (index >= 0), index.clamp_min(0)
            yield Later(self.eye[self.actions[index]], self._pick(self.next_obs, index), seen.to(self.eye.dtype))

    def _replay(self) -> None:
        if self.device.type != "cuda":
            self._update()
            return
        if self.graph is None:
            self.graph = capture(
                self._update,
                lambda: [*self.stacked.state(), self.counter, self.terms, self.ones, self.flips],
                rewind=self.counter.zero_,
            )
        self.graph.replay()


def _stacked_plan(parts: list[np.ndarray | None]) -> Tensor | None:
    """The runs' random numbers (U, …) as one tensor (U, S, …)."""
    known = [part for part in parts if part is not None]
    return torch.from_numpy(np.stack(known, axis=1)) if known else None
