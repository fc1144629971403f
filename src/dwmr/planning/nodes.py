"""The states that a search has found: codes, how each was reached, a hash table of them, and a queue of the open ones.

Everything is a tensor on the search's device, and all operations take many codes at once. Whole codes are compared, so
two codes are one state only if all their words are equal.
"""

import heapq

import torch
from torch import Tensor

from dwmr.planning.packing import hash_codes

NONE = -1
UNREACHED = 2**30
_CLOSED = -(2**62)
_EMPTY = 2**62
_CLAIM = 2**60  # the claim on a place by the code at position p of a batch, made in round r: _CLAIM + r · _ROUND + p
_ROUND = 2**32


class Nodes:
    """Numbered states, at first one, the start (1, W). The columns have room for more states than there are."""

    def __init__(self, words: Tensor, capacity: int = 1024) -> None:
        self.device, self.count = words.device, 0
        self._words = words[:0]  # int64 (N, W): the code
        self._parent = words.new_empty(0)  # the state it was reached from, or `NONE`
        self._action = words.new_empty(0, dtype=torch.int16)  # by which action
        self.cost = words.new_empty(0, dtype=torch.int32)  # after how many actions from the start
        self.guess = words.new_empty(0, dtype=torch.float32)  # the heuristic, where the search needs it
        self.priority = words.new_empty(0)  # of an open state in a `BatchQueue`
        self._reserve(capacity)
        self.insert(words)
        self._parent[0], self._action[0], self.cost[0] = NONE, NONE, 0

    @property
    def words(self) -> Tensor:
        return self._words[: self.count]

    def insert(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """Add the codes of (n, W) that are not known yet, as unreached states.

        Returns the numbers of all codes (n,), and the positions of the new ones (m,), each code once.
        """
        self._reserve(self.count + len(words))
        numbers, places = self._find(words)
        new = torch.nonzero(numbers == _CLAIM + torch.arange(len(words), device=self.device)).squeeze(1)
        fresh = slice(self.count, self.count + len(new))
        order = torch.arange(fresh.start, fresh.stop, device=self.device)
        named = torch.empty_like(numbers)
        named[new] = order
        claimed = numbers >= _CLAIM
        numbers = torch.where(claimed, named[(numbers - _CLAIM).clamp_(min=0)], numbers)
        self._table[places[new]] = order
        self._words[fresh] = words[new]
        self.cost[fresh], self.priority[fresh] = UNREACHED, _CLOSED
        self.count = fresh.stop
        return numbers, new

    def relax(self, numbers: Tensor, parents: Tensor, actions: Tensor, costs: Tensor) -> Tensor:
        """Store cheaper ways to states, (n,) each; of equally cheap ones the first. Returns the cheaper states (m,)."""
        before = self.cost[numbers]
        self.cost.scatter_reduce_(0, numbers, costs, "amin")
        better = torch.nonzero((costs < before) & (costs == self.cost[numbers])).squeeze(1)
        reached = numbers[better]
        self._parent[reached] = _EMPTY  # holds the position of the first of equally cheap ways for a moment
        self._parent.scatter_reduce_(0, reached, better, "amin")
        kept = better[self._parent[reached] == better]
        reached = numbers[kept]
        self._parent[reached], self._action[reached] = parents[kept], actions[kept].to(torch.int16)
        return reached

    def path(self, node: int) -> tuple[list[int], list[int]]:
        """The actions from the start to a state, and the states on the way, the start first."""
        actions: list[int] = []
        states = [node]
        while (parent := int(self._parent[states[-1]])) != NONE:
            actions.append(int(self._action[states[-1]]))
            states.append(parent)
        return actions[::-1], states[::-1]

    def _find(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """Each code's number, or the claim of the first equal code of the batch, and its place in the table.

        In each round every pending code probes its next place, and claims it if it is empty. Of several claims the
        earliest round wins, then the first in the batch. A code that equals the holder of its place is done.
        """
        mask = len(self._table) - 1
        positions = torch.arange(len(words), device=self.device)
        home = hash_codes(words)
        numbers, places = torch.empty_like(home), torch.empty_like(home)
        pending, round_ = positions, 0
        while len(pending):
            place = (home[pending] + round_ * (round_ + 1) // 2) & mask
            self._table.scatter_reduce_(0, place, pending + (_CLAIM + round_ * _ROUND), "amin")
            holder = self._table[place]
            claimed = holder >= _CLAIM
            position = holder & (_ROUND - 1)
            among_batch = words[torch.where(claimed, position, 0)]
            among_states = self._words[torch.where(claimed, 0, holder)]
            same = (words[pending] == torch.where(claimed[:, None], among_batch, among_states)).all(1)
            numbers[pending] = torch.where(claimed, position + _CLAIM, holder)
            places[pending] = place
            pending = pending[~same]
            round_ += 1
        return numbers, places

    def _reserve(self, states: int) -> None:
        """Make room for a number of states; a new table has all states entered again."""
        if states <= len(self._parent):
            return
        capacity = 1 << (states - 1).bit_length()  # half the length of the table
        for name in ("_words", "_parent", "_action", "cost", "guess", "priority"):
            old = getattr(self, name)
            grown = old.new_empty(capacity, *old.shape[1:])
            grown[: self.count] = old[: self.count]
            setattr(self, name, grown)
        self._table = torch.full((2 * capacity,), _EMPTY, dtype=torch.int64, device=self.device)
        _, places = self._find(self.words)
        self._table[places] = torch.arange(self.count, device=self.device)


class BatchQueue:
    """Open states in batches of one integer priority each.

    The lowest priority comes first, and within it the latest push. Pushing a state again replaces its priority.
    """

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._heap: list[tuple[int, int, Tensor]] = []  # priority, minus the number of pushes so far, states
        self._pushes = 0

    def push(self, states: Tensor, priorities: Tensor) -> None:
        """Add distinct states (n,) with their priorities (n,)."""
        moved = torch.nonzero(self._nodes.priority[states] != priorities).squeeze(1)
        states, priorities = states[moved], priorities[moved]
        self._nodes.priority[states] = priorities
        ordered, index = torch.sort(priorities, stable=True)
        values, counts = torch.unique_consecutive(ordered, return_counts=True)
        for value, part in zip(values.tolist(), states[index].split(counts.tolist())):
            self._pushes += 1
            heapq.heappush(self._heap, (value, -self._pushes, part))

    def lowest(self) -> int | None:
        """The lowest priority, or None if empty. Its states may all have moved to another priority since."""
        return self._heap[0][0] if self._heap else None

    def pop(self, count: int, ties_only: bool) -> Tensor:
        """Take out up to ``count`` states: of the lowest priority only, or of the next ones too."""
        priority, lowest = self._nodes.priority, self.lowest()
        taken = [priority.new_empty(0)]
        while count and self._heap and not (ties_only and self.lowest() != lowest):
            value, order, part = heapq.heappop(self._heap)
            part = part[priority[part] == value]
            if len(part) > count:
                heapq.heappush(self._heap, (value, order, part[:-count]))
                part = part[-count:]
            priority[part] = _CLOSED
            taken.append(part)
            count -= len(part)
        return torch.cat(taken)
