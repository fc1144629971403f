"""Teaches a `SymbolReader` to read symbols that are drawn anew each time, from names that are often wrong.

A cell's name comes from one drawing alone (`dwmr.data.rendered_cells`). So a frame is not taught its own names, but
those of another frame of the same state: what is wrong with these does not depend on how the frame is drawn, and cannot
be learned. Training ends when the codes of two frames of one state do not become equal more often.
"""

from __future__ import annotations

import logging
import math

import numpy as np
import torch
from torch.nn import functional as F

from dwmr import progress as progress_bars
from dwmr.data.rendered_cells import NamedCells
from dwmr.data.transitions import Transitions
from dwmr.models.symbol_networks import SymbolReader
from dwmr.models.world_model import WorldModel
from dwmr.seeding import rng

log = logging.getLogger("dwmr")

CELLS_AT_ONCE = 1024  # in a minibatch, of one of the two frames
PAIRS_AT_ONCE = 8, 128  # at least and at most
LEARNING_RATE = 1e-3
CHECK_EVERY = 100  # updates
PATIENCE = 2  # checks without a better figure
MAX_UPDATES = 1500
LAST_UPDATES = 200  # with a falling learning rate
CHECKED = 0.05  # share of the pairs that are kept for the checks
MAX_CHECKED = 2000
SAMPLE = 500  # frames for the statistics of the pixels


def teach_reader(
    model: WorldModel, train: Transitions, named: NamedCells, seed: int, progress: bool | None = None
) -> None:
    """Train the model's encoder, a `SymbolReader`, and leave it at its best."""
    reader = model.encoder
    if not isinstance(reader, SymbolReader):
        raise TypeError(f"only a SymbolReader can be taught, got {type(reader).__name__}")
    _standardize(reader, train, named)
    count = len(named.first)
    checked = min(MAX_CHECKED, max(1, int(CHECKED * count)))
    draw = _Draw(named.names[:, : count - checked], rng(seed, "reader"))
    optimizer = torch.optim.Adam(reader.parameters(), lr=LEARNING_RATE)

    def update() -> None:
        pairs = draw()
        names = torch.from_numpy(named.names[:, pairs].astype(np.int64)).to(model.device)
        frames = (train.next_obs[named.first[pairs]], train.obs[named.second[pairs]])
        logits = [reader.symbols(model.normalize(torch.from_numpy(part).to(model.device))) for part in frames]
        loss = sum(
            F.cross_entropy(part.flatten(0, 1), others.flatten())
            for part, others in zip(logits, reversed(names.unbind()), strict=True)
        )
        optimizer.zero_grad(set_to_none=True)
        torch.as_tensor(loss).backward()
        optimizer.step()

    def equal_codes() -> float:
        first, second = named.first[count - checked :], named.second[count - checked :]
        same = (model.encode(train.next_obs[first]) == model.encode(train.obs[second])).all(1)
        return 100 * float(same.float().mean())

    best, worse, done = -1.0, 0, 0
    with progress_bars.bar("reading the cells", MAX_UPDATES + LAST_UPDATES, show=progress) as shown:
        while done < MAX_UPDATES and worse < PATIENCE:
            for _ in range(CHECK_EVERY):
                update()
                shown.advance(1)
            done += CHECK_EVERY
            figure = equal_codes()
            shown.describe(f"equal {figure:.2f}%")
            best, worse = (figure, 0) if figure > best else (best, worse + 1)
        for step in range(LAST_UPDATES):
            for group in optimizer.param_groups:
                group["lr"] = LEARNING_RATE * (1 + math.cos(math.pi * step / LAST_UPDATES)) / 2
            update()
            shown.advance(1)
    log.info(
        "the cells are read the same way in %.2f%% of the pairs of frames of one state, after %d updates",
        equal_codes(),
        done + LAST_UPDATES,
    )


class _Draw:
    """Pairs of frames for a minibatch: half of them evenly, half of them for a symbol, each symbol as often."""

    def __init__(self, names: np.ndarray, generator: np.random.Generator) -> None:
        self.count, self.generator = names.shape[1], generator
        low, high = PAIRS_AT_ONCE
        self.size = min(self.count, max(low, min(high, CELLS_AT_ONCE // names.shape[2])))
        shown = [np.flatnonzero((names == symbol).any((0, 2))) for symbol in range(int(names.max()) + 1)]
        self.shown = [pairs for pairs in shown if len(pairs)]

    def __call__(self) -> np.ndarray:
        for_symbol = self.size // 2
        symbols = self.generator.integers(len(self.shown), size=for_symbol)
        chosen = [self.generator.choice(self.shown[symbol]) for symbol in symbols]
        return np.concatenate([chosen, self.generator.integers(self.count, size=self.size - for_symbol)]).astype(int)


@torch.no_grad()
def _standardize(reader: SymbolReader, train: Transitions, named: NamedCells) -> None:
    """The statistics of the pixels of the cells, for the reader's buffers."""
    chosen = named.first[np.linspace(0, len(named.first) - 1, min(SAMPLE, len(named.first))).astype(int)]
    patches = named.grid.cut(train.next_obs[chosen]).astype(np.float32) / 255
    mean = patches.mean((0, 1, 2, 4, 5))
    reader.mean.copy_(torch.from_numpy(mean))
    reader.scale.fill_(max(1e-3, float(np.sqrt(((patches - mean[:, None, None]) ** 2).mean()))))
