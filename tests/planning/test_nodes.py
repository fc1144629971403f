import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from dwmr.planning import nodes as module
from dwmr.planning.nodes import Nodes


@given(st.lists(st.lists(st.integers(-3, 3), max_size=40), max_size=6), st.integers(1, 3))
def test_every_code_has_one_number(batches, width):
    """Many batches with many duplicates, against a dictionary."""
    start = torch.full((1, width), 9)
    store, known = Nodes(start, capacity=4), {9: 0}
    for batch in batches:
        words = torch.full((len(batch), width), 5)
        words[:, width // 2] = torch.tensor(batch, dtype=torch.int64)
        numbers, new = store.insert(words)
        fresh = list(dict.fromkeys(value for value in batch if value not in known and not (width == 1 and value == 9)))
        assert [batch[position] for position in new.tolist()] == fresh
        known |= {value: len(known) + place for place, value in enumerate(fresh)}
        assert numbers.tolist() == [known[value] for value in batch]
        assert store.count == len(known)


def test_codes_that_fall_on_one_place_stay_apart(monkeypatch):
    monkeypatch.setattr(module, "hash_codes", lambda words: torch.zeros_like(words[:, 0]))
    store = Nodes(torch.zeros(1, 2, dtype=torch.int64), capacity=64)
    words = torch.tensor([[1, 0], [0, 1], [1, 0], [1, 1], [0, 0], [0, 1]])
    assert store.insert(words)[0].tolist() == [1, 2, 1, 3, 0, 2]
    assert store.insert(words.flip(0))[0].tolist() == [2, 0, 3, 1, 2, 1]
    assert store.words.tolist() == [[0, 0], [1, 0], [0, 1], [1, 1]]


def test_growing_keeps_everything():
    generator = np.random.default_rng(0)
    store = Nodes(torch.zeros(1, 2, dtype=torch.int64), capacity=2)
    words = torch.from_numpy(generator.integers(-(2**63), 2**63 - 1, (5000, 2)))
    first, new = store.insert(words)
    again, none = store.insert(words)
    assert len(new) == 5000
    assert len(none) == 0
    assert torch.equal(first, again)
    assert torch.equal(store.words[1:], words)


def test_the_cheaper_way_counts_and_of_equals_the_first():
    store = Nodes(torch.zeros(1, 1, dtype=torch.int64))
    numbers, _ = store.insert(torch.tensor([[5], [6], [5], [5]]))
    changed = store.relax(
        numbers, torch.tensor([0, 0, 0, 0]), torch.tensor([0, 1, 2, 3]), torch.tensor([4, 1, 2, 2], dtype=torch.int32)
    )
    assert sorted(changed.tolist()) == [1, 2]
    assert store.cost[:3].tolist() == [0, 2, 1]
    assert store.path(1) == ([2], [0, 1])
    worse = store.relax(torch.tensor([1]), torch.tensor([2]), torch.tensor([0]), torch.tensor([2], dtype=torch.int32))
    assert len(worse) == 0
