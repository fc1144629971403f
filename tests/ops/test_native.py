"""The C++ kernels give what PyTorch gives in float64, values and gradients, up to float32's rounding."""

from __future__ import annotations

import copy
import tomllib
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import dwmr
from dwmr import ops
from dwmr.models.encoders import ConvEncoder, GridEncoder, PatchEncoder
from dwmr.models.predictors import ConvPredictor, ResidualBlock
from dwmr.ops.conv_chain import fits
from dwmr.ops.coskewness import coskewness, reference
from dwmr.ops.native import build as native
from dwmr.ops.native import call
from dwmr.ops.sequential import links_of
from dwmr.training.stacking import Stack
from tests.ops.calls import calls
from tests.ops.registration import assert_compiles, assert_registered

needs_compiler = pytest.mark.skipif(native.library() is None, reason="no C++ compiler")


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(3)


def shaken(network: nn.Module) -> nn.Module:
    """Scales and shifts that are not their initial 1 and 0."""
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.ndim == 1:
                parameter.uniform_(0.5, 1.5)
    return network


def assert_accelerated(network: nn.Module, *inputs: Tensor) -> None:
    """Outputs, gradients of weights and inputs, and buffers, against the network itself in float64."""
    reference = copy.deepcopy(network).double()
    own = [given.clone().requires_grad_(given.ndim == 2) for given in inputs]
    exact = [given.double().requires_grad_(given.ndim == 2) for given in inputs]
    with calls() as used:
        out = network(*own)
    assert used
    expected = reference(*exact)
    assert_near(out, expected, 1e-5, "output")
    upstream = torch.randn(expected.shape, dtype=torch.float64)
    out.backward(upstream.float())
    expected.backward(upstream)
    largest = max(parameter.grad.abs().max() for parameter in reference.parameters())
    for (name, parameter), exactly in zip(network.named_parameters(), reference.parameters(), strict=True):
        error = (parameter.grad - exactly.grad).abs().max()
        assert error <= 1e-4 * exactly.grad.abs().max() + 1e-5 * largest, name  # a bias before a norm: all rounding
    for given, exactly in zip(own, exact, strict=True):
        if exactly.grad is not None:
            assert_near(given.grad, exactly.grad, 1e-4, "input")
    for (name, buffer), exactly in zip(network.named_buffers(), reference.buffers(), strict=True):
        assert_near(buffer, exactly, 1e-5, name)
    network.eval()
    with torch.no_grad(), ops.accelerated():
        assert_near(network(*inputs), reference.eval()(*(given.double() for given in inputs)), 1e-5, "evaluation")


def assert_near(value: Tensor, expected: Tensor, tolerance: float, name: str) -> None:
    assert (value - expected).abs().max() <= tolerance * expected.abs().max().clamp_min(1e-12), name


@needs_compiler
@pytest.mark.parametrize(
    ("shape", "channels", "poolings", "count"),
    [
        ((1, 24, 24), (8, 16, 32, 32, 16), 3, 32),
        ((3, 23, 17), (5, 7, 3), 2, 20),  # odd sides, channels that fill no block, images that fill no group
        ((2, 6, 9), (9,), 0, 1),
    ],
    ids=["paper", "odd", "single"],
)
def test_features_are_those_of_torch(shape, channels, poolings, count):
    encoder = shaken(ConvEncoder(shape, 12, channels=channels, poolings=poolings, hidden=10))
    assert_accelerated(encoder, torch.randn(count, *shape))


@needs_compiler
def test_the_grid_encoder_is_that_of_torch():
    encoder = shaken(GridEncoder((1, 37, 37), 18, cells=3))
    assert_accelerated(encoder, torch.randn(12, 1, 37, 37))


@needs_compiler
def test_the_patch_encoder_and_its_statistics_are_those_of_torch():
    encoder = shaken(PatchEncoder((3, 16, 24), 18))
    assert_accelerated(encoder, torch.rand(48, 3, 16, 24))


@needs_compiler
def test_the_conv_predictor_is_that_of_torch():
    predictor = shaken(ConvPredictor((3, 24, 16), 18, 4))
    actions = torch.eye(4)[torch.randint(4, (32,))]
    assert_accelerated(predictor, torch.rand(32, 18), actions)


@needs_compiler
@pytest.mark.parametrize("kernel", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(("stride", "dilation", "padding"), [(1, 1, 0), (1, 2, 2), (2, 1, 1), (3, 1, 2), (1, 1, 7)])
def test_any_convolution_is_that_of_torch(kernel, stride, dilation, padding):
    layers = ops.Sequential(
        nn.Conv2d(3, 5, 1),
        nn.Conv2d(5, 6, kernel, stride=stride, dilation=dilation, padding=padding, bias=kernel != 2),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        ResidualBlock(6),
        nn.Conv2d(6, 2, 1),
        nn.Flatten(),
    )
    shaken(layers)
    assert_accelerated(layers, torch.randn(16, 3, 11, 10))


@needs_compiler
@pytest.mark.parametrize(("samples", "bits"), [(256, 64), (37, 5), (8, 3), (100, 33), (250, 50)])
def test_coskewness_is_the_plain_one(samples, bits):
    probs = torch.rand(samples, bits, requires_grad=True)
    exact = probs.detach().double().requires_grad_()
    with calls() as used:
        value = coskewness(probs)
    assert used
    expected = reference(exact)
    assert_near(value, expected, 1e-5, "value")
    (3 * value).backward()
    (3 * expected).backward()
    assert_near(probs.grad, exact.grad, 1e-4, "gradient")


@needs_compiler
@pytest.mark.parametrize(("samples", "bits"), [(24, 40), (13, 16), (40, 63)])
@pytest.mark.parametrize("threads", [1, 2])
def test_moments_of_zero_pull_at_no_bit(samples, bits, threads):
    """Small whole numbers, with equal, opposite and constant bits: many moments are 0, and every sum is exact."""
    x = torch.randint(-1, 2, (samples, bits)).float()
    x[:, 3], x[:, bits // 2], x[:, -1] = x[:, 1], 0, -x[:, 2]
    exact = x.double().requires_grad_()
    moments = torch.einsum("ni,nj,nk->ijk", exact, exact, exact)
    i, j, k = torch.combinations(torch.arange(bits), 3).unbind(1)
    distinct = moments[i, j, k]
    assert 0.05 < (distinct == 0).double().mean() < 0.5
    expected = distinct.abs().sum()
    expected.backward()
    gradient = torch.empty_like(x)
    assert call("coskewness", x, samples, bits, gradient, threads) == expected.item()
    assert torch.equal(gradient.double(), exact.grad)


@needs_compiler
def test_two_threads_and_one_agree_and_each_repeats_itself():
    encoder = ConvEncoder((1, 16, 16), 8, channels=(4, 8), poolings=1)
    images = torch.randn(64, 1, 16, 16)

    def gradient(threads: int) -> Tensor:
        torch.set_num_threads(threads)
        try:
            encoder.zero_grad()
            with ops.accelerated():
                encoder(images).square().sum().backward()
            return encoder.features[0].weight.grad.clone()
        finally:
            torch.set_num_threads(1)

    assert torch.equal(gradient(2), gradient(2))
    assert torch.equal(gradient(1), gradient(1))
    torch.testing.assert_close(gradient(1), gradient(2))


@needs_compiler
def test_two_passes_before_the_way_back_do_not_share_memory():
    encoder = ConvEncoder((1, 16, 16), 8, channels=(4,), poolings=1)
    images, weight = torch.randn(2, 32, 1, 16, 16), encoder.features[0].weight
    with ops.accelerated():
        both = encoder(images[0]).sum() + 2 * encoder(images[1]).sum()
        (together,) = torch.autograd.grad(both, weight)
        parts = [torch.autograd.grad(k * encoder(images[k - 1]).sum(), weight)[0] for k in (1, 2)]
    torch.testing.assert_close(together, parts[0] + parts[1])


@needs_compiler
def test_a_number_that_is_none_stays_visible():
    for network, shape in ((ConvEncoder((1, 8, 8), 4, poolings=1), (1, 8, 8)), (PatchEncoder((1, 8, 8), 4), (1, 8, 8))):
        with torch.no_grad(), ops.accelerated():
            next(network.parameters()).fill_(float("nan"))
            assert network(torch.randn(16, *shape)).isnan().all()


@needs_compiler
def test_several_runs_at_once_are_the_single_ones():
    networks = [shaken(ConvEncoder((1, 16, 16), 8, channels=(4, 8), poolings=1)) for _ in range(2)]
    chains = [shaken(PatchEncoder((3, 16, 16), 8)) for _ in range(2)]
    for group, images in ((networks, torch.randn(2, 16, 1, 16, 16)), (chains, torch.randn(2, 16, 3, 16, 16))):
        parameters, buffers = torch.func.stack_module_state(group)
        with calls() as used:
            together = torch.vmap(lambda p, b, x, n=group[0]: torch.func.functional_call(n, (p, b), x))(
                parameters, buffers, images
            )
        assert used
        alone = torch.stack([network(part) for network, part in zip(group, images, strict=True)])
        assert_near(together, alone, 1e-5, "output")
        upstream = torch.randn(alone.shape)
        together.backward(upstream)
        alone.backward(upstream)
        largest = max(parameter.grad.abs().max() for parameter in group[0].parameters())
        for name, parameter in parameters.items():
            singles = torch.stack([network.get_parameter(name).grad for network in group])
            assert (parameter.grad - singles).abs().max() <= 1e-4 * largest, name


@needs_compiler
def test_the_operations_are_registered_as_torch_wants_them():
    encoder, patches = ConvEncoder((1, 8, 8), 4, channels=(3, 2), poolings=1), PatchEncoder((1, 8, 8), 4)
    for layers in (encoder.features, patches.layers):
        links = links_of(list(layers))
        weights = [each.detach().expand(2, *each.shape) for link in links for each in link.tensors]
        form = [float(number) for link in links for number in link.form]
        for runs, images in ((1, torch.rand(1, 16, 1, 8, 8)), (2, torch.rand(2, 16, 1, 8, 8))):
            assert_registered("conv_chain", [images, *(each[:runs] for each in weights)], [1.0, *form])
    assert_registered("third_moments", [torch.rand(2, 16, 5)])


@needs_compiler
@pytest.mark.parametrize(
    ("network", "shapes"),
    [
        (ConvEncoder((1, 8, 8), 4, channels=(3, 2), poolings=1), [(16, 1, 8, 8)]),
        (PatchEncoder((1, 8, 16), 4), [(16, 1, 8, 16)]),
        (ConvPredictor((3, 8, 16), 6, 2, blocks=1), [(16, 6), (16, 2)]),
    ],
    ids=["conv", "patch", "predictor"],
)
def test_compiled_networks_use_the_kernels(network, shapes):
    inputs = [torch.rand(shape) for shape in shapes]
    assert assert_compiles(shaken(network), *inputs) == {"conv_chain"}
    compiled = torch.compile(network.eval(), backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        expected = network(*inputs)
        assert_near(compiled(*inputs), expected, 1e-5, "outside the block")
        with ops.accelerated():
            assert_near(compiled(*inputs), expected, 1e-5, "evaluation")


@needs_compiler
def test_compiled_coskewness_uses_the_kernels():
    assert assert_compiles(coskewness, torch.rand(16, 5)) == {"third_moments"}


@needs_compiler
def test_layers_before_the_features_get_their_gradients_from_several_runs_too():
    """Inside `torch.vmap` no tensor says that it needs a gradient."""

    def networks():
        torch.manual_seed(0)
        blocks = [nn.Conv2d(4, 8, 3, padding=1, bias=False), nn.GroupNorm(8, 8), nn.ReLU(), nn.Flatten()]
        return [nn.Sequential(nn.Conv2d(3, 4, 1), ops.Sequential(*blocks[:3]), blocks[3]) for _ in range(2)]

    images = torch.randn(2, 16, 3, 8, 8)
    gradients = []
    for fast in (False, True):
        stack = Stack(networks())
        with ops.accelerated() if fast else nullcontext():
            stack(images).square().sum().backward()
        gradients.append({name: parameter.grad for name, parameter in stack.parameters.items()})
    for name, expected in gradients[0].items():
        assert gradients[1][name] is not None, name
        torch.testing.assert_close(gradients[1][name], expected, rtol=1e-4, atol=1e-2)


@needs_compiler
def test_layers_with_a_forward_or_a_hook_of_their_own_stay_with_torch():
    class Standardized(nn.Conv2d):
        def forward(self, x):
            weight = self.weight - self.weight.mean((1, 2, 3), keepdim=True)
            return nn.functional.conv2d(x, weight, padding=1)

    def blocks(conv: nn.Module) -> nn.Module:
        return ops.Sequential(conv, nn.GroupNorm(8, 8), nn.ReLU())

    hooked = blocks(nn.Conv2d(3, 8, 3, padding=1, bias=False))
    hooked[2].register_forward_hook(lambda layer, given, made: 2 * made)
    images = torch.randn(16, 3, 8, 8)
    for network in (blocks(Standardized(3, 8, 3, padding=1, bias=False)), hooked):
        expected = network(images)
        with ops.accelerated():
            assert torch.equal(network(images), expected)


def test_only_a_pooling_that_halves_is_part_of_a_link():
    block = [nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.GroupNorm(8, 8), nn.ReLU()]
    (link,) = links_of([*block, nn.AvgPool2d(2)])
    assert link.pooled
    for pooling in (nn.AvgPool2d(2, stride=1), nn.AvgPool2d(2, divisor_override=1), nn.AvgPool2d(2, ceil_mode=True)):
        assert links_of([*block, pooling]) is None


@needs_compiler
def test_what_the_kernels_do_not_know_stays_with_torch():
    images, group, batch = torch.rand(16, 3, 8, 8), nn.GroupNorm(3, 3), nn.BatchNorm2d(3)
    for layers in (
        [nn.Conv2d(3, 4, 3), nn.GroupNorm(1, 4), nn.ReLU()],  # one group of all channels
        [nn.Conv2d(3, 3, 3, padding=(1, 0)), group, nn.ReLU()],
        [nn.Conv2d(3, 3, 3), batch, nn.ReLU()],  # a batch norm by itself
        [nn.Conv2d(3, 3, 3), batch, nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(3, 3, 1)],
        [nn.Upsample(size=(16, 16)), nn.Conv2d(3, 3, 3), group, nn.ReLU()],
    ):
        assert not fits(images, links_of(layers))
    assert links_of([nn.Conv2d(1, 4, 3), nn.GELU(), nn.Flatten()]) is None
    encoder = PatchEncoder((3, 16, 16), 8)
    images = torch.rand(17, 3, 16, 16)  # 17 images fill no whole vectors
    expected = copy.deepcopy(encoder)(images)
    with ops.accelerated():
        assert torch.equal(encoder(images), expected)


def test_outside_the_block_the_reference_is_used():
    encoder = ConvEncoder((1, 8, 8), 4, poolings=1)
    images = torch.rand(16, 1, 8, 8)
    assert torch.equal(encoder.features(images), nn.Sequential(*encoder.features)(images))


def test_without_a_compiler_everything_still_runs(monkeypatch, tmp_path, tiny):
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("DWMR_CACHE", str(tmp_path))
    native.library.cache_clear()
    try:
        assert native.library() is None
        run = dwmr.train(dwmr.preset("generic/dwmr", bits=12, batch_size=32, epochs=60), train=tiny, progress=False)
        assert len(run.metrics) == 60
    finally:
        native.library.cache_clear()


def test_a_compiler_that_fails_is_named_and_left_alone(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("CXX", "false")
    monkeypatch.setenv("DWMR_CACHE", str(tmp_path))
    native.library.cache_clear()
    try:
        with caplog.at_level("INFO", logger="dwmr"):
            assert native.library() is None
        assert "going on without them" in caplog.text
        assert not list(tmp_path.rglob("*.so"))
    finally:
        native.library.cache_clear()


def test_short_runs_do_not_compile(monkeypatch, tiny):
    monkeypatch.setattr("dwmr.ops.native.library", lambda: pytest.fail("compiled for a short run"))
    dwmr.train(dwmr.preset("generic/dwmr", bits=12, batch_size=32, epochs=2), train=tiny, progress=False)


def test_every_source_of_the_kernels_is_packaged():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["dwmr"]
    package = Path(dwmr.__file__).parent
    sources = [path for path in native.SOURCES.iterdir() if path.suffix in (".cpp", ".h")]
    assert len(sources) > 3
    for path in sources:
        assert any(path.relative_to(package).match(pattern) for pattern in patterns), path
