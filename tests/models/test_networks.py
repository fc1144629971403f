"""The paper's networks by their layers, and the generic ones on images of any size."""

from itertools import pairwise

import pytest
import torch
from torch import nn

from dwmr.errors import InputError
from dwmr.models.decoders import DECODERS
from dwmr.models.encoders import ENCODERS
from dwmr.models.predictors import PREDICTORS, LineBlock

PUZZLE, ICE = (1, 88, 88), (3, 64, 64)
ODD_SHAPES = [(1, 7, 9), (3, 64, 48), (3, 210, 160), (4, 30, 30), (1, 1, 1), (2, 1, 40)]


def count(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def conv(before: int, after: int, side: int = 3, *, bias: bool = True) -> int:
    return before * after * side**2 + bias * after


def linear(before: int, after: int) -> int:
    return before * after + after


def norm(channels: int) -> int:
    return 2 * channels


def test_encoder_of_the_8puzzle():
    encoder = ENCODERS["conv"](PUZZLE, 64)
    channels = [1, 8, 16, 32, 32, 16]
    layers = sum(conv(a, b, bias=False) + norm(b) for a, b in pairwise(channels))
    assert count(encoder) == layers + linear(16 * 11 * 11, 96) + linear(96, 64) == 212_024
    assert encoder(torch.zeros(2, *PUZZLE)).shape == (2, 64)
    groups = [layer for layer in encoder.modules() if isinstance(layer, nn.GroupNorm)]
    assert [layer.num_groups for layer in groups] == channels[1:]


def test_predictor_of_the_8puzzle():
    predictor = PREDICTORS["mlp"](PUZZLE, 64, 4)
    assert count(predictor) == linear(68, 128) + linear(128, 128) + linear(128, 64) == 33_600
    assert predictor(torch.zeros(2, 64), torch.zeros(2, 4)).shape == (2, 64)


def test_decoder_of_the_8puzzle():
    decoder = DECODERS["conv"](PUZZLE, 64)
    head = linear(64, 96) + linear(96, 16 * 11 * 11)
    channels = [16, 32, 32, 16, 8]
    layers = sum(conv(a, b, bias=False) + norm(b) for a, b in pairwise(channels))
    assert count(decoder) == head + layers + conv(8, 1) == 213_865
    assert decoder(torch.zeros(2, 64)).shape == (2, *PUZZLE)


def test_encoder_of_iceslider():
    encoder = ENCODERS["patch"](ICE, 192)
    assert count(encoder) == conv(3, 32, 4) + norm(32) + conv(32, 3, 2) == 2_019
    assert encoder(torch.zeros(2, *ICE)).shape == (2, 192)


def test_predictor_of_iceslider():
    predictor = PREDICTORS["conv"](ICE, 192, 4)
    assert count(predictor) == conv(7, 7, 1) + norm(7) + 4 * (conv(7, 7) + norm(7)) + conv(7, 3, 1) == 1_942
    assert predictor(torch.zeros(2, 192), torch.zeros(2, 4)).shape == (2, 192)


def test_decoder_of_iceslider():
    decoder = DECODERS["patch"](ICE, 192)
    assert count(decoder) == conv(3, 32, 2) + norm(32) + conv(32, 3, 4) == 2_019
    assert decoder(torch.zeros(2, 192)).shape == (2, *ICE)


def test_a_patch_decides_its_own_bits_alone():
    encoder = ENCODERS["patch"](ICE, 192).eval()
    image = torch.zeros(1, *ICE)
    other = image.clone()
    other[..., 8:16, 24:32] = 1  # the patch in row 1, column 3
    changed = (encoder(image) != encoder(other)).reshape(3, 8, 8)
    assert changed[:, 1, 3].all()
    assert changed.sum() == 3


def test_the_conv_predictor_sees_four_cells_around_and_the_action_everywhere():
    predictor = PREDICTORS["conv"](ICE, 192, 4).eval()
    codes, other = torch.zeros(1, 192), torch.zeros(1, 3, 8, 8)
    other[..., 0, 0] = 1
    up, right = torch.eye(4)[[0]], torch.eye(4)[[1]]
    reached = (predictor(codes, up) != predictor(other.flatten(1), up)).reshape(3, 8, 8).any(0)
    assert not reached[5:].any()
    assert not reached[:, 5:].any()
    assert reached[0, 0]
    assert (predictor(codes, up) != predictor(codes, right)).reshape(3, 8, 8).any(0).all()


def test_a_line_predictors_block_sees_rows_and_columns_and_nothing_else():
    torch.manual_seed(0)
    block = LineBlock(64, cells=8).eval()  # of so many channels some pass the ReLU in every cell
    grid, other = torch.zeros(1, 64, 8, 8), torch.zeros(1, 64, 8, 8)
    other[..., 2, 5] = 1
    reached = (block(grid) != block(other))[0].any(0)
    assert reached[2].all()
    assert reached[:, 5].all()
    assert reached.sum() == 15


@pytest.mark.parametrize("name", ["far", "lines"])
def test_predictors_over_a_grid_see_every_cell(name):
    predictor = PREDICTORS[name](ICE, 128, 4).eval()
    codes, other = torch.zeros(1, 128), torch.zeros(1, 2, 8, 8)
    other[..., 0, 0] = 1
    up, right = torch.eye(4)[[0]], torch.eye(4)[[1]]
    assert (predictor(codes, up) != predictor(other.flatten(1), up)).reshape(2, 8, 8).any(0).all()
    assert (predictor(codes, up) != predictor(codes, right)).reshape(2, 8, 8).any(0).all()


@pytest.mark.parametrize("shape", ODD_SHAPES)
@pytest.mark.parametrize("bits", [3, 10])
def test_generic_networks_fit_any_image(shape, bits):
    images = torch.rand(2, *shape)
    codes = ENCODERS["generic"](shape, bits)(images)
    assert codes.shape == (2, bits)
    assert PREDICTORS["generic"](shape, bits, 7)(codes, torch.zeros(2, 7)).shape == (2, bits)
    assert DECODERS["generic"](shape, bits)(codes).shape == images.shape


def test_the_generic_encoder_sees_brightness():
    """One normalisation group a channel would hide it."""
    encoder = ENCODERS["generic"]((3, 16, 16), 8)
    dark, coloured = torch.full((1, 3, 16, 16), 0.2), torch.full((1, 3, 16, 16), 0.2)
    coloured[:, 0] = 0.8
    assert not torch.allclose(encoder(dark), encoder(coloured), atol=1e-3)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ENCODERS["conv"]((1, 7, 88), 64), "7×88 pixels are too small to be halved 3 times"),
        (lambda: ENCODERS["patch"]((3, 60, 64), 192), "divisible by 8.*60×64 pixels and 192 bits"),
        (lambda: ENCODERS["patch"]((3, 64, 64), 100), "100 bits"),
        (lambda: ENCODERS["patch"]((3, 4, 4), 64), "4×4 pixels"),
        (lambda: PREDICTORS["conv"]((3, 64, 64), 100, 4), "8×8 cells needs bits divisible by 64, got 100"),
        (lambda: PREDICTORS["conv"]((3, 4, 4), 64, 4), "0×0 cells"),
        (lambda: PREDICTORS["lines"](ICE, 100, 4), "8×8 cells needs bits divisible by 64, got 100"),
    ],
)
def test_unfit_sizes_are_refused(build, message):
    with pytest.raises(InputError, match=message):
        build()
