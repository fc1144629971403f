"""Runs whole epochs of a learner: update after update as it reads, or recorded once as a CUDA graph and replayed."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dwmr import ops
from dwmr.config import HYPER_NAMES, Hyper
from dwmr.data.batches import EpochPlan, Loader
from dwmr.data.transitions import Transitions
from dwmr.ops.capture import capture, undone
from dwmr.ops.precision import products
from dwmr.training.learner import Learner
from dwmr.training.schemes import Scheme

log = logging.getLogger("dwmr")


@dataclass(frozen=True)
class EpochFigures:
    """What one run did in an epoch of U updates, on the CPU."""

    terms: Tensor  # (U, T), in the objective's order
    ones: Tensor  # (K,): how often each bit was 1
    flips: float  # bits flipped by an action, on average
    finite: bool  # whether every weight is still a finite number


class EpochRunner:
    """Drives a learner through epochs: ``start``, one ``step`` per update, ``figures``. After the first ``start``,
    ``prepare`` records the update.

    An update reads its place in the epoch from a counter on the device and adds its figures to buffers there, so it can
    be recorded: what changes over a run (weights of the terms, learning rate, τ, γ, …) lies in the tensors of
    ``hyper``, and schedules never record again. With ``fast`` updates use accelerated kernels and, on a GPU, are
    recorded; without it they are the reference. ``codes``: the encoder of the only run is finished, and the loader
    gives its codes for images. Runners that go side by side check their validation data one after the other, in the
    memory of one ``pool`` of CUDA graphs.
    """

    def __init__(
        self,
        learner: Learner,
        scheme: Scheme,
        loader: Loader,
        hyper: Hyper,
        *,
        fast: bool,
        codes: bool = False,
        pool: Any = None,
    ) -> None:
        self.learner, self.scheme, self.loader, self.hyper = learner, scheme, loader, hyper
        self.fast, self.codes, self.pool = fast, codes, pool
        self.device = loader.device
        self.recorded = fast and self.device.type == "cuda"
        self.graph: torch.cuda.CUDAGraph | None = None
        self.stream = torch.cuda.Stream(self.device) if self.recorded else None  # runners may replay side by side
        self.counter = torch.zeros(1, dtype=torch.int64, device=self.device)
        self.terms = self.ones = self.flips = torch.empty(0)
        self.checks = 0  # how often `agreement` was asked for
        self.val: list[Any] = []
        self.right = torch.empty(0)  # of each run: next codes, and bits of them, that are predicted correctly
        self.checking: torch.cuda.CUDAGraph | None = None

    def start(self, plans: Sequence[EpochPlan], values: Sequence[dict[str, float]]) -> None:
        """Begin an epoch, given each run's random choices and hyperparameters."""
        for name in HYPER_NAMES:
            tensor = getattr(self.hyper, name)
            tensor.copy_(torch.tensor([now[name] for now in values], dtype=tensor.dtype).view(tensor.shape))
        self.loader.lay_out(plans)
        runs, bits = len(plans), self.learner.runs[0].model.bits
        shape = len(plans[0]), len(self.learner.objective.terms), runs
        if self.terms.shape != shape:
            self.graph = None
            self.terms, self.ones, self.flips = (
                torch.zeros(each, device=self.device) for each in (shape, (runs, bits), (runs,))
            )
        for buffer in (self.counter, self.terms, self.ones, self.flips):
            buffer.zero_()
        for run in self.learner.runs:
            run.model.train()  # target encoders stay in evaluation mode
        if self.stream is not None:
            self.stream.wait_stream(torch.cuda.current_stream())

    def prepare(self) -> None:
        """Try an update after `start`, leaving everything as it was: record it, or just see whether it works. Raises
        RuntimeError if the networks or the objective cannot be trained this way."""
        with buffers_kept([module for run in self.learner.runs for module in (run.model, run.target)]):
            if self.recorded:
                self.graph = capture(self._update, self._state, self.counter.zero_, self.stream)
            else:
                with undone(self._state):
                    self._update()

    def step(self) -> None:
        """One update, as `prepare` recorded it if it did."""
        if self.graph is not None:
            with torch.cuda.stream(self.stream):
                self.graph.replay()
        else:
            self._update()

    def figures(self) -> list[EpochFigures]:
        """What each run did since `start`."""
        if self.stream is not None:
            torch.cuda.current_stream().wait_stream(self.stream)
        updates = len(self.terms)
        terms, ones, flips = self.terms.cpu(), (self.ones / updates).cpu(), (self.flips / updates).tolist()
        return [
            EpochFigures(terms[..., place], ones[place], flips[place], run.is_finite())
            for place, run in enumerate(self.learner.runs)
        ]

    def agreement(self, val: Transitions) -> list[dict[str, float]]:
        """Percent of the next codes (``exact_next``), and of their bits (``bits_next``), that each run predicts
        correctly. ``val`` is the same after every epoch; from the second on, a recorded check is replayed."""
        self.checks += 1
        if self.checks == 1:
            model = self.learner.runs[0].model
            frames = [model.encode(each) if self.codes else self._on_device(each) for each in (val.obs, val.next_obs)]
            self.val = [frames[0], torch.from_numpy(np.array(val.actions)).to(self.device), frames[1]]
            self.right = torch.zeros(len(self.learner.runs), 2, dtype=torch.int64, device=self.device)
        elif self.checks == 2 and self.recorded:
            try:
                self.checking = capture(self._check, lambda: [self.right], warm_ups=1, pool=self.pool)
            except RuntimeError as error:
                log.info("the validation data is checked without a recording, because recording failed: %s", str(error))
        if self.checking is not None:
            self.checking.replay()
        else:
            self._check()
        count, bits = len(val), self.learner.runs[0].model.bits
        return [
            {"exact_next": 100 * (codes / count), "bits_next": 100 * (each / (count * bits))}
            for codes, each in self.right.tolist()
        ]

    def _on_device(self, images: np.ndarray) -> np.ndarray | Tensor:
        """On a CPU they can stay on disk."""
        return images if self.device.type == "cpu" else torch.from_numpy(np.array(images)).to(self.device)

    def _check(self) -> None:
        obs, actions, next_obs = self.val
        with self._kernels():
            for run, right in zip(self.learner.runs, self.right):
                codes = (obs, next_obs) if self.codes else (run.model.encode(obs), run.model.encode(next_obs))
                right.copy_(run.model.count_right(codes[0], actions, codes[1]))

    def _update(self) -> None:
        with self._kernels():
            result = self.scheme(self.learner, self.loader.batch(self.counter), self.hyper)
        terms = torch.stack([result.terms[name] for name in self.learner.objective.terms])
        self.terms.index_copy_(0, self.counter, terms.view_as(self.terms[:1]).to(self.terms.dtype))
        self.ones += result.bits.mean(-2).view_as(self.ones)
        self.flips += (result.bits != result.next_bits).sum(-1).float().mean(-1)
        self.counter += 1

    @contextmanager
    def _kernels(self) -> Iterator[None]:
        """Accelerated kernels and TF32 in this block; nothing for the reference."""
        if not self.fast:
            yield
            return
        with ops.accelerated(), products(tf32=True):
            yield

    def _state(self) -> list[Tensor]:
        return [*self.learner.state(), self.counter, self.terms, self.ones, self.flips]


@contextmanager
def buffers_kept(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Refuse a buffer that is replaced by a new tensor in the block, which a recorded update would not follow."""
    layers = [layer for module in modules for layer in module.modules()]
    before = [dict(layer._buffers) for layer in layers]
    replaced = []
    try:
        yield
    finally:
        for layer, buffers in zip(layers, before, strict=True):
            replaced += [name for name, buffer in buffers.items() if layer._buffers[name] is not buffer]
            layer._buffers.update(buffers)
    if replaced:
        raise RuntimeError(f"the buffer {replaced[0]!r} is replaced by a new tensor; change it in place")


def new_hyper(device: torch.device, runs: int = 1) -> Hyper:
    """Hyperparameters as tensors on the device: scalars for one run, (S,) for several."""
    return Hyper(**{name: torch.zeros((runs,) if runs > 1 else (), device=device) for name in HYPER_NAMES})
