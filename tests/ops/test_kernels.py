"""The Triton kernels against their plain twins: on a GPU as they are, elsewhere in Triton's interpreter."""

from __future__ import annotations

import importlib.util
import os
from contextlib import nullcontext
from itertools import pairwise

import pytest
import torch

from dwmr.training import losses

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


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
    for got, wanted in zip(of_ours, of_theirs):
        for part, whole in zip(got, wanted) if by_run else [(got, wanted)]:
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


@pytest.mark.parametrize(
    ("shape", "outputs", "pools"),
    [
        ((2, 3, 1, 8, 12), (8, 16, 5), (True, True, False)),
        ((1, 5, 3, 6, 4), (16, 4), (False, True)),
        ((2, 2, 3, 24, 20), (16, 16), (True, False)),  # colours, and several steps an image
        ((2, 2, 1, 24, 20), (5,), (True,)),  # the first block alone in several steps
        ((2, 2, 1, 24, 20), (16, 3), (True, False)),
        ((2, 2, 1, 4, 8), (32, 64, 48), (True, False, False)),
        ((2, 3, 1, 5, 7), (8, 20, 3), (False, False, False)),  # an odd width: one pixel at a time
    ],
)
def test_convolutional_features(blocks, shape, outputs, pools):
    features_agree(shape, outputs, pools, **blocks)


def test_each_runs_gradients_are_scaled_by_themselves():
    features_agree((2, 3, 1, 24, 20), (16, 8), (True, False), bound=1e-1, upstream=1e-9, by_run=True)


def features_agree(shape, outputs, pools, **how):
    from dwmr.ops import triton_encode

    runs, channels = shape[0], shape[2]
    weights = []
    for place, out in enumerate(outputs):
        weights += [normal(runs, out, channels, 3, 3, seed=place), normal(runs, out, seed=7), normal(runs, out, seed=8)]
        channels = out
    images = normal(*shape, seed=3)

    def through(function, dtype):
        def run(*tensors):
            tensors = among_others(tensors)
            layers = [triton_encode.Block(*tensors[3 * i : 3 * i + 3], pool) for i, pool in enumerate(pools)]
            return function(images.to(dtype), layers)

        return run

    fast = through(triton_encode.conv_features, torch.float32)
    plain = through(triton_encode.plain_features, torch.float64)
    agree(fast, plain, weights, **how)


@pytest.mark.parametrize("pool", [True, False])
def test_what_is_not_finite_is_seen_in_its_own_run(pool):
    from dwmr.ops.triton_encode import Block, conv_features

    images = normal(2, 3, 1, 8, 8)
    images[1, 2, 0, 4, 4] = float("nan")
    layers = [Block(normal(2, 4, c, 3, 3), normal(2, 4), normal(2, 4), pool) for c in (1, 4)]
    finite = torch.isfinite(conv_features(images, layers)).flatten(2).all(-1)
    assert finite.tolist() == [[True] * 3, [True, True, False]]


@pytest.mark.parametrize("pools", [(True, False), (False, True)])
def test_odd_sizes_are_not_pooled(pools):
    from dwmr.errors import InputError
    from dwmr.ops.triton_encode import Block, conv_features

    layers = [Block(normal(1, 4, c, 3, 3), normal(1, 4), normal(1, 4), pool) for c, pool in zip((1, 4), pools)]
    with pytest.raises(InputError, match="6×7 cannot be pooled"):
        conv_features(normal(1, 2, 1, 6, 7), layers)


@pytest.mark.parametrize("outputs", [1, 5, 16])
def test_single_convolutions(monkeypatch, outputs):
    from dwmr.ops import triton_conv

    monkeypatch.setattr(triton_conv, "PRECISION", "tf32x3")
    inputs = [normal(6, 5, 4, 3), normal(2, outputs, 3, 3, 3, seed=1)]

    def plain(x, weight):
        parts = x.permute(0, 3, 1, 2).unflatten(0, (2, 3))
        done = [torch.nn.functional.conv2d(part, w, padding=1) for part, w in zip(parts, weight)]
        return torch.cat(done).permute(0, 2, 3, 1)

    agree(triton_conv.conv, plain, inputs, bound=1e-4)


@pytest.mark.parametrize(
    ("side", "channels", "doubles"),
    [((3, 5), (4, 8, 1), (True, True)), ((4, 2), (16, 20, 5, 3), (False, True, False)), ((3, 2), (3, 1), (True,))],
)
def test_decoding(blocks, side, channels, doubles):
    """Doubled images are convolved without being made, in the middle and at the end."""
    from dwmr.ops.triton_decode import DecodingBlock, decode

    inputs = [normal(2, 3, channels[0], *side)]
    for place, (before, after) in enumerate(pairwise(channels)):
        inputs += [normal(2, after, before, 3, 3, seed=place), normal(2, after, seed=7), normal(2, after, seed=8)]
    *inputs, _ = inputs  # the last convolution has a bias only

    def fast(x, *tensors):
        tensors = among_others(tensors)
        layers = [DecodingBlock(*tensors[3 * k : 3 * k + 3], double) for k, double in enumerate(doubles[:-1])]
        return decode(x, layers, *tensors[-2:], doubles[-1])

    def plain(images, *tensors):
        done = []
        for run, x in enumerate(images):
            for k, double in enumerate(doubles):
                weight, *norm = (tensor[run] for tensor in tensors[3 * k : 3 * k + 3])
                x = torch.nn.functional.interpolate(x, scale_factor=2.0) if double else x
                bias = norm[0] if len(norm) == 1 else None
                x = torch.nn.functional.conv2d(x, weight, bias, padding=1)
                x = x if bias is not None else torch.nn.functional.group_norm(x, x.shape[1], *norm, 1e-5).relu()
            done.append(x)
        return torch.stack(done)

    agree(fast, plain, inputs, **blocks)


@pytest.mark.parametrize(
    ("preset", "shape", "bits"),
    [("8puzzle/ae", (1, 16, 8), 8), ("iceslider/ae", (3, 16, 24), 18)],
)
def test_fused_networks_equal_single_ones(monkeypatch, preset, shape, bits):
    import dwmr
    from dwmr.models.world_model import build_model
    from dwmr.ops import layers, triton_conv
    from dwmr.ops.optimizer import flatten
    from dwmr.ops.stacked import stack

    monkeypatch.setattr(triton_conv, "PRECISION", "tf32x3")
    monkeypatch.setattr(triton_conv, "STORAGE", torch.float32)
    monkeypatch.setattr(layers, "quick_products", nullcontext)
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
        whole = stack(networks, fused=True).to(DEVICE)
        if (preset, role) != ("8puzzle/ae", "predictor"):  # linear layers have no kernels of their own
            networks_of_kernels = layers.StackedFeatures | layers.StackedDecoding
            assert any(getattr(layer, "fused", isinstance(layer, networks_of_kernels)) for layer in whole.modules())
        flatten(list(whole.parameters()))
        idle = {id(bias) for layer in whole.modules() for bias in getattr(layer, "earlier_bias", ())}
        together = whole(*inputs)
        alone = torch.stack([network(*parts) for network, *parts in zip(networks, *inputs)])
        assert relative(together.detach(), alone.detach()) < 1e-4
        upstream = normal(*alone.shape, seed=4)
        together.backward(upstream)
        alone.backward(upstream)
        for name, parameter in whole.named_parameters():
            singles = torch.stack([network.get_parameter(whole.sources[name]).grad for network in networks])
            if id(parameter) in idle:  # before a normalisation, where it has no gradient but rounding
                assert parameter.grad is None
            else:
                assert relative(parameter.grad, singles) < 1e-2, name
        whole.eval()
        alone = torch.stack([network.eval()(*parts) for network, *parts in zip(networks, *inputs)])
        assert relative(whole(*inputs).detach(), alone.detach()) < 1e-4


@pytest.mark.parametrize(("precision", "bound"), [("tf32x3", 1e-4), ("half", 2e-2)])
@pytest.mark.parametrize("shape", [(20, 40), (3, 17, 35)])
def test_coskewness(monkeypatch, shape, precision, bound):
    from dwmr.ops import triton_coskewness

    monkeypatch.setattr(triton_coskewness, "PRECISION", precision)
    probs = torch.sigmoid(normal(*shape, scale=2.0))
    probs[..., 3] = 0.7123  # a mean of as many is another number
    agree(triton_coskewness.coskewness, losses.coskewness, [probs], bound)


@pytest.mark.parametrize(("shape", "relu"), [((2, 300, 7), True), ((1, 1000, 32), False)])
def test_batch_norm(shape, relu):
    from dwmr.ops import triton_batch_norm

    runs, _, channels = shape
    inputs = [normal(*shape, scale=2.0) + 0.5, normal(runs, channels, seed=1), normal(runs, channels, seed=2)]
    agree(
        lambda *tensors: triton_batch_norm.batch_norm(*tensors, 1e-5, relu)[0],
        lambda *tensors: triton_batch_norm.plain_batch_norm(*tensors, 1e-5, relu)[0],
        inputs,
        bound=1e-4,
    )
    _, mean, var = triton_batch_norm.batch_norm(*inputs, 1e-5, relu)
    _, plain_mean, plain_var = triton_batch_norm.plain_batch_norm(*inputs, 1e-5, relu)
    torch.testing.assert_close(mean, plain_mean, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(var, plain_var, rtol=1e-4, atol=1e-5)


def test_minibatches_are_picked_and_normalised():
    from dwmr.ops.triton_pick import pick, plain_pick

    generator = torch.Generator().manual_seed(4)
    images = torch.randint(256, (9, 3, 40, 50), dtype=torch.uint8, generator=generator).to(DEVICE)
    index = torch.randint(9, (2, 5), generator=generator).to(DEVICE)
    scale, shift = normal(3), normal(3, seed=1)
    torch.testing.assert_close(pick(images, index, scale, shift), plain_pick(images, index, scale, shift))


def test_a_stacked_3x3_convolution_by_the_fused_kernel():
    from torch import nn

    from dwmr.ops.layers import StackedConv

    layers = [nn.Conv2d(7, 7, 3, padding=1).to(DEVICE) for _ in range(2)]
    stacked = StackedConv(layers).to(DEVICE)
    x = normal(2, 3, 7, 8, 8)
    plain = stacked(x)
    stacked.fused = True
    assert relative(stacked(x).detach(), plain.detach()) < 2e-3


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

    def by_run(function):
        return lambda x, w: torch.stack([function(*parts, stride=side) for parts in zip(x, w)])

    plain = by_run(torch.nn.functional.conv2d), by_run(torch.nn.functional.conv_transpose2d)
    for fast, slow, x in zip((triton_patch.patch_conv, triton_patch.patch_transpose), plain, (image, numbers)):
        agree(lambda x, w, f=fast: f(laid(x), *among_others([w])), slow, [x, weight], bound=1e-4)


@pytest.mark.parametrize(("shape", "known"), [((32, 3, 4, 4), True), ((3, 5, 3, 3), False), ((3, 5, 2, 4), False)])
def test_patches_that_fit(shape, known):
    from dwmr.ops import triton_patch

    assert triton_patch.fits(torch.zeros(2, *shape)) == known


def test_adam():
    """Ten steps of two runs with rates of their own, and gradients of other sizes each time."""
    from torch import nn

    from dwmr.ops.optimizer import FlatAdam

    rates = torch.tensor([1e-2, 3e-4], device=DEVICE)
    ours = [nn.Parameter(normal(2, 30, 50)), nn.Parameter(normal(2, 7, seed=1))]
    theirs = [[nn.Parameter(each.detach()[run].double()) for each in ours] for run in range(2)]
    flat = FlatAdam(ours, rates.clone(), fused=True)
    single = [torch.optim.Adam(weights, lr=float(rate)) for weights, rate in zip(theirs, rates)]
    for step in range(10):
        flat.lr.mul_(0.9)
        for place, parameter in enumerate(ours):
            parameter.grad = normal(*parameter.shape, seed=10 * step + place, scale=10.0 ** (step % 4 - 3))
            for run in range(2):
                theirs[run][place].grad = parameter.grad[run].double()
        flat.step()
        for run, optimizer in enumerate(single):
            optimizer.param_groups[0]["lr"] = float(flat.lr[run])
            optimizer.step()
    for place, parameter in enumerate(ours):
        for run in range(2):
            torch.testing.assert_close(parameter[run].double(), theirs[run][place], rtol=1e-5, atol=1e-6)
