"""A symbolic model of anyone's world model, and the folder it is exported to."""

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
from dwmr.symbolic.cells import Layout
from dwmr.symbolic.code_samples import fidelity, met_codes
from dwmr.symbolic.listing import BITS_PICTURE, SYMBOLS_PICTURE, listing
from dwmr.symbolic.rules import BitRules, CellRules, fit
from dwmr.symbolic.saliency import FRAMES, boxes, influence
from dwmr.worlds import tasks
from dwmr.worlds.registry import find_world

DOMAIN, PROBLEM, RULES, FIDELITY, SOLUTION = "domain.pddl", "problem.pddl", "rules.md", "fidelity.json", "solution.json"
EXPORTED = (DOMAIN, PROBLEM, RULES, FIDELITY, SOLUTION, SYMBOLS_PICTURE, BITS_PICTURE)
PICTURED = 400  # frames from which the pictures are cut

log = logging.getLogger("dwmr")


@dataclass(frozen=True)
class SymbolicModel:
    """Rules, how well they stand in for the predictor on held-out codes, and what the actions are called."""

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
    form: str = "auto",
) -> SymbolicModel:
    """Rules fitted on the codes that the model meets in ``train``, judged on those that it meets in ``test``."""
    rules = fit(met_codes(encode, predict, train), train.n_actions, layout, form)
    judged = fidelity(rules, met_codes(encode, predict, test), encode, test)
    return SymbolicModel(rules, {"form": _form(rules), "rules": rules.size, **judged}, actions)


@dataclass(frozen=True, eq=False)
class Task:
    """Images uint8 (C, H, W) of the start and the goal; the planning task of a world that they show, if any."""

    name: str
    start: np.ndarray
    goal: np.ndarray
    level: tasks.Task | None = None

    @classmethod
    def of_world(cls, name: str, number: int) -> Task:
        """A planning task of a world, such as a level of IceSlider."""
        task = find_world(name).task(number)
        return cls(f"level-{number}", task.paint(task.start), task.paint(task.goal), task)


def solve(model: SymbolicModel, encode: Encode, predict: Predict, task: Task, seconds: float = 60) -> dict[str, Any]:
    """What Fast Downward finds, whether the predictor agrees that it leads to the goal, and whether it does."""
    codes = as_bits(encode(np.stack([task.start, task.goal])))
    answer = fast_downward.solve(model.domain, model.problem(codes[0], codes[1], task.name), seconds=seconds)
    found: dict[str, Any] = {"outcome": answer.outcome, "plan": None, "seconds": answer.seconds}
    if answer.plan is None:
        return found
    plan = [list(model.actions).index(name) for name in answer.plan]
    code: Any = encode(task.start[None])
    for action in plan:
        code = predict(code, np.array([action]))
    found |= {"plan": list(answer.plan), "length": len(plan)}
    found["predictor_agrees"] = bool((as_bits(code)[0] == codes[1]).all())
    if task.level is not None:
        found |= {"reached": task.level.solved_by(plan), "shortest": task.level.optimal}
    return found


def export_pddl(
    model: SymbolicModel,
    encode: Encode,
    train: Transitions,
    folder: str | Path,
    *,
    task: Task | None = None,
    solution: dict[str, Any] | None = None,
    seed: int = 0,
    overwrite: bool = False,
) -> list[str]:
    """Write everything into a new folder, or with ``overwrite`` in place of one; the names of the files."""
    images = np.asarray(train.obs[:: -(-len(train) // PICTURED)])
    height, width = train.image_shape[1:]
    pictured = importlib.util.find_spec("matplotlib") is not None
    if not pictured:
        log.info("no picture beside the rules: it needs matplotlib; pip install 'dwmr[report]'")
    rules = model.rules
    shares = influence(encode, images[:FRAMES], seed=seed) if isinstance(rules, BitRules) else None
    pixels = None if shares is None else boxes(shares, height, width)
    text = listing(rules, model.actions, train.image_shape, model.fidelity, pixels, pictured)
    files: dict[str, str | bytes] = {
        DOMAIN: model.domain,
        RULES: text,
        FIDELITY: json.dumps(model.fidelity, indent=2) + "\n",
    }
    if task is not None:
        codes = as_bits(encode(np.stack([task.start, task.goal])))
        files[PROBLEM] = model.problem(codes[0], codes[1], task.name)
    if solution is not None:
        files[SOLUTION] = json.dumps(solution, indent=2) + "\n"
    if pictured:
        from dwmr.symbolic.cell_pictures import bits_png, symbols_png

        if isinstance(rules, CellRules):
            files[SYMBOLS_PICTURE] = symbols_png(rules.symbols, images, as_bits(encode(images)))
        elif shares is not None and pixels is not None:
            files[BITS_PICTURE] = bits_png(shares, pixels, height, width)
    with atomic_folder(folder, overwrite=overwrite) as fresh:
        for name, content in files.items():
            (fresh / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return sorted(files)


def _form(rules: CellRules | BitRules) -> str:
    return "cells" if isinstance(rules, CellRules) else "bits"
