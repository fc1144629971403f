import pytest
import torch

from dwmr.planning import PLANNERS, Agent, CodeGoal
from dwmr.planning.heuristic_training import HeuristicTraining, imagined_walks, train_heuristic
from dwmr.planning.heuristics import LearnedHeuristic
from dwmr.worlds import sliding_tiles
from tests.planning.graphs import Graph, tile_codes, tile_dynamics


@pytest.fixture(scope="module")
def learned():
    setting = HeuristicTraining(updates=400, batch=128, walk=12, width=64, lr=3e-3, copy_every=20)
    starts = 1 << torch.arange(8)[:, None]
    return train_heuristic(Agent(lambda images: images, OneHot(), bits=8), starts, setting, progress=False)


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
    boards = tile_codes(sliding_tiles.goal_board(3, 3)).repeat(20, 1)
    walks = imagined_walks(tile_dynamics(), boards, 10, torch.Generator().manual_seed(0))
    assert walks.shape == (11, 20, 1)
    assert (walks[1:] != walks[:-1]).all()
    stuck = Graph([[-1, -1]])
    assert (imagined_walks(stuck, stuck.words([0]), 3, torch.Generator()) == 0).all()
