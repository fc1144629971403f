import numpy as np
import torch

from dwmr.planning import CodeGoal, pack
from dwmr.planning.agent import choose_radius
from dwmr.planning.heuristics import HammingHeuristic, most_flips


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
