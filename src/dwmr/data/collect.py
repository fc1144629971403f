"""Collecting transitions of the paper's benchmarks, from the pure rules; gymnasium is not needed.

A benchmark is one `Benchmark` record: how to walk (states and actions of a split) and how to draw states. Whatever
is drawn at random comes from named streams of the data seed, so a seed gives the same bytes everywhere; the clean
and the noisy version of a benchmark walk the same way.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from dwmr.data.transitions import HORIZONS, Rollouts, Transitions
from dwmr.errors import InputError, unknown
from dwmr.files import atomic_folder, cache_folder
from dwmr.progress import bar
from dwmr.seeding import below, rng
from dwmr.worlds import digit_jump, ice_slider, sliding_tiles
from dwmr.worlds.digits import load_digits
from dwmr.worlds.grid_world import cell_of
from dwmr.worlds.noise import add_noise

N_ACTIONS = 4
_STREAMS = {ice_slider: "dwmr.envs.ice_slider", digit_jump: "dwmr.envs.digit_jump"}  # names of random streams, for good
ROLLOUT_EPISODES = 250
NOISE_STD = 0.5
STEPS_PER_EPISODE, EPISODES_PER_LEVEL = 20, 2
PER_LEVEL = STEPS_PER_EPISODE * EPISODES_PER_LEVEL
LEVELS = {"train": range(1000), "val": range(1000, 1250), "test": range(1250, 1500)}

log = logging.getLogger("dwmr")


@dataclass(frozen=True)
class Walk:
    """States (E, T + 1, rows, cols) and actions (E, T) of E walks of T steps."""

    states: np.ndarray
    actions: np.ndarray


@dataclass(frozen=True)
class Benchmark:
    """``walk(seed, split, episodes, steps)`` gives the states, ``draw(seed, split, digits)`` a function from states
    to images. ``shape(count)`` says how many episodes of how many steps make ``count`` transitions."""

    name: str
    sizes: dict[str, int]
    n_classes: int
    shape: Callable[[int], tuple[int, int]]
    walk: Callable[[int, str, int, int], Walk]
    drawer: Callable[[int, str, str], Callable[[np.ndarray], np.ndarray]]
    noise: float = 0.0


def collect_benchmark(
    name: str,
    out: str | Path,
    *,
    seed: int = 0,
    transitions: int | None = None,
    digits: str = "mnist",
    progress: bool | None = None,
) -> None:
    """Write the data folder of a benchmark: ``train``, ``val``, ``test`` and ``rollout``.

    ``transitions`` makes the training split smaller than the paper's, and the others in proportion.
    """
    benchmark = find(name)
    sizes = _scaled(benchmark, transitions)
    with atomic_folder(out) as folder, bar(f"collecting {name}", 4, show=progress) as shown:
        for split, count in sizes.items():
            shown.describe(split)
            make_transitions(name, split, count, seed=seed, digits=digits).save(folder / split)
            shown.advance()
        shown.describe("rollout")
        episodes = min(ROLLOUT_EPISODES, max(10, sizes["test"] // PER_LEVEL))
        make_rollouts(name, episodes, seed=seed, digits=digits).save(folder / "rollout")
        shown.advance()


def cached_benchmark(name: str) -> Path:
    """The benchmark's own data folder in the cache, collected when it is not there yet.

    Of several processes that find it missing the first to be done keeps its folder; the others' are the same.
    """
    find(name)
    folder = cache_folder() / "data" / name
    if not folder.exists():
        log.info("collecting %s into %s", name, folder)
        try:
            collect_benchmark(name, folder)
        except OSError:
            if not folder.exists():
                raise
    return folder


def find(name: str) -> Benchmark:
    if name not in BENCHMARKS:
        raise unknown("benchmark", name, BENCHMARKS)
    return BENCHMARKS[name]


def make_transitions(
    name: str, split: str, count: int | None = None, *, seed: int = 0, digits: str = "mnist"
) -> Transitions:
    """One split of a benchmark; ``count`` None is the paper's size. Every frame is drawn afresh, so ``next_obs[t]``
    and ``obs[t + 1]`` show the same state, in other handwriting or noise."""
    benchmark = find(name)
    if split not in benchmark.sizes:
        raise unknown("split", split, benchmark.sizes)
    episodes, steps = benchmark.shape(benchmark.sizes[split] if count is None else count)
    walk = benchmark.walk(seed, split, episodes, steps)
    draw = benchmark.drawer(seed, split, digits)
    state, next_state = _joined(walk.states[:, :-1]), _joined(walk.states[:, 1:])
    obs = _noisy(draw(state), benchmark, seed, split, "obs")
    next_obs = _noisy(draw(next_state), benchmark, seed, split, "next_obs")
    return Transitions(
        obs=obs,
        actions=walk.actions.ravel(),
        next_obs=next_obs,
        n_actions=N_ACTIONS,
        state=state,
        next_state=next_state,
        n_classes=benchmark.n_classes,
        episode=np.repeat(np.arange(episodes, dtype=np.int64), steps),
        about=_about(benchmark, split, seed, digits),
    )


def make_rollouts(name: str, episodes: int = ROLLOUT_EPISODES, *, seed: int = 0, digits: str = "mnist") -> Rollouts:
    """Held-out episodes of 1,000 actions, on test levels and in test digits, with the frames at `HORIZONS`."""
    benchmark = find(name)
    walk = benchmark.walk(seed, "rollout", episodes, HORIZONS[-1])
    draw = benchmark.drawer(seed, "rollout", digits)
    state = walk.states[:, list(HORIZONS)]
    obs = _noisy(draw(_joined(state)), benchmark, seed, "rollout", "obs")
    return Rollouts(
        obs=obs.reshape(episodes, len(HORIZONS), *obs.shape[1:]),
        actions=walk.actions,
        horizons=HORIZONS,
        n_actions=N_ACTIONS,
        length=np.full(episodes, HORIZONS[-1], np.int64),
        state=state,
        n_classes=benchmark.n_classes,
        about=_about(benchmark, "rollout", seed, digits),
    )


def _about(benchmark: Benchmark, split: str, seed: int, digits: str) -> dict[str, Any]:
    about: dict[str, Any] = {"benchmark": benchmark.name, "split": split, "seed": seed}
    if benchmark.drawer is _puzzle_drawer:
        about["digits"] = load_digits(digits, split="test" if split == "rollout" else split).source
    return about


def _joined(states: np.ndarray) -> np.ndarray:
    """(E, T, rows, cols) as (E·T, rows, cols)."""
    return states.reshape(-1, *states.shape[2:])


def _noisy(images: np.ndarray, benchmark: Benchmark, seed: int, split: str, part: str) -> np.ndarray:
    if not benchmark.noise:
        return images
    return add_noise(images, rng(seed, "pixel noise", split, part), benchmark.noise)


def _scaled(benchmark: Benchmark, transitions: int | None) -> dict[str, int]:
    if transitions is None:
        return benchmark.sizes
    whole = benchmark.sizes["train"]
    if not PER_LEVEL <= transitions <= whole:
        raise InputError(f"{benchmark.name} has {PER_LEVEL} to {whole} transitions, got {transitions}")
    return {split: max(PER_LEVEL, size * transitions // whole) for split, size in benchmark.sizes.items()}


def _puzzle_walk(seed: int, split: str, episodes: int, steps: int) -> Walk:
    """Random walks from random solvable boards, valid moves only."""
    generator = rng(seed, "8puzzle walk", split)
    walks = [
        sliding_tiles.random_walk(generator, sliding_tiles.random_board(generator, 3, 3), steps)
        for _ in range(episodes)
    ]
    return Walk(np.stack([boards for boards, _ in walks]), np.stack([actions for _, actions in walks]))


def _puzzle_drawer(seed: int, split: str, digits: str) -> Callable[[np.ndarray], np.ndarray]:
    pictures = load_digits(digits, split="test" if split == "rollout" else split)
    generator = rng(seed, "8puzzle digits", split)
    return lambda boards: sliding_tiles.draw(boards, pictures, generator)


def _level_walk(game: ModuleType, seed: int, split: str, episodes: int, steps: int) -> Walk:
    """Random walks of any of the four actions from the starts of a split's levels; reaching the goal changes
    nothing."""
    per_level = 1 if split == "rollout" else EPISODES_PER_LEVEL
    seeds = LEVELS["test" if split == "rollout" else split]
    needed = -(-episodes // per_level)
    if needed > len(seeds):
        raise InputError(f"the split {split!r} has {len(seeds)} levels of its own, {needed} were asked for")
    levels = [game.make_level(number) for number in seeds[:needed]]
    level_of = np.arange(episodes) // per_level
    tables = np.stack([game.destinations(level) for level in levels])
    actions = below(rng(seed, "level walk", _STREAMS[game], split), N_ACTIONS, (episodes, steps))
    cells = np.empty((episodes, steps + 1), np.int64)
    cells[:, 0] = [level_start(levels[index]) for index in level_of]
    for step in range(steps):
        cells[:, step + 1] = tables[level_of, cells[:, step], actions[:, step]]
    states = [level_states(levels[index], row) for index, row in zip(level_of, cells)]
    return Walk(np.stack(states), actions)


def level_start(level: Any) -> int:
    """The cell where the agent begins."""
    return digit_jump.START if isinstance(level, digit_jump.Level) else cell_of(level.start)


def level_states(level: Any, agents: np.ndarray) -> np.ndarray:
    """The boards (N, 8, 8) of one level with the agent at the given cells."""
    if isinstance(level, digit_jump.Level):
        return digit_jump.labels(level.digit_grid, agents)
    return ice_slider.labels(level.rock_grid, agents, np.full(len(agents), cell_of(level.goal)))


def _puzzle_shape(count: int) -> tuple[int, int]:
    return 1, count


def _level_shape(count: int) -> tuple[int, int]:
    return -(-count // PER_LEVEL) * EPISODES_PER_LEVEL, STEPS_PER_EPISODE


def _game(name: str, game: ModuleType, noise: float = 0.0) -> Benchmark:
    return Benchmark(
        name,
        sizes={"train": 40_000, "val": 10_000, "test": 10_000},
        n_classes=game.N_CLASSES,
        shape=_level_shape,
        walk=partial(_level_walk, game),
        drawer=lambda seed, split, digits: game.draw,
        noise=noise,
    )


def _puzzle(name: str, noise: float = 0.0) -> Benchmark:
    return Benchmark(
        name,
        sizes={"train": 30_000, "val": 6_000, "test": 6_000},
        n_classes=9,
        shape=_puzzle_shape,
        walk=_puzzle_walk,
        drawer=_puzzle_drawer,
        noise=noise,
    )


BENCHMARKS: dict[str, Benchmark] = {
    benchmark.name: benchmark
    for benchmark in (
        _puzzle("8puzzle"),
        _puzzle("8puzzle-noisy", NOISE_STD),
        _game("iceslider", ice_slider),
        _game("iceslider-noisy", ice_slider, NOISE_STD),
        _game("digitjump", digit_jump),
    )
}
