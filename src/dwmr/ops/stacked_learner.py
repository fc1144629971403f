"""A learner of many runs: the same schemes drive it, on tensors with a leading run axis."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from dwmr.config import Hyper
from dwmr.ops.optimizer import FlatAdam, flatten
from dwmr.ops.stacked import stack
from dwmr.training.objectives import Objective
from dwmr.training.schemes import Learner


class StackedLearner(Learner):
    """S learners as one, made from their state; `write` gives it back, and in between they are out of date."""

    def __init__(
        self, learners: Sequence[Learner], objective: Objective, hyper: Hyper, device: torch.device, fused: bool
    ) -> None:
        models = [learner.model for learner in learners]
        self.objective, self.noisy_predictor = objective, learners[0].noisy_predictor
        self.runs, self.twins = len(learners), {}
        encoder = stack([model.encoder for model in models], fused).to(device)
        predictor = stack([model.predictor for model in models], fused).to(device)
        decoders = [model.decoder for model in models if model.decoder is not None]
        decoder = stack(decoders, fused).to(device) if decoders else None
        self.networks = {"encoder": encoder, "predictor": predictor} | ({"decoder": decoder} if decoder else {})
        self.model: Any = SimpleNamespace(encoder=encoder, predictor=predictor, decoder=decoder)
        self.slow_network = stack([learner.target for learner in learners], fused).to(device)
        self.target: Any = self.slow_network.requires_grad_(False).eval()
        assert isinstance(hyper.lr, Tensor)
        of_codes = [*encoder.parameters(), *(decoder.parameters() if decoder else ())]
        self.codes_optimizer: Any = FlatAdam(of_codes, hyper.lr, fused)
        self.predictor_optimizer: Any = FlatAdam(list(predictor.parameters()), hyper.lr, fused)
        self.target_flat = flatten(list(self.slow_network.parameters()))
        self.encoder_flat = self.codes_optimizer.flat[:, : self.target_flat.shape[1]]
        self.buffers = list(zip(self.slow_network.buffers(), encoder.buffers()))
        self._read_optimizers(learners)

    def train(self, mode: bool = True) -> None:
        for network in self.networks.values():
            network.train(mode)

    @torch.no_grad()
    def move_target(self, tau: float | Tensor) -> None:
        assert isinstance(tau, Tensor)
        self.target_flat.lerp_(self.encoder_flat, (1 - tau)[:, None])
        for kept, current in self.buffers:
            kept.copy_(current)

    def state(self) -> list[Tensor]:
        """Every tensor that an update changes."""
        optimizers = (self.codes_optimizer, self.predictor_optimizer)
        tensors = [tensor for o in optimizers for tensor in (o.flat, o.mean, o.square, o.steps)]
        running = [buffer for network in self.networks.values() for buffer in network.buffers()]
        return [*tensors, self.target_flat, *running, *(kept for kept, _ in self.buffers)]

    def finite(self) -> Tensor:
        """Whether all weights of each run are finite, bool (S,)."""
        flats = (self.codes_optimizer.flat, self.predictor_optimizer.flat)
        return torch.stack([torch.isfinite(flat).all(1) for flat in flats]).all(0)

    def write(self, learners: Sequence[Learner]) -> None:
        """Bring the learners up to date: weights, buffers, target, moments."""
        for role, network in self.networks.items():
            network.write([getattr(learner.model, role) for learner in learners])
        self.slow_network.write([learner.target for learner in learners])
        for name, ours, sources in self._optimizers():
            steps = ours.steps.float().cpu()
            mean, square = (ours.parts(flat.cpu()) for flat in (ours.mean, ours.square))
            for run, learner in enumerate(learners):
                if not steps[run]:
                    continue
                theirs = getattr(learner, name)
                for place, (role, source) in enumerate(sources):
                    parameter = getattr(learner.model, role).get_parameter(source)
                    theirs.state[parameter] = {
                        "step": steps[run].clone(),
                        "exp_avg": mean[place][run].clone(),
                        "exp_avg_sq": square[place][run].clone(),
                    }

    @torch.no_grad()
    def _read_optimizers(self, learners: Sequence[Learner]) -> None:
        for name, ours, sources in self._optimizers():
            mean, square = ours.parts(ours.mean), ours.parts(ours.square)
            for run, learner in enumerate(learners):
                for place, (role, source) in enumerate(sources):
                    state = getattr(learner, name).state.get(getattr(learner.model, role).get_parameter(source))
                    if state:
                        ours.steps[run] = float(state["step"])
                        mean[place][run].copy_(state["exp_avg"])
                        square[place][run].copy_(state["exp_avg_sq"])

    def _optimizers(self) -> list[tuple[str, FlatAdam, list[tuple[str, str]]]]:
        """Each optimizer with its name, and for each of its parameters the network and the name it has there."""

        def sources(*roles: str) -> list[tuple[str, str]]:
            networks = self.networks
            return [
                (role, networks[role].sources[name])
                for role in roles
                if role in networks
                for name, _ in nn.Module.named_parameters(networks[role])
            ]

        return [
            ("codes_optimizer", self.codes_optimizer, sources("encoder", "decoder")),
            ("predictor_optimizer", self.predictor_optimizer, sources("predictor")),
        ]
