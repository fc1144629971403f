"""Open states of a search, in one bucket for each integer priority."""

from __future__ import annotations

import heapq

import torch
from torch import Tensor

_CLOSED = -(2**62)


class BucketQueue:
    """The lowest priority comes first, and within it the latest push. Pushing a state again replaces its priority."""

    def __init__(self, device: torch.device) -> None:
        self._buckets: dict[int, list[Tensor]] = {}
        self._order: list[int] = []
        self._priority = torch.full((1024,), _CLOSED, dtype=torch.int64, device=device)

    def push(self, states: Tensor, priorities: Tensor, known: int) -> None:
        """Add distinct states (n,), all below ``known``, with their priorities (n,)."""
        if not len(states):
            return
        if known > len(self._priority):
            size = len(self._priority)
            while size < known:
                size *= 2
            grown = self._priority.new_full((size,), _CLOSED)
            grown[: len(self._priority)] = self._priority
            self._priority = grown
        moved = torch.nonzero(self._priority[states] != priorities).squeeze(1)
        states, priorities = states[moved], priorities[moved]
        self._priority[states] = priorities
        ordered, index = torch.sort(priorities, stable=True)
        values, counts = torch.unique_consecutive(ordered, return_counts=True)
        for value, part in zip(values.tolist(), states[index].split(counts.tolist())):
            if value not in self._buckets:
                self._buckets[value] = []
                heapq.heappush(self._order, value)
            self._buckets[value].append(part)

    def lowest(self) -> int | None:
        """The lowest priority, or None if empty. Its states may all have moved to another priority since."""
        return self._order[0] if self._order else None

    def pop(self, count: int, ties_only: bool) -> Tensor:
        """Take out up to ``count`` states: of the lowest priority only, or of the next ones too."""
        taken: list[Tensor] = []
        left = count
        while left and self._order:
            value = self._order[0]
            bucket = self._buckets[value]
            while left and bucket:
                part = bucket.pop()
                part = part[self._priority[part] == value]
                if len(part) > left:
                    bucket.append(part[:-left])
                    part = part[-left:]
                self._priority[part] = _CLOSED
                taken.append(part)
                left -= len(part)
            if not bucket:
                del self._buckets[value]
                heapq.heappop(self._order)
            if ties_only:
                break
        return torch.cat(taken) if taken else torch.empty(0, dtype=torch.int64, device=self._priority.device)
