"""The rules of a run, how exact they are on unseen levels, and levels solved from the exported PDDL by Fast Downward.

    python -m experiments.pddl RUN --data data/iceslider
    python -m experiments.pddl exact --data data/iceslider

``exact`` is a control instead of a run: three bits per cell from the true labels, and the true slide. Levels have the
seeds 2000-2099 and a minimum solution of 8; plans are executed in the real environment. Worlds without levels have the
fidelity alone.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import dwmr
from dwmr.files import atomic_write_json
from dwmr.models.callables import Encode, Predict, as_bits
from dwmr.models.run_folder import read_info
from dwmr.presets import changes
from dwmr.symbolic import Layout, SymbolicModel, fast_downward, layout_of, learn_symbols, pddl
from dwmr.worlds import ice_slider, tiles
from dwmr.worlds.actions import DIRECTIONS
from dwmr.worlds.grid_world import SIZE
from dwmr.worlds.registry import action_names, find_world
from dwmr.worlds.tasks import Task

RESULTS = Path("experiments/results/symbolic.json")
LEVELS = range(2000, 2100)
LAYOUT = Layout(3, SIZE, SIZE)
PATTERNS = np.array([0b010, 0b101, 0b110, 0b001])  # of rock, ice, goal and agent
UNKNOWN = -1


def exact_encode(images: np.ndarray) -> np.ndarray:
    """The code of the labels that a clean frame shows."""
    side = tiles.SIDE
    cut = np.asarray(images).reshape(-1, 3, SIZE, side, SIZE, side).transpose(0, 2, 4, 1, 3, 5).astype(np.int16)
    pictures = ice_slider.IceSlider.pictures.astype(np.int16)
    labels = np.stack([np.abs(cut - picture).sum((3, 4, 5)) for picture in pictures]).argmin(0)
    return LAYOUT.codes(PATTERNS[labels])


def exact_predict(codes: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """The true slide. Where no goal can be seen, the agent stands on it."""
    label_of = np.full(2**LAYOUT.depth, UNKNOWN)
    label_of[PATTERNS] = np.arange(len(PATTERNS))
    boards = label_of[LAYOUT.patterns(np.asarray(codes))]
    frames = np.arange(len(boards))
    rows, cols = np.divmod((boards == ice_slider.AGENT).reshape(len(boards), -1).argmax(1), SIZE)
    after = boards.copy()
    visible = (boards == ice_slider.GOAL).any((1, 2))
    after[frames, rows, cols] = np.where(visible, ice_slider.ICE, ice_slider.GOAL)
    walled = np.pad(boards, ((0, 0), (1, 1), (1, 1)), constant_values=ice_slider.ROCK)
    down, right = np.array(DIRECTIONS)[actions].T
    for _ in range(SIZE - 1):
        free = walled[frames, rows + down + 1, cols + right + 1] != ice_slider.ROCK
        rows, cols = rows + free * down, cols + free * right
    after[frames, rows, cols] = ice_slider.AGENT
    return LAYOUT.codes(PATTERNS[after])


def summary(levels: dict[str, dict[str, Any]]) -> dict[str, Any]:
    solved = [found for found in levels.values() if found.get("reached")]
    ratios = [found["length"] / found["shortest"] for found in solved]
    outcomes = [found["outcome"] for found in levels.values()]
    return {
        "solved": len(solved),
        "of": len(levels),
        "wrong_plan": sum(found["plan"] is not None for found in levels.values()) - len(solved),
        "exhausted": outcomes.count("exhausted"),
        "out_of_budget": outcomes.count("out of budget"),
        "predictor_agrees": sum(found.get("predictor_agrees", False) for found in levels.values()),
        "length_over_optimal": float(np.mean(ratios)) if ratios else None,
        "optimal": sum(ratio == 1 for ratio in ratios),
        "seconds_median": float(np.median([found["seconds"] for found in levels.values()])),
    }


def solve(model: SymbolicModel, encode: Encode, predict: Predict, task: Task) -> dict[str, Any]:
    """What Fast Downward finds, whether the predictor agrees, and whether the plan solves the task in its world."""
    code = encode(np.stack([task.paint(task.start), task.paint(task.goal)]))
    start, goal = as_bits(code)
    answer = fast_downward.solve(pddl.domain(model.rules, model.actions), pddl.problem(model.rules, start, goal))
    found: dict[str, Any] = {"outcome": answer.outcome, "plan": None, "seconds": round(answer.seconds, 3)}
    if answer.plan is None:
        return found
    plan = [list(model.actions).index(name) for name in answer.plan]
    code = code[:1]
    for action in plan:
        code = predict(code, np.array([action]))
    found |= {"plan": " ".join(answer.plan), "length": len(plan)}
    found["predictor_agrees"] = bool((as_bits(code)[0] == goal).all())
    return found | {"reached": task.solved_by(plan), "shortest": task.optimal}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", help="a run folder, or exact")
    parser.add_argument("--data", type=Path, required=True)
    given = parser.parse_args()
    splits = dwmr.load_splits(given.data)
    if given.run == "exact":
        encode: Encode = exact_encode
        predict: Predict = exact_predict
        layout: Layout | None = LAYOUT
        benchmark = "iceslider"
        entry: dict[str, Any] = {"preset": "exact"}
    else:
        info, model = read_info(given.run), dwmr.WorldModel.load(given.run)
        encode, predict, layout, benchmark = model.encode, model.predict, layout_of(model), info.config.benchmark
        entry = {"preset": info.config.name, "seed": info.seed, "set": changes(info.config)}
    actions = action_names(benchmark, splits.train.n_actions)
    assert splits.test is not None
    symbols = learn_symbols(encode, predict, splits.train, splits.test, actions=actions, layout=layout)
    entry["fidelity"] = symbols.fidelity
    world = find_world(benchmark)
    if world.small_levels:
        each = {str(seed): solve(symbols, encode, predict, world.task(seed)) for seed in LEVELS}
        entry |= {"levels": summary(each), "each": each}
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    results[entry["preset"]] = entry
    atomic_write_json(RESULTS, results)
    print(json.dumps({key: value for key, value in entry.items() if key != "each"}, indent=2))


if __name__ == "__main__":
    main()
