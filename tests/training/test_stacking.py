"""Several networks as one: the same outputs, gradients and buffers as the networks one by one, in shared memory."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import dwmr
from dwmr.models.world_model import build_model
from dwmr.training.stacking import Stack, StackedAdam, own_memory

RUNS, SAMPLES = 3, 4


@pytest.fixture(autouse=True)
def double_precision():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("role", ["encoder", "predictor", "decoder"])
@pytest.mark.parametrize(
    ("preset", "shape"),
    [("8puzzle/ae", (1, 16, 24)), ("iceslider/ae", (3, 16, 16)), ("generic/ae", (3, 30, 34))],
)
def test_stacked_networks_equal_single_ones(preset, shape, role):
    config = dwmr.preset(preset, bits=12, low=0, high=3)

    def networks():
        models = [build_model(config, shape, 4, decoder=True, seed=seed).train() for seed in range(RUNS)]
        return [getattr(model, role) for model in models]

    generator = torch.Generator().manual_seed(5)
    codes = torch.rand(RUNS, SAMPLES, 12, generator=generator)
    actions = torch.eye(4)[torch.randint(4, (RUNS, SAMPLES), generator=generator)]
    images = torch.randn(RUNS, SAMPLES, *shape, generator=generator)
    inputs = {"encoder": (images,), "predictor": (codes, actions), "decoder": (codes,)}[role]

    singles, shared = networks(), networks()
    stack = Stack(shared)
    together = stack(*inputs)
    alone = torch.stack([network(*(part[run] for part in inputs)) for run, network in enumerate(singles)])
    torch.testing.assert_close(together, alone, rtol=1e-10, atol=1e-12)

    upstream = torch.randn(alone.shape, generator=generator)
    together.backward(upstream)
    alone.backward(upstream)
    for name, parameter in stack.parameters.items():
        expected = torch.stack([network.get_parameter(name).grad for network in singles])
        torch.testing.assert_close(parameter.grad, expected, rtol=1e-8, atol=1e-10)
    for own, network in zip(shared, singles, strict=True):  # running statistics moved in the runs themselves
        for name, value in network.state_dict().items():
            torch.testing.assert_close(own.state_dict()[name], value, rtol=1e-10, atol=1e-12)


def test_the_runs_see_every_change_of_the_stack():
    networks = [nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)) for _ in range(RUNS)]
    stack = Stack(networks)
    with torch.no_grad():
        stack.flat.fill_(7.0)
        stack.buffers["1.running_mean"][1] = 5.0
    assert all((parameter == 7).all() for network in networks for parameter in network.parameters())
    assert [float(network[1].running_mean.sum()) for network in networks] == [0.0, 15.0, 0.0]


def test_what_cannot_be_mapped_over_runs_raises():
    class Peeks(nn.Linear):
        def forward(self, x):
            return super().forward(x) if float(x.sum()) > 0 else x

    with pytest.raises(RuntimeError):
        Stack([Peeks(2, 2) for _ in range(2)])(torch.ones(2, 3, 2))


def test_networks_of_several_types_are_refused_unchanged():
    networks = [nn.Sequential(nn.Linear(2, 2).float(), nn.Linear(2, 2).double()) for _ in range(2)]
    with pytest.raises(RuntimeError, match="several types of number"):
        Stack(networks)
    assert [parameter.dtype for parameter in networks[0].parameters()] == 2 * [torch.float32] + 2 * [torch.float64]


def test_stacked_adam_is_adam_with_a_learning_rate_for_each_run():
    generator = torch.Generator().manual_seed(0)
    lr = torch.tensor([0.1, 0.01, 0.5])

    def networks():
        torch.manual_seed(3)
        return [nn.Linear(4, 2) for _ in range(RUNS)]

    ours, theirs = networks(), networks()
    singles = [torch.optim.Adam(network.parameters(), lr=float(rate)) for network, rate in zip(theirs, lr, strict=True)]
    own = [torch.optim.Adam(network.parameters(), lr=0.1, fused=True) for network in ours]
    stack = Stack(ours)
    adam = StackedAdam([stack], own, lr)
    for _ in range(5):
        for name, parameter in stack.parameters.items():
            parameter.grad = torch.randn(parameter.shape, generator=generator)
            for run, network in enumerate(theirs):
                network.get_parameter(name).grad = parameter.grad[run].clone()
        adam.step()
        for optimizer in singles:
            optimizer.step()
    for network, expected, optimizer, single in zip(ours, theirs, own, singles, strict=True):
        for parameter, wanted in zip(network.parameters(), expected.parameters(), strict=True):
            torch.testing.assert_close(parameter, wanted, rtol=1e-6, atol=1e-8)
        for state, wanted in zip(optimizer.state.values(), single.state.values(), strict=True):
            for name in ("step", "exp_avg", "exp_avg_sq"):
                torch.testing.assert_close(state[name], wanted[name], check_dtype=False)


def test_a_stack_goes_on_from_the_moments_of_its_runs():
    """Runs that were trained alone, or loaded from their folders, bring their optimizers' moments with them."""
    networks = [nn.Linear(2, 1) for _ in range(2)]
    own = [torch.optim.Adam(network.parameters(), lr=0.1, fused=True) for network in networks]
    for network, optimizer in zip(networks, own, strict=True):
        network(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    adam = StackedAdam([Stack(networks)], own, torch.tensor([0.1, 0.1]))
    assert adam.steps.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    torch.testing.assert_close(adam.mean, torch.full((2, 3), 0.1))


def test_the_runs_optimizers_go_on_alone_from_a_stack():
    """As they do when the networks turn out not to be one program."""
    networks, singles = ([nn.Linear(2, 1) for _ in range(2)] for _ in range(2))
    for network, single in zip(networks, singles, strict=True):
        single.load_state_dict(network.state_dict())
    own, alone = (
        [torch.optim.Adam(n.parameters(), lr=0.1, fused=True) for n in group] for group in (networks, singles)
    )
    StackedAdam([Stack(networks)], own, torch.tensor([0.1, 0.1]))
    for group, optimizers in ((networks, own), (singles, alone)):
        for network, optimizer in zip(group, optimizers, strict=True):
            for _ in range(3):
                optimizer.zero_grad()
                network(torch.ones(1, 2)).square().sum().backward()
                optimizer.step()
    for network, single in zip(networks, singles, strict=True):
        for parameter, expected in zip(network.parameters(), single.parameters(), strict=True):
            torch.testing.assert_close(parameter, expected)


def test_a_frozen_first_parameter_does_not_hide_the_steps_that_were_made():
    networks = [nn.Linear(2, 1) for _ in range(2)]
    for network in networks:
        network.weight.requires_grad_(False)
    own = [torch.optim.Adam(network.parameters(), lr=0.1, fused=True) for network in networks]
    for network, optimizer in zip(networks, own, strict=True):
        for _ in range(3):
            optimizer.zero_grad()
            network(torch.ones(1, 2)).sum().backward()
            optimizer.step()
    stack = Stack(networks)
    frozen = stack.parameters["weight"].clone()
    adam = StackedAdam([stack], own, torch.tensor([0.1, 0.1]))
    assert adam.steps.tolist() == [[0.0, 3.0], [0.0, 3.0]]
    stack(torch.ones(2, 1, 2)).sum().backward()
    adam.step()
    assert torch.equal(stack.parameters["weight"], frozen)
    assert adam.steps.tolist() == [[0.0, 4.0], [0.0, 4.0]]


def test_a_parameter_without_gradient_keeps_its_moments_as_in_torch():
    ours, theirs = ([nn.Linear(2, 1) for _ in range(2)] for _ in range(2))
    for one, other in zip(ours, theirs, strict=True):
        other.load_state_dict(one.state_dict())
    singles = [torch.optim.Adam(network.parameters(), lr=0.1) for network in theirs]
    own = [torch.optim.Adam(network.parameters(), lr=0.1, fused=True) for network in ours]
    stack = Stack(ours)
    adam = StackedAdam([stack], own, torch.tensor([0.1, 0.1]))
    for skipped in (None, "weight", "weight", None, "bias", None):
        for name, parameter in stack.parameters.items():
            parameter.grad = None if name == skipped else torch.full_like(parameter, 0.5)
            for network in theirs:
                single = network.get_parameter(name)
                single.grad = None if name == skipped else torch.full_like(single, 0.5)
        for optimizer in (adam, *singles):
            optimizer.step()
    assert adam.steps.tolist() == [[4.0, 5.0], [4.0, 5.0]]
    for network, expected, optimizer, single in zip(ours, theirs, own, singles, strict=True):
        for parameter, wanted in zip(network.parameters(), expected.parameters(), strict=True):
            torch.testing.assert_close(parameter, wanted)
        for state, wanted in zip(optimizer.state.values(), single.state.values(), strict=True):
            torch.testing.assert_close(state["exp_avg"], wanted["exp_avg"])
            torch.testing.assert_close(state["exp_avg_sq"], wanted["exp_avg_sq"])


def test_tied_buffers_stay_tied():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.other = nn.BatchNorm1d(2, affine=False), nn.BatchNorm1d(2, affine=False)
            self.other.running_mean = self.one.running_mean
            self.scale = nn.Parameter(torch.ones(()))

        def forward(self, x):
            return self.scale * self.other(self.one(x))

    networks, singles = [Tied() for _ in range(2)], [Tied() for _ in range(2)]
    inputs = torch.randn(2, 8, 2)
    Stack(networks)(inputs)
    for network, single, x in zip(networks, singles, inputs, strict=True):
        single(x)
        assert network.other.running_mean is network.one.running_mean
        torch.testing.assert_close(network.one.running_mean, single.one.running_mean)


def test_a_network_can_leave_the_shared_memory():
    networks = [nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)) for _ in range(RUNS)]
    stack = Stack(networks)
    kept = {name: value.clone() for name, value in networks[1].state_dict().items()}
    own_memory(networks[1])
    stack.flat.fill_(7.0)
    for name, value in networks[1].state_dict().items():
        assert torch.equal(value, kept[name]), name
        assert value.untyped_storage().nbytes() == value.nbytes
