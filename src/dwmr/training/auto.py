"""The recipe for any world: chooses networks and settings from the training transitions alone.

If the images are drawn cell by cell, from few symbols, the encoder is ready without training: it names the symbol of
every cell. What is left is to learn the predictor. Otherwise the generic networks are trained.
"""

from __future__ import annotations

import logging
import math

import numpy as np
import torch
from torch import nn

from dwmr.config import Config
from dwmr.data.cell_grid import CellGrid, find_symbols, symbols_of
from dwmr.data.transitions import Transitions
from dwmr.errors import InputError
from dwmr.models.symbol_networks import MAX_MIXING, bits_per_cell
from dwmr.models.world_model import WorldModel

log = logging.getLogger("dwmr")

UPDATES = 2000
TRIAL_UPDATES = 300
EXACT_ENOUGH = 99.9  # percent of the next codes; a predictor this good after a trial is taken
HELD_OUT = 0.1  # share of the transitions that `fit` keeps for the verdict


def resolve(config: Config, train: Transitions) -> Config:
    """The configuration that ``auto`` stands for on this data."""
    check_data(train)
    symbols = find_symbols(train.obs, train.next_obs)
    if symbols is None:
        log.info("auto: no symbols on a grid in these images; training generic networks")
        return config.replace(model="strong", predictor="residual", cross=True, low=0.0, high=10.0)
    grid = symbols.grid
    size = f"{grid.rows}×{grid.cols} cells of {grid.height:g}×{grid.width:g} pixels"
    log.info("auto: %s, which show %d symbols", size, len(symbols))
    epochs = config.epochs if config.epochs != Config.epochs else _epochs(UPDATES, config, train)
    return config.replace(
        model="symbols",
        encoder="symbols",
        predictor="cells",
        decoder="symbols",
        scheme="predictor_alone",
        standardize=False,
        cells=str(grid),
        symbols=len(symbols),
        bits=bits_per_cell(len(symbols)) * grid.count,
        epochs=epochs,
        cosine_from=epochs // 2,
    )


def predictors_to_try(config: Config, train: Transitions) -> tuple[str, ...]:
    """The predictors that suit a resolved configuration, the simplest first."""
    if config.encoder != "symbols":
        return (config.predictor,)
    few = train.n_actions * CellGrid.parse(config.cells).count ** 2 <= MAX_MIXING
    return ("cells", "places") if few else ("cells",)


def shortened(config: Config, train: Transitions) -> Config:
    """The same for a trial of a few hundred updates."""
    epochs = min(config.epochs, _epochs(TRIAL_UPDATES, config, train))
    return config.replace(epochs=epochs, cosine_from=epochs // 2)


def _epochs(updates: int, config: Config, train: Transitions) -> int:
    return max(2, math.ceil(updates / max(1, len(train) // config.batch_size)))


def check_data(train: Transitions) -> None:
    """Refuse data that no recipe can learn from."""
    if train.n_actions < 2:
        raise InputError("the data has one action only, so there is nothing to choose; record at least two actions")
    if min(train.image_shape[1:]) < 16:
        _, height, width = train.image_shape
        raise InputError(f"auto needs images of at least 16×16 pixels, got {height}×{width}; enlarge them")
    if not any((train.obs[i : i + 1024] != train.next_obs[i : i + 1024]).any() for i in range(0, len(train), 1024)):
        raise InputError("no transition changes the image; record frames before and after each action")


@torch.no_grad()
def init_symbols(model: WorldModel, grid: CellGrid, train: Transitions) -> None:
    """Give encoder and decoder the symbols in the cells of the training images, and the decoder the pixels outside."""
    symbols = symbols_of(grid, train.obs, train.next_obs)
    if symbols is None:
        raise InputError(f"the cells {grid} of these images show too many symbols")
    patches = torch.from_numpy(symbols.patches).flatten(1).to(model.device) / 255
    for network in (model.encoder, model.decoder):
        prototypes = getattr(network, "prototypes", None)
        if isinstance(prototypes, nn.Parameter):
            prototypes.copy_(patches)
    if model.decoder is not None:
        rest = torch.from_numpy(train.obs[:1].astype("float32") / 255)[0]
        model.decoder.get_parameter("rest").copy_(rest)


def hold_out(transitions: Transitions) -> tuple[Transitions, Transitions]:
    """All but the last tenth, and the last tenth: whole episodes if there are any."""
    first = int(len(transitions) * (1 - HELD_OUT))
    if transitions.episode is not None:
        starts = np.flatnonzero(np.diff(transitions.episode)) + 1
        before = starts[starts <= first]
        first = int(before[-1]) if len(before) else first
    if not 0 < first < len(transitions):
        raise InputError(f"{len(transitions)} transitions are too few to hold some out; collect more")
    return transitions[:first], transitions[first:]
