"""From two plain callables and transitions to an agent: the 8-puzzle with exact codes and a predictor that cheats."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dwmr import InputError, Transitions
from dwmr.planning import PLANNERS, act, prepare_agent
from dwmr.seeding import rng
from dwmr.worlds import sliding_tiles
from dwmr.worlds.sliding_tiles import SlidingTiles
from dwmr.worlds.tasks import distance
from tests.evaluation.ring import draw, ring_model, ring_transitions


def picture(boards: np.ndarray) -> np.ndarray:
    """Boards (N, 3, 3) as images (N, 1, 9, 9): a bright pixel for each cell's label."""
    return 255 * np.eye(9, dtype=np.uint8)[boards.reshape(len(boards), 9)][:, None]


def encode(images: np.ndarray) -> np.ndarray:
    return images.reshape(len(images), -1) > 0


def predict(codes: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
    """Right for valid moves; the others, which no data shows, carry the blank round to the other side."""
    boards = codes.view(-1, 3, 3, 9).int().argmax(-1)
    blank = boards.flatten(1).argmin(1)
    row, col = blank // 3, blank % 3
    down, right = (torch.tensor(moves)[actions] for moves in ([-1, 0, 0, 1], [0, 1, -1, 0]))
    end = (row + down) % 3 * 3 + (col + right) % 3
    after = boards.flatten(1).clone()
    index = torch.arange(len(after))
    after[index, blank] = after[index, end]
    after[index, end] = 0
    return torch.nn.functional.one_hot(after, 9).flatten(1).bool()


def puzzle_data(steps: int, seed: int) -> Transitions:
    generator = rng(seed, "walk")
    boards, actions = sliding_tiles.random_walk(generator, sliding_tiles.random_board(generator, 3, 3), steps)
    return Transitions(
        picture(boards[:-1]), actions, picture(boards[1:]), n_actions=4, episode=np.zeros(steps, np.int64)
    )


class PictureWorld:
    def __init__(self, board):
        self.board = board

    def observe(self):
        return picture(self.board[None])[0]

    def act(self, action):
        self.board = sliding_tiles.step(self.board, action)


@pytest.fixture(scope="module")
def agent():
    return prepare_agent(encode, predict, puzzle_data(4000, 0), puzzle_data(1000, 1))


def test_what_an_agent_learns_of_its_codes(agent):
    assert (agent.radius, agent.bits, agent.dynamics.n_actions) == (0, 81, 4)
    assert agent.flips == 4
    assert agent.about["exact_next"] == 100
    assert agent.about["applicability"]["mean"] == pytest.approx(68 / 24, abs=0.1)  # of a blank that walks


def test_illegal_moves_are_not_exploited(agent):
    """The cheating model would be quicker through the walls; with what was learned as possible, plans are honest."""
    generator = rng(5, "boards")
    start, goal = (sliding_tiles.random_board(generator, 3, 3) for _ in range(2))
    world, aim = PictureWorld(start), agent.goal_of(picture(goal[None])[0])
    heuristic = agent.heuristic_for(aim)
    episode = act(world, agent, aim, PLANNERS["astar"], heuristic, generator=generator)
    assert np.array_equal(world.board, goal)
    assert len(episode.actions) == distance(SlidingTiles(size=3), start, goal)
    assert episode.replans == 0


def test_a_world_model_makes_an_agent():
    model = ring_model()
    agent = prepare_agent(model.encode, model.predict, ring_transitions(episodes=20))
    assert agent.radius == 0
    assert agent.about["applicability"] == {"everything": True, "threshold": 0, "mean": 2, "observed_ruled_out": 0}
    goal = agent.goal_of(draw(np.array([2]))[0])
    plan = PLANNERS["breadth_first"](agent.dynamics, agent.encode(draw(np.array([0]))), goal)
    assert len(plan.actions) == 2
    with pytest.raises(InputError, match="expected uint8 images"):
        agent.goal_of(np.zeros((3, 5, 5), np.uint8))
