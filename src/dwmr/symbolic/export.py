"""A symbolic model of any world model, and the folder it is exported to."""

from __future__ import annotations

import importlib.util
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dwmr.data.transitions import Transitions
from dwmr.files import atomic_folder
from dwmr.models.callables import Encode, Predict, as_bits
from dwmr.symbolic import fast_downward, pddl
from dwmr.symbolic.cell_pictures import bits_png, symbols_png
from dwmr.symbolic.cells import Layout
from dwmr.symbolic.code_samples import fidelity, sample_codes
from dwmr.symbolic.listing import BITS_PICTURE, SYMBOLS_PICTURE, listing
from dwmr.symbolic.rules import BitRules, CellRules, fit
from dwmr.symbolic.saliency import FRAMES, boxes, influence
from dwmr.worlds.registry import find_world
from dwmr.worlds.tasks import Task

DOMAIN, PROBLEM, RULES, FIDELITY, SOLUTION = "domain.pddl", "problem.pddl", "rules.md", "fidelity.json", "solution.json"
EXPORTED = (DOMAIN, PROBLEM, RULES, FIDELITY, SOLUTION, SYMBOLS_PICTURE, BITS_PICTURE)
PICTURED = 400  # frames from which the pictures are cut

log = logging.getLogger("dwmr")


@dataclass(frozen=True)
class SymbolicModel:
    """Rules, how closely they follow the predictor on held-out codes, and the names of the actions."""

    rules: CellRules | BitRules
    fidelity: dict[str, Any]
    actions: Sequence[str]

    @property
    def domain(self) -> str:
        return pddl.domain(self.rules, self.actions)

    def problem(self, start: np.ndarray, goal: np.ndarray, name: str = "problem") -> str:
        return pddl.problem(self.rules, start, goal, name)


def learn_symbols(
    encode: Encode,
    predict: Predict,
    train: Transitions,
    test: Transitions,
    *,
    actions: Sequence[str],
    layout: Layout | None = None,
) -> SymbolicModel:
    """Fit rules to the codes that a model encounters in ``train``, and judge them on those in ``test``.

    The rules are shared by the cells of the layout; without a layout, or if its cells show too many symbols, each bit
    gets its own.
    """
    rules = fit(sample_codes(encode, predict, train), train.n_actions, layout)
    judged = fidelity(rules, sample_codes(encode, predict, test), encode, test)
    form = "cells" if isinstance(rules, CellRules) else "bits"
    return SymbolicModel(rules, {"form": form, "rules": rules.size, **judged}, actions)


@dataclass(frozen=True, eq=False)
class Problem:
    """Images uint8 (C, H, W) of the start and the goal; the planning task of a world that they show, if any."""

    name: str
    start: np.ndarray
    goal: np.ndarray
    task: Task | None = None

    @classmethod
    def of_world(cls, name: str, number: int) -> Problem:
        """A planning task of a world, such as a level of IceSlider."""
        return cls.of_task(find_world(name).task(number))

    @classmethod
    def of_task(cls, task: Task) -> Problem:
        """A planning task; the problem's name is the start of the task's name, such as ``level-2000``."""
        name = task.name.partition(",")[0].replace(" ", "-")
        return cls(name, task.paint(task.start), task.paint(task.goal), task)

    def codes(self, encode: Encode) -> np.ndarray:
        """The codes of start and goal, bool (2, K)."""
        return as_bits(encode(np.stack([self.start, self.goal])))


def solve(
    model: SymbolicModel, encode: Encode, predict: Predict, problem: Problem, seconds: float = fast_downward.SECONDS
) -> dict[str, Any]:
    """What Fast Downward finds, whether the predictor agrees, and whether the plan solves the task in its world."""
    start, goal = problem.codes(encode)
    answer = fast_downward.solve(model.domain, model.problem(start, goal, problem.name), seconds=seconds)
    found: dict[str, Any] = {"outcome": answer.outcome, "plan": None, "seconds": answer.seconds}
    if answer.plan is None:
        return found
    plan = [list(model.actions).index(name) for name in answer.plan]
    code: Any = encode(problem.start[None])
    for action in plan:
        code = predict(code, np.array([action]))
    found |= {"plan": list(answer.plan), "length": len(plan)}
    found["predictor_agrees"] = bool((as_bits(code)[0] == goal).all())
    if problem.task is not None:
        found |= {"reached": problem.task.solved_by(plan), "shortest": problem.task.optimal}
    return found


def export_pddl(
    model: SymbolicModel,
    encode: Encode,
    train: Transitions,
    folder: str | Path,
    *,
    problem: Problem | None = None,
    solution: dict[str, Any] | None = None,
    overwrite: bool = False,
    seed: int = 0,
) -> list[str]:
    """Write everything into a new folder, or with ``overwrite`` in place of an old one; the names of the files."""
    images = np.asarray(train.obs[:: -(-len(train) // PICTURED)])
    size = train.image_shape[1:]
    rules = model.rules
    shares = influence(encode, images[:FRAMES], seed=seed) if isinstance(rules, BitRules) else None
    pixels = None if shares is None else boxes(shares, *size)
    pictures: dict[str, bytes] = {}
    if importlib.util.find_spec("matplotlib") is None:
        log.info("no picture beside the rules: it needs matplotlib; pip install 'dwmr[report]'")
    elif isinstance(rules, CellRules):
        pictures[SYMBOLS_PICTURE] = symbols_png(rules.symbols, images, as_bits(encode(images)))
    elif shares is not None and pixels is not None:
        pictures[BITS_PICTURE] = bits_png(shares, pixels, *size)
    texts = {
        DOMAIN: model.domain,
        RULES: listing(rules, model.actions, train.image_shape, model.fidelity, pixels, bool(pictures)),
        FIDELITY: json.dumps(model.fidelity, indent=2) + "\n",
    }
    if problem is not None:
        start, goal = problem.codes(encode)
        texts[PROBLEM] = model.problem(start, goal, problem.name)
    if solution is not None:
        texts[SOLUTION] = json.dumps(solution, indent=2) + "\n"
    files = pictures | {name: text.encode() for name, text in texts.items()}
    with atomic_folder(folder, overwrite=overwrite) as fresh:
        for name, content in files.items():
            (fresh / name).write_bytes(content)
    return sorted(files)
