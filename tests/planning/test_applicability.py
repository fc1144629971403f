"""Which actions are possible, learned from the data of real puzzles seen through exact codes."""

import numpy as np
import torch

from dwmr.data.collect import make_transitions
from dwmr.planning.applicability import choose_threshold, fit_applicability
from dwmr.worlds import sliding_tiles


def one_hot(boards: np.ndarray, classes: int) -> torch.Tensor:
    flat = torch.from_numpy(boards.reshape(len(boards), -1).astype(np.int64))
    return torch.nn.functional.one_hot(flat, classes).flatten(1).bool()


def parts(name, count, **more):
    for split, size in (("train", count), ("val", count // 4)):
        data = make_transitions(name, split, size, **more)
        yield from (one_hot(data.state, data.n_classes), torch.from_numpy(np.array(data.actions)))
    yield data


def test_the_valid_moves_of_the_8_puzzle_are_learned():
    *given, val = parts("8puzzle", 4000, digits="sklearn")
    learned = fit_applicability(*given, n_actions=4)
    assert not learned.everything
    true = np.zeros((len(val), 4), bool)
    for row, board in zip(true, val.state):
        row[:] = [not np.array_equal(sliding_tiles.step(board, action), board) for action in range(4)]
    assert (learned(given[2]).numpy() == true).mean() > 0.999


def test_where_every_action_is_taken_everything_is_possible():
    *given, _ = parts("iceslider", 2000)
    learned = fit_applicability(*given, n_actions=4)
    assert learned.everything
    assert learned(given[2]).all()


def test_a_rare_action_stays_possible():
    generator = np.random.default_rng(0)
    likelihood = np.tile([0.5, 0.46, 0.04, 0.0], (2000, 1))
    actions = generator.choice(4, size=2000, p=[0.5, 0.46, 0.04, 0.0])
    threshold = choose_threshold(likelihood, actions)
    assert 0 < threshold < 0.04
