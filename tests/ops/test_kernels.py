"""The Triton kernels against the references: on a GPU as they are, elsewhere in Triton's interpreter."""

from __future__ import annotations

import importlib.util
import os
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.func import functional_call, stack_module_state

import dwmr
from dwmr import ops
from dwmr.models.world_model import build_model
from dwmr.ops import coskewness as third_moments
from tests.ops.calls import calls
from tests.ops.registration import assert_compiles, assert_registered

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    monkeypatch.setattr("dwmr.ops.dispatch.INTERPRETED", DEVICE == "cpu")


def normal(*shape, seed=0, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=generator) * scale).to(DEVICE)


def relative(found, expected):
    return float((found.double() - expected.double()).norm() / expected.double().norm())


def agree(fast, plain, inputs, bound, upstream=1.0, by_run=False):
    """Outputs and gradients of two functions of the same inputs, the plain one in float64; ``by_run`` with gradients of
    another size for each run."""
    ours = [each.clone().requires_grad_() for each in inputs]
    theirs = [each.double().requires_grad_() for each in inputs]
    found, expected = fast(*ours), plain(*theirs)
    assert relative(found.detach(), expected.detach()) < bound
    arriving = normal(*expected.shape, seed=9, scale=upstream)
    if by_run:
        arriving *= 1e4 ** torch.arange(len(arriving), device=DEVICE).view(-1, *[1] * (arriving.ndim - 1))
    of_ours = torch.autograd.grad(found, ours, arriving)
    of_theirs = torch.autograd.grad(expected, theirs, arriving.double())
    for got, wanted in zip(of_ours, of_theirs, strict=True):
        for part, whole in zip(got, wanted, strict=True) if by_run else [(got, wanted)]:
            assert relative(part, whole) < bound


@pytest.fixture(params=["float32", "float16"])
def blocks(request, monkeypatch):
    """How well blocks of layers agree: stored in single precision with precise products; and in half precision, with
    gradients that it could not hold unscaled. On images of a few pixels, a ReLU that rounding turns over is
    some percent of a gradient."""
    from dwmr.ops import triton_conv

    monkeypatch.setattr(triton_conv, "STORAGE", getattr(torch, request.param))
    monkeypatch.setattr(triton_conv, "PRECISION", "tf32x3")
    return {"bound": 1e-4} if request.param == "float32" else {"bound": 1e-1, "upstream": 1e-9}


def among_others(tensors):
    """Weights as they lie in a flat tensor of all: each run's in one piece, the runs apart."""
    return [torch.stack([tensor, tensor], 1)[:, 1] for tensor in tensors]


def on_kernels(function):
    """A function of PyTorch with at least one of its operations on our kernels."""

    def through(*inputs):
        with calls() as used:
            found = function(*inputs)
        assert used
        return found

    return through


def blocks_agree(x, kinds, channels, biased, **how):
    """Blocks between these numbers of channels, plain, pooling or doubling, against PyTorch's layers."""
    from dwmr.ops.triton_blocks import DOUBLED, POOLED, conv_blocks

    inputs = [x]
    for place, (before, after) in enumerate(pairwise(channels)):
        inputs += [
            normal(len(x), after, before, 3, 3, seed=place),
            *(normal(len(x), after, seed=seed) for seed in (7, 8)),
        ]
    inputs = inputs[:-1] if biased else inputs  # the last convolution has a bias only

    def reference(x, parameters, kinds):
        for place, kind in enumerate(kinds):
            weight, *norm = parameters[3 * place : 3 * place + 3]
            x = nn.functional.interpolate(x, scale_factor=2) if kind == DOUBLED else x
            x = nn.functional.conv2d(x, weight, None if len(norm) == 2 else norm[0], padding=1)
            x = nn.functional.group_norm(x, x.shape[1], *norm).relu() if len(norm) == 2 else x
            x = nn.functional.avg_pool2d(x, 2) if kind == POOLED else x
        return x

    def through(function):
        one = torch.vmap(lambda x, *tensors: function(x, tensors, kinds))
        return lambda x, *tensors: one(x, *among_others(tensors))

    agree(through(conv_blocks), through(reference), inputs, **how)


@pytest.mark.parametrize(
    ("shape", "outputs", "pools"),
    [
        ((2, 3, 1, 8, 12), (8, 16, 5), (1, 1, 0)),
        ((1, 5, 3, 6, 4), (16, 4), (0, 1)),
        ((2, 2, 3, 24, 20), (16, 16), (1, 0)),  # colours, and several steps an image
        ((2, 2, 1, 24, 20), (5,), (1,)),  # a single block
        ((2, 2, 1, 24, 20), (16, 3), (1, 0)),
        ((2, 2, 1, 4, 8), (32, 64, 48), (1, 0, 0)),
        ((2, 3, 1, 5, 7), (8, 20, 3), (0, 0, 0)),  # an odd width: one pixel at a time
    ],
)
def test_convolutional_features(blocks, shape, outputs, pools):
    blocks_agree(normal(*shape, seed=3), pools, (shape[2], *outputs), biased=False, **blocks)


def test_each_runs_gradients_are_scaled_by_themselves():
    images = normal(2, 3, 1, 24, 20, seed=3)
    blocks_agree(images, (1, 0), (1, 16, 8), biased=False, bound=1e-1, upstream=1e-9, by_run=True)


@pytest.mark.parametrize(
    ("side", "channels", "doubles"),
    [((3, 5), (4, 8, 1), (2, 2)), ((4, 2), (16, 20, 5, 3), (0, 2, 0)), ((3, 2), (3, 1), (2,))],
)
def test_decoding(blocks, side, channels, doubles):
    """Doubled images are convolved without being made, in the middle and at the end."""
    blocks_agree(normal(2, 3, channels[0], *side), doubles, channels, biased=True, **blocks)


@pytest.mark.parametrize("pool", [0, 1])
def test_what_is_not_finite_is_seen_in_its_own_run(pool):
    from dwmr.ops.triton_blocks import conv_blocks

    images = normal(2, 3, 1, 8, 8)
    images[1, 2, 0, 4, 4] = float("nan")
    weights = [each for c in (1, 4) for each in (normal(2, 4, c, 3, 3), normal(2, 4), normal(2, 4))]
    through = torch.vmap(lambda x, *tensors: conv_blocks(x, tensors, [pool, pool]))
    finite = torch.isfinite(through(images, *weights)).flatten(2).all(-1)
    assert finite.tolist() == [[True] * 3, [True, True, False]]


@pytest.mark.parametrize("pools", [(True, False), (False, True)])
def test_odd_sizes_are_pooled_by_torch(pools):
    layers = []
    for before, pool in zip((1, 4), pools, strict=True):
        layers += [nn.Conv2d(before, 4, 3, padding=1, bias=False), nn.GroupNorm(4, 4), nn.ReLU()]
        layers += [nn.AvgPool2d(2)] if pool else []
    network = ops.Sequential(*layers).to(DEVICE)
    for shape, known in (((2, 1, 6, 7), False), ((2, 1, 6, 8), True)):
        images = normal(*shape)
        with calls() as used:
            found = network(images)
        assert ("dwmr.conv_blocks.default" in used) == known
        torch.testing.assert_close(found, network(images), rtol=1e-1, atol=1e-1)


@pytest.mark.parametrize("outputs", [1, 5, 16])
def test_single_convolutions(monkeypatch, outputs):
    from dwmr.ops import triton_conv

    monkeypatch.setattr(triton_conv, "PRECISION", "tf32x3")
    inputs = [normal(2, 3, 3, 5, 4), normal(2, outputs, 3, 3, 3, seed=1), normal(2, outputs, seed=2)]
    plain = torch.vmap(lambda x, weight, bias: nn.functional.conv2d(x, weight, bias, padding=1))
    agree(on_kernels(plain), plain, inputs, bound=1e-4)


@pytest.mark.parametrize(
    ("preset", "shape", "bits"),
    [("8puzzle/ae", (1, 16, 8), 8), ("iceslider/ae", (3, 16, 24), 18)],
)
def test_networks_on_kernels_equal_single_ones(monkeypatch, preset, shape, bits):
    from dwmr.ops import triton_batch_norm, triton_conv

    monkeypatch.setattr(triton_batch_norm, "PROGRAMS", 8)
    monkeypatch.setattr(triton_conv, "PRECISION", "tf32x3")
    monkeypatch.setattr(triton_conv, "STORAGE", torch.float32)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    config = dwmr.preset(preset, bits=bits, low=0, high=2)
    models = [build_model(config, shape, 4, decoder=True, seed=seed).to(DEVICE) for seed in range(2)]
    codes, actions = normal(2, 3, bits), normal(2, 3, 4, seed=1)
    for role, inputs in (
        ("encoder", (normal(2, 3, *shape),)),
        ("decoder", (codes,)),
        ("predictor", (codes, actions)),
    ):
        networks = [getattr(model, role) for model in models]
        parameters, buffers = stack_module_state(networks)

        def together(inputs=inputs, parameters=parameters, buffers=buffers, first=networks[0]):
            return torch.vmap(lambda p, b, *x: functional_call(first, (p, b), x))(parameters, buffers, *inputs)

        with calls() as used:
            found = together()
        assert bool(used) == ((preset, role) != ("8puzzle/ae", "predictor"))  # linear layers have no kernels of ours
        alone = torch.stack([network(*parts) for network, *parts in zip(networks, *inputs, strict=True)])
        assert relative(found.detach(), alone.detach()) < 1e-4
        upstream = normal(*alone.shape, seed=4)
        found.backward(upstream)
        alone.backward(upstream)
        for name, parameter in parameters.items():
            singles = torch.stack([network.get_parameter(name).grad for network in networks])
            # Before a normalisation, a bias has no gradient but rounding.
            assert (parameter.grad - singles).norm() < 1e-2 * singles.norm() + 1e-4, name
        for name, buffer in buffers.items():
            singles = torch.stack([network.get_buffer(name) for network in networks])
            torch.testing.assert_close(buffer, singles, rtol=1e-4, atol=1e-5)
        networks[0].eval()
        alone = torch.stack([network.eval()(*parts) for network, *parts in zip(networks, *inputs, strict=True)])
        with torch.no_grad(), calls():
            assert relative(together(), alone.detach()) < 1e-4


@pytest.mark.parametrize(("precision", "bound"), [("tf32x3", 1e-4), ("half", 2e-2)])
@pytest.mark.parametrize("shape", [(1, 20, 40), (3, 17, 35)])
def test_coskewness(monkeypatch, shape, precision, bound):
    from dwmr.ops import triton_coskewness

    monkeypatch.setattr(triton_coskewness, "PRECISION", precision)
    probs = torch.sigmoid(normal(*shape, scale=2.0))
    probs[..., 3] = 0.7123  # a mean of as many is another number

    def fast(probs):
        with calls() as used:
            found = torch.vmap(third_moments.coskewness)(probs)
        assert used
        return found

    agree(fast, torch.vmap(third_moments.reference), [probs], bound)


@pytest.mark.parametrize("shape", [(2, 20, 7, 5, 3), (1, 10, 32, 10, 10)])
def test_batch_norm(monkeypatch, shape):
    from dwmr.ops import triton_batch_norm

    monkeypatch.setattr(triton_batch_norm, "PROGRAMS", 8)  # several steps each
    monkeypatch.setattr(triton_batch_norm, "NUMBERS", 256)
    runs, channels = shape[0], shape[2]
    inputs = [normal(*shape, scale=2.0) + 0.5, normal(runs, channels, seed=1), normal(runs, channels, seed=2)]
    statistics = [normal(2, runs, channels, seed=3).exp() for _ in range(2)]

    def normalized(kept):
        one = torch.vmap(lambda x, w, b, mean, var: nn.functional.batch_norm(x, mean, var, w, b, True, 0.2, 1e-4))
        return lambda x, weight, bias: one(x, weight, bias, *kept.to(x.dtype))

    agree(on_kernels(normalized(statistics[0])), normalized(statistics[1]), inputs, bound=1e-4)


def test_batch_norm_moves_running_statistics_on_as_torch_does():
    x, layers = normal(6, 5, 4, 3), [nn.BatchNorm2d(5, momentum=0.3).to(DEVICE) for _ in range(2)]
    plain = layers[0](x)
    with calls() as used:
        torch.testing.assert_close(layers[1](x), plain, rtol=1e-4, atol=1e-5)
    assert used
    for kept, expected in zip(layers[1].buffers(), layers[0].buffers(), strict=True):
        torch.testing.assert_close(kept, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "sizes", "options"),
    [
        ("conv2d", (6, 3, 7, 7), {"padding": 3}),
        ("conv2d", (6, 3, 4, 4), {"stride": 2, "padding": 1}),
        ("conv2d", (4, 3, 3, 2), {"stride": (1, 2), "padding": (0, 2)}),
        ("conv2d", (4, 3, 1, 2), {"stride": 3}),  # some pixels are never seen
        ("conv2d", (18, 3, 5, 3), {"padding": 2}),
        ("conv2d", (4, 3, 5, 3), {"padding": "same"}),
        ("conv2d", (4, 3, 2, 2), {"padding": "valid"}),
        ("conv_transpose2d", (3, 4, 4, 4), {"stride": 2, "padding": 1}),
        ("conv_transpose2d", (3, 2, 3, 3), {"stride": (2, 1), "output_padding": (1, 0)}),
        ("conv_transpose2d", (3, 4, 2, 1), {"stride": 3}),
    ],
)
@pytest.mark.parametrize(
    ("numbers", "biased"), [(16, True), (64, False)]
)  # rows of taps in several steps, or several in one
def test_convolutions_of_any_form(monkeypatch, name, sizes, options, numbers, biased):
    from dwmr.ops import triton_conv, triton_correlate

    monkeypatch.setattr(triton_conv, "PRECISION", "tf32x3")
    monkeypatch.setattr(triton_conv, "PROGRAMS", 64)  # several groups, of which the last is not full
    monkeypatch.setattr(triton_correlate, "NUMBERS", numbers)
    function = getattr(nn.functional, name)
    outputs = sizes[0] if name == "conv2d" else sizes[1]
    inputs = [normal(2, 5, 3, 8, 7), normal(2, *sizes, seed=1), *([normal(2, outputs, seed=2)] if biased else [])]
    plain = torch.vmap(lambda x, weight, *bias: function(x, weight, *bias, **options))

    def fast(*given):
        with calls() as used:
            found = plain(*given)
        assert any("any_" in each for each in used)
        return found

    agree(fast, plain, inputs, bound=1e-4, by_run=True)


@pytest.mark.parametrize("standardize", [True, False])
def test_images_are_normalised_in_one_pass(monkeypatch, standardize):
    model = build_model(dwmr.preset("generic/dwmr", standardize=standardize), (3, 16, 16), 4, decoder=False).to(DEVICE)
    model.mean.copy_(torch.tensor([0.1, 0.2, 0.3]))
    model.std.copy_(torch.tensor([0.5, 1e-3, 2.0]))
    images = (normal(2, 4, 3, 16, 16).sigmoid() * 255).to(torch.uint8)
    plain = model.normalize(images)
    passes, addcmul = [], torch.addcmul
    monkeypatch.setattr(torch, "addcmul", lambda *given: passes.append(addcmul(*given)) or passes[-1])
    with ops.accelerated():
        found = model.normalize(images)
    assert len(passes) == 1
    assert found.dtype == plain.dtype
    torch.testing.assert_close(found, plain, rtol=1e-5, atol=1e-4)  # 1e-4 of 1 / 1e-3


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("shape", [(6, 5, 4, 3), (6, 5)])
def test_batch_norm_by_running_statistics(shape, affine):
    x, mean, weight, bias = normal(2, *shape), *(normal(2, 5, seed=seed) for seed in (1, 2, 3))
    variance, given = normal(2, 5, seed=4).exp(), (weight, bias) if affine else ()
    one = torch.vmap(lambda x, mean, variance, *given: nn.functional.batch_norm(x, mean, variance, *given))
    plain = one(x, mean, variance, *given)
    with ops.accelerated():
        torch.testing.assert_close(one(x, mean, variance, *given), plain, rtol=1e-4, atol=1e-5)


def test_convolutions_without_a_kernel_are_not_mapped_over_runs():
    x, weight = normal(2, 3, 4, 8, 8), normal(2, 4, 2, 2, 2)
    for weights, options in ((weight, {"groups": 2}), (normal(2, 4, 4, 2, 2), {"padding": "same"})):
        mapped = torch.vmap(lambda x, weight, options=options: nn.functional.conv2d(x, weight, **options))
        with calls(), pytest.raises(RuntimeError, match="no fast kernel"):
            mapped(x, weights)


def test_images_may_be_viewed_as_vectors_after_a_convolution():
    x, weight = normal(2, 3, 9, 8), normal(6, 3, 3, 3, seed=1)
    with calls() as used:
        vectors = nn.functional.conv2d(x, weight, padding=1).view(len(x), -1)
    assert used
    assert relative(vectors, nn.functional.conv2d(x, weight, padding=1).flatten(1)) < 1e-2


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("channels", "side", "outputs"), [(3, 4, 32), (32, 2, 3), (5, 2, 1), (48, 2, 16), (1, 1, 20)])
def test_disjoint_patches(monkeypatch, channels, side, outputs, last):
    from dwmr.ops import triton_conv, triton_patch

    monkeypatch.setattr(triton_conv, "PRECISION", "tf32x3")
    monkeypatch.setattr(triton_patch, "NUMBERS", 512)  # several steps, of which the last is not full
    image = normal(2, 5, channels, 3 * side, 5 * side)
    numbers = normal(2, 5, outputs, 3, 5, seed=2)
    weight = normal(2, outputs, channels, side, side, seed=1)

    def laid(x):  # in memory with its columns or its channels last
        return x.permute(0, 1, 3, 4, 2).contiguous().permute(0, 1, 4, 2, 3) if last else x.contiguous()

    for function, x in ((nn.functional.conv2d, image), (nn.functional.conv_transpose2d, numbers)):
        plain = torch.vmap(lambda x, w, f=function: f(x, w, stride=side))
        fast = on_kernels(plain)
        agree(lambda x, w, fast=fast: fast(laid(x), *among_others([w])), plain, [x, weight], bound=1e-4)


@pytest.mark.parametrize(("shape", "known"), [((32, 3, 4, 4), True), ((3, 5, 3, 3), False), ((3, 5, 2, 4), False)])
def test_patches_that_fit(shape, known):
    from dwmr.ops import triton_patch

    assert triton_patch.fits(torch.zeros(shape)) == known


def test_the_operations_are_registered_as_torch_wants_them():
    from dwmr.ops import triton_batch_norm, triton_blocks, triton_coskewness, triton_patch  # noqa: F401

    norm = [normal(2, 4), normal(2, 4)]
    block = [normal(2, 2, 2, 8, 6), normal(2, 4, 2, 3, 3), *norm]
    for name, inputs, form in (
        ("conv_blocks", [*block, normal(2, 3, 4, 3, 3), normal(2, 3)], [1.0, 0.0]),
        ("conv_blocks", [*block, normal(2, 12, 4, 3, 3), normal(2, 3)], [0.0, 2.0]),
        ("conv_blocks", [*block, normal(2, 16, 4, 3, 3), *norm, normal(2, 4, 4, 3, 3), *norm], [1.0, 2.0, 1.0]),
        ("conv3x3", [normal(2, 2, 3, 4, 5), normal(2, 5, 3, 3, 3)], []),
        ("any_conv", [normal(2, 2, 8, 6, 3), normal(2, 5, 3, 4, 3), normal(2, 5)], [2, 1, 1, 0]),
        ("any_transpose", [normal(2, 2, 5, 6, 4), normal(2, 4, 3, 3, 3), normal(2, 3)], [2, 2, 1, 0, 1, 0]),
        ("conv3x3", [normal(2, 2, 16, 4, 4), normal(2, 20, 16, 3, 3)], []),
        ("patch_conv", [normal(2, 2, 3, 4, 4), normal(2, 5, 3, 2, 2)], []),
        ("patch_conv", [normal(2, 2, 4, 6, 4).permute(0, 1, 4, 2, 3), normal(2, 5, 4, 2, 2)], []),
        ("patch_transpose", [normal(2, 2, 4, 4, 3), normal(2, 3, 5, 2, 2)], []),
        ("patch_transpose", [normal(2, 2, 4, 6, 3), normal(2, 3, 16, 2, 2)], []),
        ("batch_norm", [normal(2, 40, 3), normal(2, 3), normal(2, 3)], [1e-5]),
        ("coskewness", [torch.sigmoid(normal(2, 16, 5))], [1e-6]),
    ):
        assert_registered(name, inputs, form)


def test_compiled_networks_use_the_kernels():
    blocks = ops.Sequential(
        nn.Conv2d(3, 4, 3, padding=1, bias=False),
        nn.GroupNorm(4, 4),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Upsample(size=(8, 8)),
        nn.Conv2d(4, 2, 3, padding=1),
    ).to(DEVICE)
    layers = nn.Sequential(
        nn.Conv2d(3, 5, 3, padding=1), nn.Conv2d(5, 4, 2, 2), nn.BatchNorm2d(4), nn.ConvTranspose2d(4, 3, 2, 2)
    ).to(DEVICE)
    images = normal(4, 3, 8, 8)
    assert assert_compiles(blocks, images) == {"conv_blocks"}
    assert assert_compiles(layers, images) == {"conv3x3", "patch_conv", "batch_norm", "patch_transpose"}
    assert assert_compiles(third_moments.coskewness, torch.sigmoid(normal(16, 5))) == {"coskewness"}
