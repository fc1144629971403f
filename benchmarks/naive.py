"""The loop one would write first: eager, a loader that touches every sample, a dense masked coskewness, the encoder
evaluated anew in each of the two steps, a float read back from every term. The other paths are measured against it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from dwmr.config import Config
from dwmr.data.transitions import Transitions
from dwmr.models.world_model import WorldModel


class Samples(Dataset[tuple[Tensor, Tensor, Tensor]]):
    def __init__(self, transitions: Transitions, model: WorldModel) -> None:
        self.transitions = transitions
        self.mean, self.std = model.mean.cpu()[:, None, None], model.std.cpu()[:, None, None]

    def __len__(self) -> int:
        return len(self.transitions)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, Tensor]:
        t = self.transitions
        first, second = (torch.tensor(images[index]).float() / 255 for images in (t.obs, t.next_obs))
        action = F.one_hot(torch.tensor(int(t.actions[index])), t.n_actions).float()
        return (first - self.mean) / self.std, action, (second - self.mean) / self.std


def dense_coskewness(probs: Tensor) -> Tensor:
    samples, bits = probs.shape
    standard = (probs - probs.mean(0)) / (probs.std(0) + 1e-6)
    moments = torch.einsum("ni,nj,nk->ijk", standard, standard, standard) / samples
    i = torch.arange(bits, device=probs.device)
    apart = i[:, None] != i[None, :]
    distinct = apart[:, :, None] & apart[None, :, :] & apart[:, None, :]
    return (moments.abs() * distinct).sum() / distinct.sum()


def losses(probs: Tensor, predicted: Tensor, next_bits: Tensor, config: Config) -> dict[str, Tensor]:
    hyper, (samples, bits) = config.hyper, probs.shape
    standard = (probs - probs.mean(0)) / (probs.std(0) + 1e-6)
    correlation = standard.T @ standard / (samples - 1)
    apart = ~torch.eye(bits, dtype=torch.bool, device=probs.device)
    change = (probs - next_bits).abs()
    flipped = (change * (change > 0.5)).sum(1) / (0.75 * bits)
    middle, half = (hyper.low + hyper.high) / (2 * bits), (hyper.high - hyper.low) / (2 * bits)
    return {
        "pred": F.binary_cross_entropy(predicted, next_bits),
        "var": hyper.var * F.relu(hyper.gamma - (probs.var(0) + 1e-6).sqrt()).mean(),
        "cor": hyper.cor * correlation[apart].abs().mean(),
        "cos": hyper.cos * dense_coskewness(probs),
        "loc": hyper.loc * F.relu((flipped - middle).abs() - half).square().mean(),
    }


def train_updates(
    model: WorldModel, target: nn.Module, config: Config, transitions: Transitions, updates: int
) -> float:
    """The given number of two-step updates; the last sum of the losses."""
    device = model.device
    encoder, predictor = model.encoder.train(), model.predictor.train()
    optimizer = torch.optim.Adam([*encoder.parameters(), *predictor.parameters()], lr=float(config.hyper.lr))
    tau = float(config.hyper.tau)

    def move_target() -> None:
        for slow, fast in zip(target.parameters(), encoder.parameters()):
            slow.data = tau * slow.data + (1 - tau) * fast.data

    loader = DataLoader(Samples(transitions, model), batch_size=config.batch_size, shuffle=True, drop_last=True)
    logged = 0.0
    for update, batch in enumerate(loader):
        if update == updates:
            break
        images, actions, next_images = (part.to(device) for part in batch)
        with torch.no_grad():
            next_bits = (torch.sigmoid(target(next_images)) >= 0.5).float()
            bits = (torch.sigmoid(encoder(images)) >= 0.5).float()
        loss = F.binary_cross_entropy(torch.sigmoid(predictor(bits, actions)), next_bits)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        move_target()
        probs = torch.sigmoid(encoder(images))
        terms = losses(probs, torch.sigmoid(predictor(probs, actions)), next_bits, config)
        total = torch.stack(list(terms.values())).sum()
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        move_target()
        logged = sum(term.item() for term in terms.values())
    return logged
