"""Techniques that are options, or could have been: each added to a strong model, beside the same model without.

    python experiments/techniques.py

    steps 2, steps 3    prediction further ahead, from bits that were predicted (`steps`)
    sharper             the temperature of the probabilities falls by 5% an epoch (`temperature_factor`)
    inverse             which action was taken must be told from the two codes, by a small network of its own
    queue               moments over the last four minibatches; those before the present one lend no gradient
    temporal variance   a bit's change from frame to frame should reach a deviation of 0.2

The last three are terms of one's own. Judged on the validation split; what is in the results file is not repeated.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections import deque
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import dwmr
from dwmr.config import Config, Hyper
from dwmr.data.collect import cached_benchmark
from dwmr.evaluation.evaluate import evaluate_many
from dwmr.files import atomic_write_json
from dwmr.models.encoders import CELLS
from dwmr.reproduce.strong import STRONG
from dwmr.training.losses import EPS
from dwmr.training.objectives import Codes, Objective, Term, objective_of

OPTIONS: dict[str, dict[str, Any]] = {
    "none": {},
    "steps 2": {"steps": 2},
    "steps 3": {"steps": 3},
    "sharper": {"temperature_factor": 0.95},
}
OWN_TERMS = ("inverse", "queue", "temporal variance")


class Inverse:
    """How badly the action is told from the encodings before and after it. The network that tells learns on codes
    without gradient, then lends the codes its gradient."""

    def __init__(self, width: int = 128) -> None:
        self.width = width
        self.network: nn.Module | None = None

    def __call__(self, codes: Codes, hyper: Hyper) -> Tensor:
        assert codes.actions is not None
        assert codes.next_probs is not None
        pair, action = torch.cat([codes.probs, codes.next_probs], -1), codes.actions.argmax(-1)
        if self.network is None:
            layers = nn.Linear(pair.shape[-1], self.width), nn.ReLU(), nn.Linear(self.width, codes.actions.shape[-1])
            self.network = nn.Sequential(*layers).to(pair)
            self.optimizer = torch.optim.Adam(self.network.parameters(), lr=1e-3)
        self.optimizer.zero_grad()
        F.cross_entropy(self.network(pair.detach()), action).backward()
        self.optimizer.step()
        return F.cross_entropy(self.network(pair), action)


class Queue:
    """Terms of the moments, over the codes of several minibatches."""

    def __init__(self, minibatches: int = 4) -> None:
        self.past: deque[Codes] = deque(maxlen=minibatches - 1)
        self.seen: tuple[Codes, Codes] | None = None

    def over(self, term: Term) -> Term:
        return lambda codes, hyper: term(self.longer(codes), hyper)

    def longer(self, codes: Codes) -> Codes:
        if self.seen is None or self.seen[0] is not codes:
            assert codes.next_probs is not None
            names = ("probs", "next_probs", "predicted")
            whole = {
                name: torch.cat([getattr(codes, name), *(getattr(old, name) for old in self.past)]) for name in names
            }
            self.seen = codes, dataclasses.replace(codes, **whole)
            self.past.append(dataclasses.replace(codes, **{name: getattr(codes, name).detach() for name in names}))
        return self.seen[1]


def temporal_variance(codes: Codes, hyper: Hyper) -> Tensor:
    assert codes.next_probs is not None
    change = (codes.next_probs - codes.probs).square().mean(-2) / 2
    return F.relu(0.2 - (change + EPS).sqrt()).mean(-1)


def objective_with(technique: str, config: Config, cells: int = 1) -> Objective:
    family = dataclasses.replace(objective_of(config, cells), looks=True)  # all of them look at the next images too
    if technique == "inverse":
        return family.adding("inverse", Inverse(), weight=1.0)
    if technique == "temporal variance":
        return family.adding("temporal", temporal_variance, weight=2.0)
    queue = Queue()
    names = ("var", "cor", "cross_var", "cross_cor", "agree")
    moments = {name: queue.over(family.terms[name]) for name in names if name in family.terms}
    return dataclasses.replace(family, terms={**family.terms, **moments})


def trained(technique: str, config: Config, data: dwmr.Splits, seeds: list[int], device: str) -> list[dwmr.Run]:
    if technique in OPTIONS:
        changed = config.replace(**OPTIONS[technique])
        runs = dwmr.train_many(changed, train=data.train, seeds=seeds, device=device, progress=False)
        return [run for run in runs if isinstance(run, dwmr.Run)]
    cells = CELLS[config.encoder](data.train.image_shape) if config.by_cell else 1
    return [
        dwmr.train(
            config,
            train=data.train,
            seed=seed,
            device=device,
            objective=objective_with(technique, config, cells),
            progress=False,
        )
        for seed in seeds
    ]


def figures(runs: list[dwmr.Run], data: dwmr.Splits) -> list[dict[str, float]]:
    assert data.val is not None
    examined = evaluate_many([run.model for run in runs], train=data.train, test=data.val, rollout=data.rollout)
    return [
        {
            "encoding": found["encoding"]["f1_true_labels"],
            "imagination": found["imagination"]["f1_true_labels"],
            "board_imagination": found["imagination"]["board_accuracy"],
            "exact_next": found["codes"]["exact_next"],
            "same_code": found["codes"]["same_code"],
            "f1_100": found["rollout"]["100"]["f1"],
            "exact_100": found["rollout"]["100"]["exact"],
        }
        for found in (each.figures for each in examined)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("experiments/results/techniques.json"))
    parser.add_argument("--to", default="strong,8puzzle", metavar="ROW,COLUMN", help="a cell of the strong table")
    parser.add_argument("--only", help="techniques, separated by commas")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, help="instead of the preset's")
    parser.add_argument("--device", default="auto")
    chosen = parser.parse_args()
    (cell,) = STRONG.choose([chosen.to])
    config, name = cell.config, f"{cell.benchmark}/{cell.row.name}"
    config = config.replace(epochs=chosen.epochs) if chosen.epochs else config
    data = dwmr.load_splits(cached_benchmark(config.benchmark))
    wanted = chosen.only.split(",") if chosen.only else [*OPTIONS, *OWN_TERMS]
    for technique in wanted:
        if technique not in (*OPTIONS, *OWN_TERMS):
            parser.error(f"unknown technique {technique!r}; there are {', '.join((*OPTIONS, *OWN_TERMS))}")
    for technique in wanted:
        results = json.loads(chosen.out.read_text()) if chosen.out.exists() else {}
        entry = results.setdefault(name, {})
        if technique in entry:
            continue
        started = time.perf_counter()
        runs = trained(technique, config, data, list(range(chosen.seeds)), chosen.device)
        seconds = time.perf_counter() - started
        entry[technique] = {"epochs": config.epochs, "seconds": seconds, "validation": figures(runs, data)}
        atomic_write_json(chosen.out, results)
        print(technique, json.dumps(entry[technique]), flush=True)


if __name__ == "__main__":
    main()
