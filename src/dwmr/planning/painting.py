"""Drawing imagined codes: by a small decoder fitted afterwards on frozen codes, or as the nearest training frame.

The model itself stays as it is; it learned without any decoder.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from dwmr.config import Config
from dwmr.data.transitions import Transitions
from dwmr.errors import unknown
from dwmr.models.decoders import DECODERS
from dwmr.models.world_model import WorldModel, image_statistics
from dwmr.planning.packing import hamming, pack, unpack
from dwmr.planning.parts import load_part, save_part
from dwmr.progress import bar
from dwmr.seeding import below, rng

FILE = "painter.safetensors"
UPDATES, EPOCHS, BATCH, FRAMES = 600, 10, 64, 10_000

Painter = Callable[[Tensor], np.ndarray]
"""Codes int64 (N, W) to images uint8 (N, C, H, W)."""


def painter_of(
    model: WorldModel, config: Config, folder: Path, train: Transitions, how: str = "decoder", seed: int = 0
) -> tuple[Painter, str]:
    """A painter, and in a few words how it paints: ``decoder`` or ``nearest``.

    The decoder is fitted once and kept in the run folder; a model that was trained with one has its own.
    """
    if how == "nearest":
        return nearest_frame(model, train), "the nearest training frame"
    if how != "decoder":
        raise unknown("way to draw imagined codes", how, ("decoder", "nearest"))
    if model.decoder is not None:
        return lambda words: model.decode(unpack(words, model.bits)).cpu().numpy(), "the model's own decoder"
    decoder = DECODERS[config.decoder](model.image_shape, model.bits)
    stored = load_part(folder / FILE)
    mean, std = image_statistics(np.asarray(train.obs[:2000]))
    if stored is not None:
        decoder.load_state_dict(stored[0])
    else:
        fit_decoder(decoder, model, train[:FRAMES], mean, std, seed)
        save_part(folder / FILE, decoder.state_dict(), {"decoder": config.decoder, "seed": seed})
    drawn = WorldModel(
        model.encoder, model.predictor, decoder.to(model.device),
        image_shape=model.image_shape, n_actions=model.n_actions, bits=model.bits,
        mean=mean.to(model.device), std=std.to(model.device),
    )  # fmt: skip
    return lambda words: drawn.decode(unpack(words, model.bits)).cpu().numpy(), "a decoder fitted afterwards"


def fit_decoder(
    decoder: nn.Module, model: WorldModel, train: Transitions, mean: Tensor, std: Tensor, seed: int = 0
) -> None:
    """Least squares on the standardised frames, from the codes that the model gives them."""
    codes = model.encode(train.obs)
    decoder.to(model.device).train()
    mean, std = (value.to(model.device)[:, None, None] for value in (mean, std))
    updates = min(UPDATES, EPOCHS * len(train) // BATCH + 1)
    optimizer = torch.optim.Adam(decoder.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, updates)
    with bar("decoder for pictures", updates) as shown:
        for index in below(rng(seed, "painter"), len(train), (updates, BATCH)):
            frames = torch.from_numpy(np.array(train.obs[np.sort(index)])).to(model.device)
            bits = codes[torch.from_numpy(np.sort(index)).to(model.device)].float()
            loss = nn.functional.mse_loss(decoder(bits), (frames.float() / 255 - mean) / std)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            shown.advance()
    decoder.eval()


def nearest_frame(model: WorldModel, train: Transitions) -> Painter:
    """Each code as the training frame whose code differs in the fewest bits."""
    known = pack(model.encode(train.obs))

    def paint(words: Tensor) -> np.ndarray:
        nearest = [int(hamming(known, code).argmin()) for code in words.split(1)]
        return np.stack([np.asarray(train.obs[index]) for index in nearest])

    return paint
