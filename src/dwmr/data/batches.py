"""Minibatches: an epoch's random choices, drawn before it starts, and the transitions they pick."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dwmr.data.transitions import Transitions
from dwmr.seeding import rng, shuffled


@dataclass(frozen=True)
class Later:
    """What was done and seen one action later in the episodes of a minibatch.

    seen  (N,) 1, or 0 where the episode is over and the images are unrelated
    """

    actions: Tensor
    images: Tensor
    seen: Tensor


@dataclass(frozen=True)
class Batch:
    """One minibatch as the networks take it: normalised images, one-hot actions, and its share of the epoch's random
    numbers. With several runs every tensor has a leading run axis."""

    images: Tensor
    actions: Tensor
    next_images: Tensor
    noise: Tensor | None = None
    triplets: Tensor | None = None
    second_views: Tensor | None = None  # other images of the next states; the next images where there is none
    later: tuple[Later, ...] = ()  # after the next images, action by action


@dataclass(frozen=True)
class EpochPlan:
    """All that is random in an epoch of U updates.

    order     int64 (U, B): which transitions make up each minibatch
    noise     float32 (U, B, K) in the open interval (0, 1): uniform, for the samples of the variational models
    triplets  int64 (U, T, 3): sampled triplets of distinct bits, where the coskewness is sampled
    """

    order: np.ndarray
    noise: np.ndarray | None = None
    triplets: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.order)


def plan_epoch(
    seed: int, epoch: int, count: int, batch_size: int, bits: int, *, noise: bool = False, triplets: int = 0
) -> EpochPlan:
    """The plan of an epoch over ``count`` transitions: a function of (seed, epoch). The last incomplete minibatch is
    dropped."""
    updates = count // batch_size
    order = shuffled(rng(seed, "order", epoch), count)[: updates * batch_size].reshape(updates, batch_size)
    draws = open_uniform(rng(seed, "noise", epoch), (updates, batch_size, bits)) if noise else None
    sample = draw_triplets(rng(seed, "triplets", epoch), bits, (updates, triplets)) if triplets else None
    return EpochPlan(order, draws, sample)


def open_uniform(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """float32 of the given shape, multiples of 2⁻²⁴ from 2⁻²⁴ to 1 − 2⁻²⁴: their logits are finite."""
    return np.maximum(generator.random(shape, dtype=np.float32), np.float32(2**-24))


def draw_triplets(generator: np.random.Generator, bits: int, shape: tuple[int, ...]) -> np.ndarray:
    """Uniform triplets of distinct bits, int64 (*shape, 3)."""
    first = generator.integers(bits, size=shape)
    second = (first + generator.integers(1, bits, size=shape)) % bits
    # The third is drawn among the bits − 2 others and shifted past the two that are taken.
    low, high = np.minimum(first, second), np.maximum(first, second)
    third = generator.integers(bits - 2, size=shape)
    third += third >= low
    third += third >= high
    return np.stack([first, second, third], axis=-1)


def continuations(transitions: Transitions) -> np.ndarray:
    """int64 (N,): the transition that begins where each one ends, so that its first image is a second view of the same
    state; -1 where the episode is over. Needs the transitions' episodes."""
    first, second = transitions.same_state_pairs()
    after = np.full(len(transitions), -1)
    after[first] = second
    return after


class Loader:
    """Cuts the epochs of one or several runs into minibatches.

    On a GPU all transitions stay there as bytes; on the CPU they may stay on disk. The minibatch is a function of
    tensors on the device alone, so that an update can be recorded and replayed.

    Args:
        normalize: bytes to what the networks take.
        dtype: type of the one-hot actions.
        two_views, steps: whether second views and how many later steps are needed.
    """

    def __init__(
        self,
        transitions: Transitions,
        device: torch.device,
        normalize: Callable[[Tensor], Tensor],
        *,
        dtype: torch.dtype = torch.float32,
        two_views: bool = False,
        steps: int = 1,
    ) -> None:
        self.device, self.normalize, self.two_views, self.steps = device, normalize, two_views, steps
        self.obs, self.next_obs = (
            images if device.type == "cpu" else torch.from_numpy(np.array(images)).to(device)
            for images in (transitions.obs, transitions.next_obs)
        )
        self.actions = torch.from_numpy(np.array(transitions.actions, dtype=np.int64)).to(device)
        self.eye = torch.eye(transitions.n_actions, dtype=dtype, device=device)
        if two_views or steps > 1:
            self.after = torch.from_numpy(continuations(transitions)).to(device)
        self.plan: dict[str, Tensor] = {}

    def sharing_data(self) -> Loader:
        """Another loader of the same transitions, for other runs beside these."""
        other = copy.copy(self)
        other.plan = {}
        return other

    def lay_out(self, plans: Sequence[EpochPlan]) -> None:
        """Put an epoch's choices on the device, of one run (U, …), of several (U, S, …); into the same tensors as
        before, if there are any."""
        for name in ("order", "noise", "triplets"):
            parts = [part for plan in plans if (part := getattr(plan, name)) is not None]
            if not parts:
                self.plan.pop(name, None)
                continue
            fresh = torch.from_numpy(np.stack(parts, axis=1) if len(parts) > 1 else parts[0])
            if name in self.plan and self.plan[name].shape == fresh.shape:
                self.plan[name].copy_(fresh)
            else:
                self.plan[name] = fresh.to(self.device)

    def batch(self, update: Tensor) -> Batch:
        """The minibatch of an update, whose number is in a tensor (1,) on the device."""
        drawn = {name: values.index_select(0, update)[0] for name, values in self.plan.items()}
        index = drawn.pop("order")
        next_images = self._images(self.next_obs, index)
        return Batch(
            images=self._images(self.obs, index),
            actions=self.eye[self.actions[index]],
            next_images=next_images,
            second_views=self._second_views(index, next_images) if self.two_views else None,
            later=tuple(self._later(index)),
            **drawn,
        )

    def _images(self, images: np.ndarray | Tensor, index: Tensor) -> Tensor:
        """Images on the device, or in an array that may lie on disk, as the networks take them."""
        return self.normalize(images[index] if isinstance(images, Tensor) else torch.from_numpy(images[index.numpy()]))

    def _second_views(self, index: Tensor, next_images: Tensor) -> Tensor:
        after = self.after[index]
        others = self._images(self.obs, after.clamp_min(0))
        return torch.where((after >= 0)[..., None, None, None], others, next_images)

    def _later(self, index: Tensor) -> Iterator[Later]:
        seen = torch.ones_like(index, dtype=torch.bool)
        for _ in range(self.steps - 1):
            index = self.after[index]
            seen, index = seen & (index >= 0), index.clamp_min(0)
            yield Later(self.eye[self.actions[index]], self._images(self.next_obs, index), seen.to(self.eye.dtype))
