import numpy as np
import torch

from dwmr import WorldModel
from dwmr.models.predictors import MLPPredictor
from dwmr.planning.applicability import Applicability
from dwmr.planning.dynamics import CorrectedDynamics, PredictedDynamics, model_dynamics, one_by_one
from dwmr.planning.packing import pack, unpack
from tests.evaluation.ring import ring_model
from tests.planning.graphs import Graph


def test_all_actions_at_once_give_the_predictors_bits():
    torch.manual_seed(0)
    model = WorldModel(torch.nn.Flatten(), MLPPredictor((1, 8, 8), 64, 4), image_shape=(1, 8, 8), n_actions=4, bits=64)
    codes = torch.from_numpy(np.random.default_rng(0).random((1500, 64)) < 0.5)
    plain = PredictedDynamics(one_by_one(model.predict, 4), 64, 4)
    model.predict = None  # one action at a time is not needed
    quick = model_dynamics(model)
    assert torch.equal(quick.successors(pack(codes))[0], plain.successors(pack(codes))[0])


def test_every_action_is_predicted():
    dynamics = model_dynamics(ring_model())
    here = torch.eye(4, dtype=torch.bool)[:1]
    children, possible = dynamics.successors(pack(here))
    assert possible is None
    assert unpack(children, 4)[0].int().tolist() == [[0, 1, 0, 0], [0, 0, 0, 1]]


def test_only_what_is_possible_is_expanded():
    network = torch.nn.Sequential(torch.nn.Linear(4, 2, bias=False))
    network[0].weight.data = torch.tensor([[9.0, 0.0, 0.0, 0.0], [0.0, 9.0, 0.0, 0.0]])
    here = pack(torch.eye(4, dtype=torch.bool)[:3])
    _, possible = model_dynamics(ring_model(), Applicability(network, 0.1)).successors(here)
    assert possible.tolist() == [[True, False], [False, True], [True, True]]
    assert model_dynamics(ring_model(), Applicability(network, 0.0)).successors(here)[1] is None


def test_what_was_seen_counts_more():
    corrected = CorrectedDynamics(Graph([[1, -1], [2, 2], [0, 0]]))
    corrected.correct(torch.tensor([[0]]), 1, torch.tensor([[2]]))
    corrected.correct(torch.tensor([[1]]), 0, torch.tensor([[1]]))
    children, possible = corrected.successors(torch.tensor([[0], [1], [2]]))
    assert children[..., 0].tolist() == [[1, 2], [1, 2], [0, 0]]
    assert possible.all()
