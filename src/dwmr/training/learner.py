"""A learner: everything that an update changes, for one run or for several that are trained as one program."""

import copy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dwmr.config import Hyper
from dwmr.data.batches import Batch
from dwmr.models.bits import binary_concrete, straight_through, threshold
from dwmr.models.run_folder import load_weights, part
from dwmr.models.world_model import WorldModel
from dwmr.training.objectives import Codes, LaterCodes, Objective
from dwmr.training.stacking import Stack, StackedAdam, own_memory

OPTIMIZERS = ("codes_optimizer", "predictor_optimizer")


class RunState:
    """One run in training: its model, its target encoder and its optimizers.

    Encoder and decoder share one Adam and the predictor has another, so that a step of the predictor alone leaves the
    rest untouched, including its moments. The learning rate is a tensor that the schedule writes to.
    """

    def __init__(self, model: WorldModel, lr: Tensor) -> None:
        self.model, self.lr = model, lr
        self.target = copy.deepcopy(model.encoder).requires_grad_(False).eval()
        codes = [*model.encoder.parameters(), *(model.decoder.parameters() if model.decoder else ())]
        settings: dict[str, Any] = {"lr": lr, "fused": True, "capturable": model.device.type == "cuda"}
        self.codes_optimizer = torch.optim.Adam(codes, **settings)
        self.predictor_optimizer = torch.optim.Adam(model.predictor.parameters(), **settings)

    def tensors(self) -> dict[str, Tensor]:
        """All of it, by the names under which a checkpoint stores it."""
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        tensors |= {f"target.{name}": value for name, value in self.target.state_dict().items()}
        for label in OPTIMIZERS:
            for index, state in getattr(self, label).state_dict()["state"].items():
                tensors |= {f"{label}.{index}.{name}": value for name, value in state.items()}
        return tensors

    def load_tensors(self, tensors: Mapping[str, Tensor], source: str | Path) -> None:
        """The inverse of `tensors`, read from the run folder ``source``."""
        load_weights(self.model, tensors, "model.", source)
        load_weights(self.target, tensors, "target.", source)
        for label in OPTIMIZERS:
            optimizer = getattr(self, label)
            for index, parameter in enumerate(optimizer.param_groups[0]["params"]):
                stored = part(tensors, f"{label}.{index}.")
                if stored:
                    optimizer.state[parameter] = {name: each.to(self.model.device) for name, each in stored.items()}

    def own_memory(self) -> None:
        """Leave the tensors that a stack shares: stock kernels may rely on how tensors of their own are aligned."""
        for network in (self.model, self.target):
            own_memory(network)
        for label in OPTIMIZERS:
            for state in getattr(self, label).state.values():
                state.update({name: value.clone() for name, value in state.items()})

    def is_finite(self) -> bool:
        return bool(torch.isfinite(torch.cat([each.detach().flatten() for each in self.model.parameters()])).all())


class Learner:
    """S ≥ 1 runs of one architecture and objective, as the schemes see them.

    One run calls its own modules on tensors (N, …): this is the reference, and no run axis enters its arithmetic.
    Several runs call theirs through `torch.vmap`, on tensors (S, N, …) and hyperparameters (S,).
    """

    def __init__(self, runs: Sequence[RunState], objective: Objective, lr: Tensor) -> None:
        self.runs, self.objective = list(runs), objective
        first = self.runs[0]
        roles = ("encoder", "predictor") if first.model.decoder is None else ("encoder", "decoder", "predictor")
        self.networks: dict[str, Any] = {"target": first.target, **{role: getattr(first.model, role) for role in roles}}
        self.codes_optimizer: Any = first.codes_optimizer
        self.predictor_optimizer: Any = first.predictor_optimizer
        if len(self.runs) > 1:
            stacks = {role: Stack([getattr(run.model, role) for run in self.runs]) for role in roles}
            self.networks = {"target": Stack([run.target for run in self.runs]), **stacks}
            predictor = stacks.pop("predictor")
            of_codes, of_predictors = ([getattr(run, label) for run in self.runs] for label in OPTIMIZERS)
            self.codes_optimizer = StackedAdam(list(stacks.values()), of_codes, lr)
            self.predictor_optimizer = StackedAdam([predictor], of_predictors, lr)

    def each(self, function: Callable[..., Any], *inputs: Any) -> Any:
        """``function``, written for one run, of the inputs of every run."""
        return function(*inputs) if len(self.runs) == 1 else torch.vmap(function)(*inputs)

    def probabilities(self, images: Tensor, hyper: Hyper) -> tuple[Tensor, Tensor]:
        """Logits and bit probabilities by the online encoder."""
        logits = self.networks["encoder"](images)
        return logits, self.each(lambda x, temperature: torch.sigmoid(x / temperature), logits, hyper.temperature)

    @torch.no_grad()
    def target_bits(self, images: Tensor, second_views: Tensor | None = None) -> Tensor:
        """Bits by the target encoder, on its running statistics; with a second view of each state, of both together."""
        logits = self.networks["target"](images)
        if second_views is not None:
            logits = logits + self.networks["target"](second_views)
        return threshold(torch.sigmoid(logits))

    def noised(self, logits: Tensor, probs: Tensor, batch: Batch, hyper: Hyper) -> Tensor:
        """Binary Concrete samples if the objective asks for them, else the probabilities."""
        if not self.objective.noise or batch.noise is None:
            return probs
        return self.each(binary_concrete, logits, batch.noise, hyper.noise, hyper.temperature)

    def predict(self, codes: Tensor, actions: Tensor) -> Tensor:
        return self.networks["predictor"](codes, actions)

    def predict_later(self, logits: Tensor, batch: Batch, later_bits: list[Tensor]) -> LaterCodes:
        """On from the logits of the next bits, which are made bits again before each action."""
        steps = []
        for step, bits in zip(batch.later, later_bits, strict=True):
            logits = self.predict(straight_through(torch.sigmoid(logits)), step.actions)
            steps.append((logits, bits, step.seen))
        return tuple(steps)

    def decode(self, codes: Tensor) -> Tensor | None:
        return self.networks["decoder"](codes) if "decoder" in self.networks else None

    def evaluate(self, codes: Codes, hyper: Hyper) -> tuple[Tensor, dict[str, Tensor]]:
        """The objective's weighted sum, and each term unweighted."""
        if len(self.runs) == 1:
            return self.objective.evaluate(codes, hyper)
        given = {name: value for name, value in vars(codes).items() if value is not None and value != ()}
        return torch.vmap(lambda codes, hyper: self.objective.evaluate(Codes(**codes), Hyper(**hyper)))(
            given, vars(hyper)
        )

    def descend(self, loss: Tensor, *optimizers: Any) -> None:
        """One optimizer step on a loss; the losses of several runs are summed, each reaches its own weights only."""
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss.sum().backward()
        for optimizer in optimizers:
            optimizer.step()

    @torch.no_grad()
    def move_target(self, tau: float | Tensor) -> None:
        """φ' ← τ φ' + (1 − τ) φ, after every optimizer step; buffers (running statistics) are copied."""
        slow, fast = self.networks["target"], self.networks["encoder"]
        if len(self.runs) > 1:
            slow.flat.lerp_(fast.flat, torch.as_tensor(1 - tau)[:, None])
            pairs = zip(slow.buffers.values(), fast.buffers.values(), strict=True)
        else:
            for behind, ahead in zip(slow.parameters(), fast.parameters(), strict=True):
                behind.lerp_(ahead, 1 - tau)
            pairs = zip(slow.buffers(), fast.buffers(), strict=True)
        for kept, current in pairs:
            kept.copy_(current)

    def state(self) -> list[Tensor]:
        """Every tensor that an update changes."""
        networks = [module for run in self.runs for module in (run.model, run.target)]
        optimizers = [getattr(run, label) for run in self.runs for label in OPTIMIZERS]
        moments = [each for optimizer in optimizers for state in optimizer.state.values() for each in state.values()]
        return [each for module in networks for each in (*module.parameters(), *module.buffers())] + moments
