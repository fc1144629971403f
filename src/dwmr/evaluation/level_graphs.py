"""The true graphs of the games with levels, to hold against what a model has learned of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dwmr.data.collect import LEVELS, N_ACTIONS, find, level_start, level_states
from dwmr.errors import InputError
from dwmr.evaluation.true_graph import StateGraph
from dwmr.seeding import rng
from dwmr.worlds import digit_jump, ice_slider
from dwmr.worlds.grid_world import SIZE, reachable
from dwmr.worlds.noise import add_noise

GAMES = {"iceslider": ice_slider, "iceslider-noisy": ice_slider, "digitjump": digit_jump}


def level_graphs(benchmark: str, levels: Sequence[int] | None = None, seed: int = 0) -> list[StateGraph]:
    """The levels of a game's test split, or those of the seeds named, drawn as the benchmark draws them."""
    if benchmark not in GAMES:
        raise InputError(f"{benchmark!r} has no levels; those of {', '.join(GAMES)} have")
    game, noise = GAMES[benchmark], find(benchmark).noise
    graphs = []
    for number in LEVELS["test"] if levels is None else levels:
        level = game.make_level(number)
        moves = game.destinations(level)[:, :N_ACTIONS]
        start = level_start(level)
        cells = np.array([start, *sorted(reachable(moves.tolist(), start) - {start})])
        images = game.draw(level_states(level, cells))
        if noise:
            images = add_noise(images, rng(seed, "graph noise", number), noise)
        place = np.full(len(moves), -1)
        place[cells] = np.arange(len(cells))
        names = [f"row {cell // SIZE}, column {cell % SIZE}" for cell in cells]
        graphs.append(StateGraph(f"level {number}", images, names, place[moves[cells]]))
    return graphs
