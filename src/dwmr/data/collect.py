"""Collecting the splits of a registered world. Gymnasium is not needed.

Whatever is random comes from named streams of the data seed, so a seed gives the same bytes on every machine. A world
and its noisy version walk the same way.
"""

import logging
from pathlib import Path

import numpy as np

from dwmr.data.transitions import HORIZONS, Rollouts, Transitions
from dwmr.errors import InputError, unknown
from dwmr.files import atomic_folder, cache_folder
from dwmr.progress import bar
from dwmr.seeding import rng
from dwmr.worlds.noise import add_noise
from dwmr.worlds.registry import find_world
from dwmr.worlds.world import EPISODE_STEPS, EPISODES_PER_LEVEL, World

ROLLOUT_EPISODES = 250
MIN_TRANSITIONS = EPISODE_STEPS * EPISODES_PER_LEVEL  # one level

log = logging.getLogger("dwmr")


def collect_world(
    name: str, out: str | Path, *, seed: int = 0, transitions: int | None = None, digits: str = "mnist"
) -> None:
    """Write the data folder of a world: ``train``, ``val``, ``test`` and ``rollout``.

    Args:
        name: of a world in `dwmr.worlds.registry`.
        out: the new folder.
        seed: the data seed.
        transitions: size of the training split, at most the usual one; the other splits shrink in proportion.
        digits: source of handwritten digits, for worlds that draw with them.
    """
    sizes = _sizes(name, transitions)
    with atomic_folder(out) as folder, bar(f"collecting {name}", 4) as shown:
        for split, count in sizes.items():
            shown.describe(split)
            make_transitions(name, split, count, seed=seed, digits=digits).save(folder / split)
            shown.advance()
        shown.describe("rollout")
        episodes = min(ROLLOUT_EPISODES, max(10, sizes["test"] // MIN_TRANSITIONS))
        make_rollouts(name, episodes, seed=seed, digits=digits).save(folder / "rollout")
        shown.advance()


def cached_world(name: str) -> Path:
    """The data folder of a world in the cache, collected first if it is not there.

    Of several processes that collect it at the same time, the first to finish keeps its folder; all are the same.
    """
    find_world(name)
    folder = cache_folder() / "data" / name
    if not folder.exists():
        log.info("collecting %s into %s", name, folder)
        try:
            collect_world(name, folder)
        except OSError:
            if not folder.exists():
                raise
    return folder


def make_transitions(
    name: str, split: str, count: int | None = None, *, seed: int = 0, digits: str = "mnist"
) -> Transitions:
    """One split of a world, of its usual size or of ``count`` transitions.

    Every frame is rendered separately: ``next_obs[t]`` and ``obs[t + 1]`` show the same state, but in other handwriting
    or noise.
    """
    world = find_world(name).with_digits(digits)
    if split not in world.sizes:
        raise unknown("split", split, world.sizes)
    episodes, steps = world.split_shape(split, world.sizes[split] if count is None else count)
    states, actions = world.walk(seed, split, episodes, steps)
    state, next_state = _flat(states[:, :-1]), _flat(states[:, 1:])
    generator = rng(seed, f"{world.name} digits", split)
    return Transitions(
        obs=_draw(world, state, seed, split, "obs", generator),
        actions=actions.ravel(),
        next_obs=_draw(world, next_state, seed, split, "next_obs", generator),
        n_actions=len(world.action_names),
        state=state,
        next_state=next_state,
        n_classes=world.n_classes,
        episode=np.repeat(np.arange(episodes, dtype=np.int64), steps),
        about={"benchmark": name, "split": split, "seed": seed, **world.drawing(split)},
    )


def make_rollouts(name: str, episodes: int = ROLLOUT_EPISODES, *, seed: int = 0, digits: str = "mnist") -> Rollouts:
    """Held-out episodes of 1,000 actions, on test levels and in test digits, with the frames at `HORIZONS`."""
    world = find_world(name).with_digits(digits)
    states, actions = world.walk(seed, "rollout", episodes, HORIZONS[-1])
    state = states[:, list(HORIZONS)]
    obs = _draw(world, _flat(state), seed, "rollout", "obs", rng(seed, f"{world.name} digits", "rollout"))
    return Rollouts(
        obs=obs.reshape(episodes, len(HORIZONS), *obs.shape[1:]),
        actions=actions,
        horizons=HORIZONS,
        n_actions=len(world.action_names),
        length=np.full(episodes, HORIZONS[-1], np.int64),
        state=state,
        n_classes=world.n_classes,
        about={"benchmark": name, "split": "rollout", "seed": seed, **world.drawing("test")},
    )


def _draw(
    world: World, labels: np.ndarray, seed: int, split: str, part: str, generator: np.random.Generator
) -> np.ndarray:
    images = world.draw(labels, generator, "test" if split == "rollout" else split)
    return add_noise(images, rng(seed, "pixel noise", split, part), world.noise) if world.noise else images


def _flat(states: np.ndarray) -> np.ndarray:
    """(E, T, rows, cols) as (E·T, rows, cols)."""
    return states.reshape(-1, *states.shape[2:])


def _sizes(name: str, transitions: int | None) -> dict[str, int]:
    sizes = dict(find_world(name).sizes)
    if transitions is None:
        return sizes
    whole = sizes["train"]
    if not MIN_TRANSITIONS <= transitions <= whole:
        raise InputError(f"{name} has {MIN_TRANSITIONS} to {whole} transitions, got {transitions}")
    return {split: max(MIN_TRANSITIONS, size * transitions // whole) for split, size in sizes.items()}
