import numpy as np
import pytest
import torch

from dwmr.data.cell_grid import CellGrid
from dwmr.data.image_parts import PartLayout
from dwmr.errors import InputError
from dwmr.models.symbol_networks import (
    CellPredictor,
    PlacePredictor,
    SymbolDecoder,
    SymbolEncoder,
    bits_per_cell,
    symbol_codes,
)

GRID = CellGrid(2, 3, 4, 5)
SHAPE = (3, 8, 15)


@pytest.mark.parametrize("symbols", [2, 7, 17, 18, 100])
def test_every_symbol_has_a_code_of_its_own(symbols: int) -> None:
    codes = symbol_codes(symbols)
    assert codes.shape == (symbols, bits_per_cell(symbols))
    assert len(codes.unique(dim=0)) == symbols
    assert not codes[0].any()  # the most frequent symbol


@pytest.mark.parametrize("symbols", [3, 20])
def test_the_decoder_draws_what_the_encoder_saw(symbols: int) -> None:
    generator = torch.Generator().manual_seed(0)
    tiles = torch.rand(symbols, 3 * 4 * 5, generator=generator)
    bits = bits_per_cell(symbols) * GRID.count
    encoder, decoder = SymbolEncoder(SHAPE, bits, GRID, symbols), SymbolDecoder(SHAPE, bits, GRID, symbols)
    with torch.no_grad():
        encoder.prototypes.copy_(tiles)
        decoder.prototypes.copy_(tiles)
    board = torch.randint(symbols, (50, 2, 3), generator=generator)
    images = tiles[board].view(50, 2, 3, 3, 4, 5).permute(0, 3, 1, 4, 2, 5).reshape(50, *SHAPE)
    logits = encoder(images)
    cells = symbol_codes(symbols)[board].permute(0, 3, 1, 2).flatten(1)
    assert ((logits > 0) == cells).all()
    assert decoder(cells.float()).allclose(images)
    assert ((encoder(images + 0.02 * torch.randn(images.shape, generator=generator)) > 0) == cells).all()


def test_parts_have_looks_of_their_own() -> None:
    grid = PartLayout(1, 2, 3)
    encoder, decoder = SymbolEncoder((1, 2, 4), 4, grid, 3), SymbolDecoder((1, 2, 4), 4, grid, 3)
    with torch.no_grad():
        for network in (encoder, decoder):
            network.places.copy_(torch.tensor([[0, 1, 4], [2, 7, 6]]))
            network.inside.copy_(torch.tensor([[True, True, True], [True, True, False]]))
            network.prototypes.zero_()
            network.prototypes[0].copy_(torch.tensor([[0.1, 0.2, 0.3], [0.5, 0.2, 0.1], [0.9, 0.9, 0.9]]))
            network.prototypes[1, :, :2].copy_(torch.tensor([[0.5, 0.5], [0.2, 0.8], [2.0, 2.0]]))
    images = torch.zeros(1, 1, 2, 4)
    images.view(-1)[[0, 1, 4]], images.view(-1)[[2, 7]] = torch.tensor([0.9, 0.9, 0.9]), torch.tensor([0.2, 0.8])
    images.view(-1)[6] = 0.7  # belongs to no part that is read
    bits = encoder(images) > 0
    assert bits.tolist() == [[False, True, True, False]]  # symbols 2 and 1, laid out as (bits, parts)
    drawn = decoder(bits.float())
    images.view(-1)[6] = 0
    assert drawn.allclose(images)


def test_pixels_between_cells_are_drawn_as_they_always_are() -> None:
    grid = CellGrid(1, 1, 4, 4, top=2, left=2)
    decoder = SymbolDecoder((1, 8, 8), 1, grid, 2)
    with torch.no_grad():
        decoder.rest.fill_(0.5)
        decoder.prototypes[1].fill_(1)
    expected = np.full((8, 8), 0.5)
    expected[2:6, 2:6] = 1
    assert decoder(torch.ones(1, 1))[0, 0].tolist() == expected.tolist()


@pytest.mark.parametrize("network", [CellPredictor, PlacePredictor])
def test_before_training_every_bit_stays(network: type[CellPredictor]) -> None:
    predictor = network(SHAPE, 12, 4, GRID)
    codes, actions = torch.randint(2, (20, 12)).float(), torch.eye(4)[torch.randint(4, (20,))]
    assert ((predictor(codes, actions) > 0) == (codes > 0)).float().mean() > 0.9


def test_cells_can_be_carried_anywhere() -> None:
    """Action 1 turns the order of the cells around, action 0 leaves it."""
    predictor = PlacePredictor(SHAPE, 12, 2, GRID)
    with torch.no_grad():
        predictor.moving[1] = torch.eye(6).flip(0)
        predictor.last.weight.zero_()
        predictor.last.bias.zero_()  # type: ignore[union-attr]
    codes = torch.randint(2, (20, 12)).float()
    cells = codes.unflatten(1, (2, 6))
    kept, turned = (predictor(codes, torch.eye(2)[[action] * 20]) > 0 for action in (0, 1))
    assert (kept == (codes > 0)).all()
    assert (turned == (cells.flip(-1).flatten(1) > 0)).all()


def test_networks_refuse_other_numbers_of_bits() -> None:
    with pytest.raises(InputError, match="12 bits, got 13"):
        SymbolEncoder(SHAPE, 13, GRID, 3)
    with pytest.raises(InputError, match="divisible by 6"):
        CellPredictor(SHAPE, 13, 4, GRID)
    with pytest.raises(InputError, match="too many to mix"):
        PlacePredictor((1, 320, 320), 4096, 4, CellGrid(64, 64, 5, 5))
