"""Pictures of plans: real frames above imagined codes, which a decoder draws.

For a model without a decoder one is fitted afterwards, on frozen codes. The model itself stays as it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from dwmr.data.transitions import Transitions
from dwmr.files import atomic_write_bytes
from dwmr.models.decoders import DECODERS, generic_decoder
from dwmr.models.world_model import WorldModel, image_statistics
from dwmr.planning.packing import unpack
from dwmr.plotting.pictures import figure_png, image_axes, to_picture
from dwmr.progress import bar
from dwmr.seeding import below, rng

MAX_UPDATES, MAX_EPOCHS, BATCH, FRAMES = 600, 10, 64, 10_000
COLUMNS = 12  # frames side by side


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


def fit_decoder(model: WorldModel, name: str, train: Transitions, seed: int = 0) -> dict[str, Tensor]:
    """Fit a decoder to the codes of standardised training frames: its weights, and their ``mean`` and ``std``."""
    train = train[:FRAMES]
    codes = model.encode(train.obs)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng(seed, "painter weights").integers(2**63)))
        decoder = decoder_network(model, name)
    drawn = with_decoder(model, decoder, *image_statistics(np.asarray(train.obs[:2000])))
    updates = min(MAX_UPDATES, MAX_EPOCHS * len(train) // BATCH + 1)
    optimizer = torch.optim.Adam(decoder.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, updates)
    with bar("decoder for pictures", updates) as shown:
        for index in below(rng(seed, "painter"), len(train), (updates, BATCH)):
            index.sort()
            frames = torch.from_numpy(np.array(train.obs[index])).to(model.device)
            bits = codes[torch.from_numpy(index).to(model.device)].float()
            loss = nn.functional.mse_loss(decoder(bits), drawn.normalize(frames))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            shown.advance()
    return {"mean": drawn.mean, "std": drawn.std, **decoder.state_dict()}


@dataclass(frozen=True)
class Strip:
    """A plan of T actions as it is shown: their names, T + 1 real frames uint8 (C, H, W), None where none was seen, and
    T + 1 imagined codes, int64 (T + 1, W)."""

    title: str
    actions: Sequence[str]
    real: Sequence[np.ndarray | None]
    codes: Tensor


def save_strip(strip: Strip, painter: WorldModel, path: Path, note: str) -> None:
    """Write a strip as a PNG, its codes drawn by a model with a decoder; ``note`` says by which."""
    imagined = painter.decode(unpack(strip.codes, painter.bits)).cpu().numpy()
    rows, columns = -(-len(imagined) // COLUMNS), min(COLUMNS, len(imagined))
    figure, axes = image_axes(2 * rows, columns, 1.05 * columns + 0.5, 2.45 * rows + 0.5)
    for step, (real, drawn) in enumerate(zip(strip.real, imagined, strict=True)):
        row, column = 2 * (step // COLUMNS), step % COLUMNS
        above, below = axes[row, column], axes[row + 1, column]
        if real is not None:
            above.imshow(to_picture(real), interpolation="nearest")
        below.imshow(to_picture(drawn), interpolation="nearest")
        above.set_title("start" if step == 0 else f"{step}: {strip.actions[step - 1]}", fontsize=8)
    figure.suptitle(f"{strip.title}\nabove: real frames; below: {note}", fontsize=8)
    atomic_write_bytes(path, figure_png(figure, dpi=80))
