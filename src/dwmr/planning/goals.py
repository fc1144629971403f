"""Goals: a code, perhaps with bits that do not matter, met exactly or nearly; or what a probe reads from a code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dwmr.errors import InputError
from dwmr.evaluation.probes import Probe
from dwmr.planning.packing import count_bits, unpack


@dataclass(frozen=True)
class CodeGoal:
    """Codes that agree with ``words`` (1, W) in all but ``radius`` of the bits that are on in ``mask`` (1, W)."""

    words: Tensor
    mask: Tensor | None = None
    radius: int = 0

    def distance(self, words: Tensor) -> Tensor:
        """Bits that matter and differ, int64 (N,)."""
        differing = words ^ self.words
        return count_bits(differing if self.mask is None else differing & self.mask)

    def __call__(self, words: Tensor) -> Tensor:
        return self.distance(words) <= self.radius


@dataclass(frozen=True)
class BoardGoal:
    """Codes of whose board, as a probe reads it, ``test`` is true: labels (N, cells) to bool (N,)."""

    probe: Probe
    bits: int
    test: Callable[[np.ndarray], np.ndarray]

    def __call__(self, words: Tensor) -> Tensor:
        labels = self.probe.read(unpack(words, self.bits))
        return torch.from_numpy(np.asarray(self.test(labels), bool)).to(words.device)


def board_goal(probe: Probe, bits: int, words: Tensor, agent: tuple[int, ...] | None = None) -> BoardGoal:
    """The goal to have the board that is read from a code (1, W): all of it, or only the agent in its place, if a cell
    with one of the labels ``agent`` holds it."""
    wanted = probe.read(unpack(words, bits))[0]
    if agent is None:
        return BoardGoal(probe, bits, lambda labels: (labels == wanted).all(1))
    places = np.flatnonzero(np.isin(wanted, agent))
    if len(places) != 1:
        raise InputError(f"the goal cannot be read: {len(places)} cells show the agent, expected one")
    return BoardGoal(probe, bits, lambda labels: np.isin(labels[:, places[0]], agent))


def choose_radius(same: np.ndarray, different: np.ndarray) -> int:
    """The distance up to which two codes should count as one state.

    ``same`` are distances of codes of one state, ``different`` of codes of neighbouring states. The radius makes the
    fewest mistakes, counted as the sum of both shares; of several the smallest.
    """
    radii = np.arange(max(int(same.max(initial=0)), 0) + 1)
    missed = (same[:, None] > radii).mean(0) if len(same) else np.zeros(len(radii))
    confused = (different[:, None] <= radii).mean(0) if len(different) else np.zeros(len(radii))
    return int(radii[np.argmin(missed + confused)])
