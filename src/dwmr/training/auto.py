"""The recipe for any world: chooses networks and settings from the training transitions alone.

If the images are drawn cell by cell, from few symbols, the encoder names the symbol of every cell. Where a symbol
always looks the same it is ready without training; where it is drawn anew each time, it first learns to read. Parts of
other shapes serve as cells where they stay at their places. What is left is to learn the predictor, on codes. Otherwise
the generic networks are trained.
"""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from dwmr.config import Config
from dwmr.data.cell_grid import Symbols, find_symbols
from dwmr.data.image_parts import PartLayout, Parts, find_parts
from dwmr.data.rendered_cells import NamedCells, find_named_cells
from dwmr.data.transitions import Transitions
from dwmr.errors import InputError
from dwmr.models.symbol_networks import MAX_MIXING, MAX_ONE_HOT, SymbolDecoder, SymbolEncoder, bits_per_cell
from dwmr.models.world_model import WorldModel
from dwmr.training.reader import draw_what_is_read, teach_reader

log = logging.getLogger("dwmr")

UPDATES = 2000  # of a predictor in one round, at whose end the learning rate falls to zero
WORTH_A_ROUND = 0.1  # share of the wrong predictions that a round must have removed for another to follow
MAX_ROUNDS = 8
TRIAL_UPDATES = 300
EXACT_ENOUGH = 99.9  # percent of the next codes; a predictor this good after a trial is taken
LIKE_NOTHING = 2.0  # a pixel of a symbol that a part never shows; those of images lie in [0, 1]
HELD_OUT = 0.1  # share of the transitions that `fit` keeps for the verdict,
ENOUGH_HELD_OUT = 400  # or so many, so that they can prove a model exact,
MOST_HELD_OUT = 0.2  # but at most this share,
MOST_IN_EPISODES = 0.3  # or this one if whole episodes are kept
MIN_MINIBATCHES = 4  # in an epoch; with few transitions minibatches are smaller


Cells = Symbols | NamedCells | Parts


class Recipe:
    """What ``auto`` stands for on some transitions: a configuration, and what new networks begin with. ``found``: the
    cells of the images and their symbols, if there are any."""

    def __init__(self, config: Config, train: Transitions, found: Cells | None) -> None:
        self.train, self.found = train, found
        self.readers: dict[int, nn.Module] = {}  # that have learned, by seed
        self.config = self._config(config)

    def _config(self, config: Config) -> Config:
        if self.found is None:
            log.info("auto: no symbols on a grid in these images; training generic networks")
            return config.replace(model="strong", predictor="residual", cross=True, low=0.0, high=10.0)
        grid, symbols = self.found.grid, len(self.found)
        if isinstance(grid, PartLayout):
            size = f"{grid.count} parts"
        else:
            size = f"{grid.rows}×{grid.cols} cells of {grid.height:g}×{grid.width:g} pixels"
        encoder = "reader" if isinstance(self.found, NamedCells) else "symbols"
        rendered = ", rendered differently in every frame" if encoder == "reader" else ""
        log.info("auto: %s, which show %d symbols%s", size, symbols, rendered)
        epochs = _epochs(UPDATES, config, self.train) if ends_by_measure(config) else config.epochs
        return config.replace(
            model="symbols",
            encoder=encoder,
            predictor="cells",
            decoder="symbols",
            scheme="predictor_alone",
            standardize=False,
            low=0.0,
            high=0.0,
            cells=str(grid),
            symbols=symbols,
            bits=bits_per_cell(symbols) * grid.count,
            epochs=epochs,
            cosine_from=epochs // 2,
        )

    def predictors(self) -> tuple[str, ...]:
        """Those that suit, the simplest first."""
        if self.found is None:
            return (self.config.predictor,)
        few = self.train.n_actions * self.found.grid.count**2 <= MAX_MIXING
        if isinstance(self.found, Parts) and self.found.grid.rows == 1 and few:
            return ("places",)
        return ("cells", "places") if few else ("cells",)

    def trial(self, predictor: str, transitions: int) -> Config:
        """A training of a predictor for a few hundred updates, on codes."""
        epochs = min(self.config.epochs, _epochs(TRIAL_UPDATES, self.config, transitions))
        return self.config.replace(predictor=predictor, epochs=epochs, cosine_from=epochs // 2)

    def start(self, model: WorldModel, seed: int, progress: bool | None = None) -> None:
        """Give the encoder and the decoder of a new model what was found; a reader learns to read."""
        if self.found is None:
            return
        if isinstance(self.found, Parts):
            read = drawn = torch.from_numpy(self.found.looks).float() / 255  # (T, S, C, P)
            never = ~torch.from_numpy(self.found.known)[..., None, None]
            read = read.masked_fill(never, LIKE_NOTHING) * torch.from_numpy(self.found.read)[:, None, None]
            _place(model.encoder, self.found.places, self.found.read)
            _place(model.decoder, self.found.places, self.found.drawn)
        elif isinstance(self.found, Symbols):
            read = drawn = torch.from_numpy(self.found.patches) / 255
        else:
            if seed not in self.readers:
                teach_reader(model, self.train, self.found, seed, progress)
                self.readers[seed] = copy.deepcopy(model.encoder)
            model.encoder.load_state_dict(self.readers[seed].state_dict())
            read = drawn = torch.from_numpy(draw_what_is_read(model, self.train, self.found)) / 255
        with torch.no_grad():
            if isinstance(model.encoder, SymbolEncoder):
                model.encoder.prototypes.copy_(read.reshape(model.encoder.prototypes.shape))
            if isinstance(model.decoder, SymbolDecoder):
                model.decoder.prototypes.copy_(drawn.reshape(model.decoder.prototypes.shape))
                model.decoder.rest.copy_(torch.from_numpy(self.train.obs[:1].astype(np.float32))[0] / 255)


def ends_by_measure(config: Config) -> bool:
    """Whether predictors are trained in rounds, as long as they gain: unless another number of epochs than the default
    was asked for."""
    return config.model == "auto" and config.epochs == Config.epochs


def first_round(config: Config, train: Transitions) -> Config:
    """The configuration of a run that begins, from that of one that may have had several rounds."""
    if config.scheme != "predictor_alone":
        return config
    length = _epochs(UPDATES, config, train)
    return config.replace(epochs=length, cosine_from=length // 2)


def another_round(config: Config, metrics: Sequence[Mapping[str, Any]], train: Transitions) -> Config | None:
    """The configuration of a run with one more round of training, or None if the last one gained too little, or if its
    learning rate did not fall as it does in rounds."""
    length, done = _epochs(UPDATES, config, train), len(metrics)
    in_rounds = config.scheme == "predictor_alone" and config.cosine_from == done - length + length // 2
    if not in_rounds or done >= MAX_ROUNDS * length:
        return None
    before, now = (100 - metrics[epoch]["val"]["exact_next"] for epoch in (max(0, done - 1 - length), done - 1))
    if now > (1 - WORTH_A_ROUND) * before or now == 0:
        return None
    return config.replace(epochs=done + length, cosine_from=done + length // 2)


def recipes(config: Config, train: Transitions) -> list[Recipe]:
    """Those that suit the transitions, the simplest first."""
    check_data(train)
    return [Recipe(config, train, found) for found in find_cells(train)] or [Recipe(config, train, None)]


def find_cells(train: Transitions) -> list[Cells]:
    """The cells of the images and the symbols that they show, if there are few.

    A grid whose cells show many symbols may be made of parts that look different everywhere; then both are found, the
    one with fewer bits first.
    """
    if (named := find_named_cells(train)) is not None:
        return [named]
    symbols = find_symbols(train.obs, train.next_obs)
    if symbols is not None and len(symbols) <= MAX_ONE_HOT:
        return [symbols]
    both = [each for each in (symbols, find_parts(train.obs, train.next_obs)) if each is not None]
    return sorted(both, key=lambda each: bits_per_cell(len(each)) * each.grid.count)


def _place(network: nn.Module | None, places: np.ndarray, pixels: np.ndarray) -> None:
    """Tell a network where the pixels of the parts are, and which of them count."""
    if network is not None:
        network.get_buffer("places").copy_(torch.from_numpy(places))
        network.get_buffer("inside").copy_(torch.from_numpy(pixels))


def _epochs(updates: int, config: Config, transitions: Transitions | int) -> int:
    count = transitions if isinstance(transitions, int) else len(transitions)
    return max(2, math.ceil(updates / max(1, count // config.batch_size)))


def check_data(train: Transitions) -> None:
    """Refuse data that no recipe can learn from."""
    if train.n_actions < 2:
        raise InputError("the data has one action only, so there is nothing to choose; record at least two actions")
    if min(train.image_shape[1:]) < 16:
        _, height, width = train.image_shape
        raise InputError(f"auto needs images of at least 16×16 pixels, got {height}×{width}; enlarge them")
    if not any((train.obs[i : i + 1024] != train.next_obs[i : i + 1024]).any() for i in range(0, len(train), 1024)):
        raise InputError("no transition changes the image; record frames before and after each action")


def hold_out(transitions: Transitions) -> tuple[Transitions, Transitions]:
    """The first transitions and the last tenth, or the last fifth of few: whole episodes, unless those are too long."""
    count = len(transitions)
    first = count - int(max(HELD_OUT * count, min(ENOUGH_HELD_OUT, MOST_HELD_OUT * count)))
    if transitions.episode is not None:
        starts = np.flatnonzero(np.diff(transitions.episode)) + 1
        before = starts[(starts <= first) & (starts >= count * (1 - MOST_IN_EPISODES))]
        first = int(before[-1]) if len(before) else first
    if not 0 < first < count:
        raise InputError(f"{count} transitions are too few to hold some out; collect more")
    return transitions[:first], transitions[first:]
