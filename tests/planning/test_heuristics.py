import numpy as np
import pytest
import torch

from dwmr.planning import PLANNERS, Agent, CodeGoal, pack
from dwmr.planning.agent import choose_radius
from dwmr.planning.heuristics import (
    HammingHeuristic,
    HeuristicTraining,
    LearnedHeuristic,
    imagined_walks,
    most_flips,
    train_heuristic,
)
from tests.planning.graphs import Graph


def code(text: str) -> torch.Tensor:
    return pack(torch.tensor([[letter == "1" for letter in text]]))


def test_codes_within_the_radius_are_the_goal():
    some = torch.cat([code("1100"), code("1101"), code("0101")])
    assert CodeGoal(code("1100"))(some).tolist() == [True, False, False]
    assert CodeGoal(code("1100"), radius=1)(some).tolist() == [True, True, False]


def test_the_radius_parts_one_state_from_its_neighbours():
    assert choose_radius(np.zeros(100, int), np.full(50, 4)) == 0
    assert choose_radius(np.array([0] * 50 + [1] * 30 + [3] * 20), np.array([6, 7, 8])) == 3
    assert choose_radius(np.array([0] * 90 + [5] * 10), np.array([4, 4, 4, 6])) == 0
    assert choose_radius(np.zeros(0, int), np.zeros(0, int)) == 0


def test_wrong_bits_over_the_flips_of_an_action():
    heuristic = HammingHeuristic(CodeGoal(code("0000000"), radius=1), flips=2)
    assert heuristic(torch.cat([code("0000000"), code("1000000"), code("1100000"), code("1111111")])).tolist() == [
        0,
        0,
        1,
        3,
    ]
    assert most_flips(np.array([0, 2, 6, 6])) == 6
    assert most_flips(np.array([])) == 1


@pytest.fixture(scope="module")
def learned():
    setting = HeuristicTraining(updates=400, batch=128, walk=12, width=64, lr=3e-3, copy_every=20)
    starts = 1 << torch.arange(8)[:, None]
    return train_heuristic(Agent(lambda images: images, OneHot(), bits=8), starts, setting)


class OneHot:
    """The line of eight places with one-hot codes."""

    n_actions = 2

    def successors(self, words):
        return torch.stack([(words >> 1).clamp(min=1), (words << 1).clamp(max=128)], dim=1), None


def test_distances_on_a_line_are_learned(learned):
    network, course = learned
    assert course["loss"][-1] < course["loss"][0]
    guesses = LearnedHeuristic(network, CodeGoal(torch.tensor([[1]])))(1 << torch.arange(8)[:, None])
    assert guesses[0] == 0
    assert torch.allclose(guesses, torch.arange(8.0), atol=1.0)


def test_a_search_is_shorter_with_it(learned):
    goal = CodeGoal(torch.tensor([[128]]))
    start = torch.tensor([[8]])
    blind = PLANNERS["astar"](OneHot(), start, goal, batch=1)
    led = PLANNERS["astar"](OneHot(), start, goal, LearnedHeuristic(learned[0], goal), batch=1)
    assert (len(blind.actions), len(led.actions)) == (4, 4)
    assert led.expanded < blind.expanded


def test_walks_take_possible_actions_only():
    line = Graph([[1, -1], [2, 0], [-1, 1]])
    walks = imagined_walks(line, line.words([0, 1, 2] * 7), 10, torch.Generator().manual_seed(0))
    assert walks.shape == (11, 21, 1)
    assert ((walks[1:] - walks[:-1]).abs() == 1).all()
    stuck = Graph([[-1, -1]])
    assert (imagined_walks(stuck, stuck.words([0]), 3, torch.Generator()) == 0).all()
