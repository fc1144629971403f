"""Drawing imagined codes with a small decoder that is fitted afterwards, on frozen codes.

The model itself stays as it is; it was trained without a decoder.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from dwmr.data.transitions import Transitions
from dwmr.models.decoders import DECODERS, generic_decoder
from dwmr.models.world_model import WorldModel, image_statistics
from dwmr.planning.packing import unpack
from dwmr.progress import bar
from dwmr.seeding import below, rng

MAX_UPDATES, MAX_EPOCHS, BATCH, FRAMES = 600, 10, 64, 10_000


@dataclass(frozen=True)
class Painter:
    """Codes int64 (N, W) to images uint8 (N, C, H, W), drawn by a model's decoder; ``source`` says whose it is."""

    model: WorldModel
    source: str

    def __call__(self, words: Tensor) -> np.ndarray:
        return self.model.decode(unpack(words, self.model.bits)).cpu().numpy()


def decoder_network(model: WorldModel, name: str) -> nn.Module:
    """An untrained decoder by name; names of a user's own networks stand for the generic one."""
    return DECODERS.get(name, generic_decoder)(model.image_shape, model.bits)


def with_decoder(model: WorldModel, decoder: nn.Module, mean: Tensor, std: Tensor) -> WorldModel:
    """The same networks with a decoder of images standardised by ``mean`` and ``std`` (C,)."""
    drawn = WorldModel(
        model.encoder, model.predictor, decoder,
        image_shape=model.image_shape, n_actions=model.n_actions, bits=model.bits, mean=mean, std=std,
    )  # fmt: skip
    return drawn.to(model.device)


def fit_painter(model: WorldModel, decoder: str, train: Transitions, seed: int = 0) -> dict[str, Tensor]:
    """Fit a decoder to the codes of the training frames: its weights, and the ``mean`` and ``std`` of its images.

    The loss is the squared error of the standardised frames.
    """
    train = train[:FRAMES]
    codes = model.encode(train.obs)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng(seed, "painter weights").integers(2**63)))
        network = decoder_network(model, decoder)
    drawn = with_decoder(model, network, *image_statistics(np.asarray(train.obs[:2000])))
    network.train()
    updates = min(MAX_UPDATES, MAX_EPOCHS * len(train) // BATCH + 1)
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, updates)
    with bar("decoder for pictures", updates) as shown:
        for index in below(rng(seed, "painter"), len(train), (updates, BATCH)):
            index.sort()
            frames = torch.from_numpy(np.array(train.obs[index])).to(model.device)
            bits = codes[torch.from_numpy(index).to(model.device)].float()
            loss = nn.functional.mse_loss(network(bits), drawn.normalize(frames))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            shown.advance()
    return {"mean": drawn.mean, "std": drawn.std, **network.state_dict()}
