"""Teaches a `SymbolReader` to read symbols that are drawn anew each time, from names that are often wrong.

A cell's name comes from one drawing alone (`dwmr.data.rendered_cells`). So a frame is not taught its own names, but
those of another frame of the same state: what is wrong with these does not depend on how the frame is drawn, and cannot
be learned. Training ends when the codes of two frames of one state do not become equal more often, nor the cells read
as they are named.
"""

from __future__ import annotations

import logging
import math

import numpy as np
import torch
from torch.nn import functional as F

from dwmr import progress as progress_bars
from dwmr.data.rendered_cells import NamedCells, mean_drawings
from dwmr.data.transitions import Transitions
from dwmr.models.symbol_networks import SymbolReader
from dwmr.models.world_model import WorldModel
from dwmr.seeding import rng

log = logging.getLogger("dwmr")

CELLS_AT_ONCE = 1024  # in a minibatch, of one of the two frames
PAIRS_AT_ONCE = 8, 128  # at least and at most
LEARNING_RATE = 1e-3
CHECK_EVERY = 100  # updates
PATIENCE = 2  # checks without a gain
MIN_GAIN = 0.05  # percent of equal codes and of cells read as named, together
MAX_UPDATES = 3000
FALLING = 0.3  # as many more updates, as a share of those before, with a falling learning rate
CHECKED = 0.05  # share of the pairs that are kept for the checks
MAX_CHECKED = 2000
SAMPLE = 500  # frames for the statistics of the pixels
READ = 5000  # frames that are read for the drawings of the symbols, at most
READ_CELLS = 1_000_000  # cells of these frames, at most
SHIFT = 1 / 14  # frames are moved by up to this share of a cell's side, so that they are not learned by heart


def teach_reader(
    model: WorldModel, train: Transitions, named: NamedCells, seed: int, progress: bool | None = None
) -> None:
    """Train the model's encoder, a `SymbolReader`, until it gains nothing any more."""
    reader = model.encoder
    if not isinstance(reader, SymbolReader):
        raise TypeError(f"only a SymbolReader can be taught, got {type(reader).__name__}")
    _standardize(reader, train, named)
    count = len(named.first)
    checked = min(MAX_CHECKED, max(1, int(CHECKED * count)))
    draw = _Draw(named.names[:, : count - checked], int(SHIFT * min(named.grid.patch)), rng(seed, "reader"))
    optimizer = torch.optim.Adam(reader.parameters(), lr=LEARNING_RATE)
    devices = [model.device] if model.device.type == "cuda" else []

    def update() -> None:
        pairs = draw()
        names = torch.from_numpy(named.names[:, pairs].astype(np.int64)).to(model.device)
        frames = [draw.moved(part) for part in (train.next_obs[named.first[pairs]], train.obs[named.second[pairs]])]
        logits = [reader.symbols(model.normalize(torch.from_numpy(part).to(model.device))) for part in frames]
        loss = sum(
            F.cross_entropy(part.flatten(0, 1), others.flatten())
            for part, others in zip(logits, reversed(names.unbind()), strict=True)
        )
        optimizer.zero_grad(set_to_none=True)
        torch.as_tensor(loss).backward()
        optimizer.step()

    checks = slice(count - checked, count)
    wanted = torch.from_numpy(named.names[1, checks].astype(np.int64)).to(model.device)

    def quality() -> tuple[float, float]:
        """Percent of the pairs kept for checks whose codes are equal, and of their cells that are read as named."""
        codes = model.encode(train.next_obs[named.first[checks]])
        equal = (codes == model.encode(train.obs[named.second[checks]])).all(1)
        read = codes.unflatten(1, (-1, named.grid.count)).transpose(1, 2)
        as_named = (read == reader.codes[wanted]).all(2)
        return 100 * float(equal.float().mean()), 100 * float(as_named.float().mean())

    best, worse, done = -1.0, 0, 0
    bar = progress_bars.bar("reading the cells", int((1 + FALLING) * MAX_UPDATES), show=progress)
    with bar as shown, torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        reader.train()
        while done < MAX_UPDATES and worse < PATIENCE:
            for _ in range(CHECK_EVERY):
                update()
                shown.advance(1)
            done += CHECK_EVERY
            equal, as_named = quality()
            shown.describe(f"equal {equal:.2f}%")
            best, worse = (equal + as_named, 0) if equal + as_named > best + MIN_GAIN else (best, worse + 1)
        last = int(FALLING * done)
        for step in range(last):
            for group in optimizer.param_groups:
                group["lr"] = LEARNING_RATE * (1 + math.cos(math.pi * step / last)) / 2
            update()
            shown.advance(1)
    log.info(
        "the cells are read the same way in %.2f%% of the pairs of frames of one state, after %d updates",
        quality()[0],
        done + last,
    )


@torch.no_grad()
def draw_what_is_read(model: WorldModel, train: Transitions, named: NamedCells) -> np.ndarray:
    """The mean drawing of each symbol, uint8 (S, C, height, width), by what the model's encoder reads."""
    count = min(READ, max(1, READ_CELLS // named.grid.count), len(named.first))
    chosen = named.first[np.linspace(0, len(named.first) - 1, count).astype(int)]
    codes = model.encode(train.next_obs[chosen]).unflatten(1, (-1, named.grid.count)).transpose(1, 2)
    symbols = model.encoder.get_buffer("codes")
    names = (codes[:, :, None] == symbols).all(3).byte().argmax(2).cpu().numpy()
    return mean_drawings(train, named.grid, chosen, names, len(named))


class _Draw:
    """Pairs of frames for a minibatch: half of them evenly, half of them for a symbol, each symbol as often. Frames are
    moved by up to ``shift`` pixels."""

    def __init__(self, names: np.ndarray, shift: int, generator: np.random.Generator) -> None:
        self.count, self.shift, self.generator = names.shape[1], shift, generator
        low, high = PAIRS_AT_ONCE
        self.size = min(self.count, max(low, min(high, CELLS_AT_ONCE // names.shape[2])))
        shown = [np.flatnonzero((names == symbol).any((0, 2))) for symbol in range(int(names.max()) + 1)]
        self.shown = [pairs for pairs in shown if len(pairs)]

    def __call__(self) -> np.ndarray:
        for_symbol = self.size // 2
        symbols = self.generator.integers(len(self.shown), size=for_symbol)
        chosen = [self.generator.choice(self.shown[symbol]) for symbol in symbols]
        return np.concatenate([chosen, self.generator.integers(self.count, size=self.size - for_symbol)]).astype(int)

    def moved(self, frames: np.ndarray) -> np.ndarray:
        if not self.shift:
            return frames
        height, width = frames.shape[2:]
        down, right = self.generator.integers(-self.shift, self.shift + 1, (2, len(frames), 1))
        rows = (np.arange(height) + down).clip(0, height - 1)
        cols = (np.arange(width) + right).clip(0, width - 1)
        frame, channel = np.ogrid[: len(frames), : frames.shape[1]]
        return frames[frame[..., None, None], channel[..., None, None], rows[:, None, :, None], cols[:, None, None]]


@torch.no_grad()
def _standardize(reader: SymbolReader, train: Transitions, named: NamedCells) -> None:
    """The statistics of the pixels of the cells, for the reader's buffers."""
    chosen = named.first[np.linspace(0, len(named.first) - 1, min(SAMPLE, len(named.first))).astype(int)]
    patches = named.grid.cut(train.next_obs[chosen]).astype(np.float32) / 255
    mean = patches.mean((0, 1, 2, 4, 5))
    reader.mean.copy_(torch.from_numpy(mean))
    reader.scale.fill_(max(1e-3, float(np.sqrt(((patches - mean[:, None, None]) ** 2).mean()))))
