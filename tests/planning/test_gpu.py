"""On a GPU: searches find what they find on the CPU. `pytest -m gpu` runs these."""

from __future__ import annotations

import pytest
import torch

from dwmr.models.predictors import MLPPredictor
from dwmr.planning import PLANNERS, Budget, CodeGoal, pack
from dwmr.planning.dynamics import PredictedDynamics, at_once
from dwmr.planning.nodes import Nodes
from dwmr.seeding import rng
from dwmr.worlds import sliding_tiles
from dwmr.worlds.sliding_tiles import SlidingTiles
from dwmr.worlds.tasks import distance
from tests.planning.graphs import tile_codes, tile_dynamics

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.mark.parametrize("name", PLANNERS)
def test_the_8_puzzle_is_solved_alike(name):
    generator = rng(3, "pair")
    boards = [sliding_tiles.random_board(generator, 3, 3) for _ in range(2)]
    start, goal = (tile_codes(board) for board in boards)
    on_cpu = PLANNERS[name](tile_dynamics(), start, CodeGoal(goal), budget=Budget(nodes=10**6))
    on_gpu = PLANNERS[name](tile_dynamics(), start.cuda(), CodeGoal(goal.cuda()), budget=Budget(nodes=10**6))
    assert on_gpu.outcome == on_cpu.outcome
    assert on_gpu.actions == on_cpu.actions
    assert (on_gpu.generated, on_gpu.kept) == (on_cpu.generated, on_cpu.kept)
    if on_cpu.optimal:
        assert len(on_gpu.actions) == distance(SlidingTiles(size=3), *boards)


def test_predictions_are_those_of_the_cpu():
    """In full float32: of 4 × 20,000 codes none differs, or a few whose logit is within rounding of zero."""
    torch.manual_seed(0)
    predictor = MLPPredictor((1, 88, 88), 64, 4)
    codes = pack(torch.rand(20_000, 64) < 0.5)
    on_cpu = PredictedDynamics(at_once(predictor.all_actions), 64, 4).successors(codes)[0]
    on_gpu = PredictedDynamics(at_once(predictor.cuda().all_actions), 64, 4).successors(codes.cuda())[0].cpu()
    assert (on_cpu != on_gpu).float().mean() < 1e-4


def test_a_million_codes_with_duplicates_are_told_apart():
    generator = torch.Generator().manual_seed(0)
    words = torch.randint(-(2**40), 2**40, (300_000, 3), generator=generator)[
        torch.randint(300_000, (10**6,), generator=generator)
    ]
    store = Nodes(torch.zeros(1, 3, dtype=torch.int64, device="cuda"))
    numbers, new = store.insert(words.cuda())
    assert len(new) == len(words.unique(dim=0))
    assert torch.equal(store.words[numbers].cpu(), words)
