"""Networks of many runs as one: the same outputs, gradients and buffers as the networks one by one."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import dwmr
from dwmr.models.world_model import build_model
from dwmr.ops.layers import CannotStack
from dwmr.ops.optimizer import FlatAdam
from dwmr.ops.stacked import can_stack, stack

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
    models = [build_model(config, shape, 4, decoder=True, seed=seed).train() for seed in range(RUNS)]
    networks = [getattr(model, role) for model in models]
    generator = torch.Generator().manual_seed(5)
    codes = torch.rand(RUNS, SAMPLES, 12, generator=generator)
    actions = torch.eye(4)[torch.randint(4, (RUNS, SAMPLES), generator=generator)]
    images = torch.randn(RUNS, SAMPLES, *shape, generator=generator)
    inputs = {"encoder": (images,), "predictor": (codes, actions), "decoder": (codes,)}[role]

    whole = stack(networks).train()
    together = whole(*inputs)
    alone = torch.stack([network(*(part[run] for part in inputs)) for run, network in enumerate(networks)])
    torch.testing.assert_close(together, alone, rtol=1e-10, atol=1e-12)

    upstream = torch.randn(alone.shape, generator=generator)
    together.backward(upstream)
    alone.backward(upstream)
    for name, parameter in whole.named_parameters():
        singles = torch.stack([network.get_parameter(whole.sources[name]).grad for network in networks])
        # A bias before a normalisation has no gradient; stacked, it is not even computed.
        found = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        torch.testing.assert_close(found, singles, rtol=1e-8, atol=1e-10)

    copies = [getattr(build_model(config, shape, 4, decoder=True, seed=9), role) for _ in range(RUNS)]
    whole.write(copies)
    for copied, network in zip(copies, networks):
        for name, value in network.state_dict().items():
            torch.testing.assert_close(copied.state_dict()[name], value, rtol=1e-10, atol=1e-12)


def test_a_layer_without_a_twin_is_refused():
    odd = nn.Sequential(nn.Linear(3, 3), nn.PReLU())
    assert not can_stack(odd)
    with pytest.raises(CannotStack, match="PReLU"):
        stack([odd])
    assert can_stack(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))


def test_flat_adam_is_adam_with_a_learning_rate_for_each_run():
    generator = torch.Generator().manual_seed(0)
    starts = [torch.randn(RUNS, 4, 2, generator=generator), torch.randn(RUNS, 5, generator=generator)]
    lr = torch.tensor([0.1, 0.01, 0.5])
    ours = [nn.Parameter(start.clone()) for start in starts]
    flat = FlatAdam(ours, lr)
    theirs = [[nn.Parameter(start[run].clone()) for start in starts] for run in range(RUNS)]
    singles = [torch.optim.Adam(theirs[run], lr=float(lr[run])) for run in range(RUNS)]
    for _ in range(5):
        gradients = [torch.randn(start.shape, generator=generator) for start in starts]
        for parameter, gradient in zip(ours, gradients):
            parameter.grad = gradient.clone()
        flat.step()
        for run in range(RUNS):
            for parameter, gradient in zip(theirs[run], gradients):
                parameter.grad = gradient[run].clone()
            singles[run].step()
    for place, parameter in enumerate(ours):
        alone = torch.stack([theirs[run][place] for run in range(RUNS)])
        torch.testing.assert_close(parameter, alone, rtol=1e-6, atol=1e-8)
