import pytest
import torch

from dwmr import InputError
from dwmr.planning import PLANNERS, CodeGoal
from dwmr.planning.value import FILE, ValueHeuristic, ValueTraining, imagined_walks, load_value, save_value, train_value
from dwmr.worlds import sliding_tiles
from tests.planning.graphs import Graph, tile_codes, tile_dynamics

LINE = Graph([[max(n - 1, 0), min(n + 1, 7)] for n in range(8)])


@pytest.fixture(scope="module")
def learned():
    setting = ValueTraining(updates=400, batch=128, walk=12, width=64, lr=3e-3, renewed=20)
    starts = 1 << torch.arange(8)[:, None]
    return train_value(OneHot(), starts, 8, setting, progress=False)


class OneHot:
    """The line of eight places with one-hot codes."""

    n_actions = 2

    def successors(self, words):
        return torch.stack([(words >> 1).clamp(min=1), (words << 1).clamp(max=128)], dim=1), None


def test_distances_on_a_line_are_learned(learned):
    network, course = learned
    assert course["loss"][-1] < course["loss"][0]
    guesses = ValueHeuristic(network, CodeGoal(torch.tensor([[1]])), 8)(1 << torch.arange(8)[:, None])
    assert guesses[0] == 0
    assert torch.allclose(guesses, torch.arange(8.0), atol=1.0)


def test_it_is_stored_in_the_run_folder(learned, tmp_path):
    network, course = learned
    path = save_value(tmp_path, network, course)
    again = load_value(tmp_path, torch.device("cpu"))
    codes = torch.rand(5, 8).round()
    assert torch.equal(network(codes, codes.flip(0)), again(codes, codes.flip(0)))
    assert load_value(tmp_path / "nowhere", torch.device("cpu")) is None
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(InputError, match=FILE):
        load_value(tmp_path, torch.device("cpu"))


def test_a_search_is_shorter_with_it(learned):
    goal = CodeGoal(torch.tensor([[128]]))
    start = torch.tensor([[8]])
    blind = PLANNERS["astar"](OneHot(), start, goal, batch=1)
    led = PLANNERS["greedy"](OneHot(), start, goal, ValueHeuristic(learned[0], goal, 8), batch=1)
    assert (len(blind.actions), len(led.actions)) == (4, 4)
    assert led.expanded < blind.expanded


def test_walks_take_possible_actions_only():
    boards = tile_codes(sliding_tiles.goal_board(3, 3)).repeat(20, 1)
    walks = imagined_walks(tile_dynamics(), boards, 10, torch.Generator().manual_seed(0))
    assert walks.shape == (11, 20, 1)
    assert (walks[1:] != walks[:-1]).all()
    stuck = Graph([[-1, -1]])
    assert (imagined_walks(stuck, stuck.words([0]), 3, torch.Generator()) == 0).all()
