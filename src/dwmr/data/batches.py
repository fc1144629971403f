"""Minibatches: an epoch's random choices, drawn before it starts, and the transitions they pick."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dwmr.data.transitions import Transitions
from dwmr.errors import InputError
from dwmr.seeding import rng, shuffled


@dataclass(frozen=True)
class Later:
    """What was done and seen one action later in the episodes of a minibatch.

    seen  (N,) 1, or 0 where the episode is over: the images are then of elsewhere
    """

    actions: Tensor
    images: Tensor
    seen: Tensor


@dataclass(frozen=True)
class Batch:
    """One minibatch as the networks take it: normalised images, one-hot actions, and its share of the
    epoch's random numbers."""

    images: Tensor
    actions: Tensor
    next_images: Tensor
    noise: Tensor | None = None
    triplets: Tensor | None = None
    second_looks: Tensor | None = None  # other images of the next states; the next images where there is none
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


def second_looks(transitions: Transitions) -> np.ndarray:
    """int64 (N,): the transition that begins where each one ends, whose first image is another look at its last state;
    -1 where the episode is over. It needs the transitions' episodes."""
    if transitions.episode is None:
        raise InputError("two views and later steps are known from episodes only, and this data names none")
    first, second = transitions.same_state_pairs()
    after = np.full(len(transitions), -1)
    after[first] = second
    return after


RawBatch = tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None, list[Later]]


class Loader:
    """Transitions ready to be cut into minibatches: on a GPU they stay there as bytes, on the CPU they may stay on
    disk."""

    def __init__(self, transitions: Transitions, device: torch.device, two_views: bool = False, steps: int = 1) -> None:
        self.device, self.steps = device, steps
        self.after = second_looks(transitions) if two_views or steps > 1 else None
        self.again = self.after if two_views else None
        self.obs, self.next_obs = transitions.obs, transitions.next_obs
        self.actions = torch.from_numpy(np.array(transitions.actions, dtype=np.int64)).to(device)
        if device.type != "cpu":
            self.resident = [torch.from_numpy(np.array(images)).to(device) for images in (self.obs, self.next_obs)]

    def __len__(self) -> int:
        return len(self.actions)

    def images(self, index: np.ndarray) -> tuple[Tensor, Tensor]:
        """The uint8 images and next images of the given transitions, on the device."""
        if self.device.type == "cpu":
            return torch.from_numpy(self.obs[index]), torch.from_numpy(self.next_obs[index])
        where = torch.from_numpy(index).to(self.device)
        first, second = (images[where] for images in self.resident)
        return first, second

    def raw_batches(self, plan: EpochPlan) -> Iterator[RawBatch]:
        """For each update: uint8 images, actions, uint8 next images, noise, triplets, second looks, later steps."""
        for update, index in enumerate(plan.order):
            images, next_images = self.images(index)
            actions = self.actions[torch.from_numpy(index).to(self.device)]
            noise, triplets = self._part(plan.noise, update), self._part(plan.triplets, update)
            later = list(self._later(index))
            yield images, actions, next_images, noise, triplets, self._second(index, next_images), later

    def _second(self, index: np.ndarray, next_images: Tensor) -> Tensor | None:
        if self.again is None:
            return None
        again = self.again[index]
        others = self.images(np.maximum(again, 0))[0]
        return torch.where(torch.from_numpy(again >= 0).to(self.device)[:, None, None, None], others, next_images)

    def _later(self, index: np.ndarray) -> Iterator[Later]:
        """The steps after the given transitions, actions as numbers and images as bytes."""
        seen = np.ones(len(index), dtype=bool)
        for _ in range(self.steps - 1):
            assert self.after is not None
            index = self.after[index]
            seen, index = seen & (index >= 0), np.maximum(index, 0)
            actions = self.actions[torch.from_numpy(index).to(self.device)]
            yield Later(actions, self.images(index)[1], torch.from_numpy(seen).to(self.device, torch.float32))

    def _part(self, values: np.ndarray | None, update: int) -> Tensor | None:
        return None if values is None else torch.from_numpy(values[update]).to(self.device)
