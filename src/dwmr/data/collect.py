"""Collecting the splits of a registered world. Gymnasium is not needed.

Whatever is random comes from named streams of the data seed, so a seed gives the same bytes on every machine. A world
and its noisy version walk the same way.
"""

import logging
from pathlib import Path
from typing import Any

import numpy as np

from dwmr.data.transitions import HORIZONS, Rollouts, Transitions
from dwmr.errors import InputError, unknown
from dwmr.files import atomic_folder, cache_folder
from dwmr.progress import bar
from dwmr.seeding import rng
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
    sizes = dict(find_world(name).sizes)
    if transitions is not None:
        whole = sizes["train"]
        if not MIN_TRANSITIONS <= transitions <= whole:
            raise InputError(f"{name} has {MIN_TRANSITIONS} to {whole} transitions, got {transitions}")
        sizes = {split: max(MIN_TRANSITIONS, size * transitions // whole) for split, size in sizes.items()}
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


def make_transitions(name: str, split: str, count: int, *, seed: int = 0, digits: str = "mnist") -> Transitions:
    """At least ``count`` transitions of one split of a world; levels are kept whole.

    Every frame is rendered separately: ``next_obs[t]`` and ``obs[t + 1]`` show the same state, but in other handwriting
    or noise.
    """
    world = find_world(name).with_digits(digits)
    if split not in world.sizes:
        raise unknown("split", split, world.sizes)
    episodes, steps = world.split_shape(split, count)
    states, actions = world.walk(seed, split, episodes, steps)
    state, next_state = (part.reshape(-1, *part.shape[2:]) for part in (states[:, :-1], states[:, 1:]))
    return Transitions(
        actions=actions.ravel(),
        state=state,
        next_state=next_state,
        episode=np.repeat(np.arange(episodes, dtype=np.int64), steps),
        **_frames(world, seed, split, obs=state, next_obs=next_state),
        **_about(world, name, seed, split),
    )


def make_rollouts(name: str, episodes: int, *, seed: int = 0, digits: str = "mnist") -> Rollouts:
    """Held-out episodes of 1,000 actions, on test levels and in test digits, with the frames at `HORIZONS`."""
    world = find_world(name).with_digits(digits)
    states, actions = world.walk(seed, "rollout", episodes, HORIZONS[-1])
    state = states[:, list(HORIZONS)]
    obs = _frames(world, seed, "rollout", obs=state.reshape(-1, *state.shape[2:]))["obs"]
    return Rollouts(
        obs=obs.reshape(episodes, len(HORIZONS), *obs.shape[1:]),
        actions=actions,
        horizons=HORIZONS,
        length=np.full(episodes, HORIZONS[-1], np.int64),
        state=state,
        **_about(world, name, seed, "rollout"),
    )


def _frames(world: World, seed: int, split: str, **labels: np.ndarray) -> dict[str, Any]:
    generator, source = rng(seed, f"{world.name} digits", split), "test" if split == "rollout" else split
    return {
        part: world.noisy(world.draw(each, generator, source), rng(seed, "pixel noise", split, part))
        for part, each in labels.items()
    }


def _about(world: World, name: str, seed: int, split: str) -> dict[str, Any]:
    drawing = world.drawing("test" if split == "rollout" else split)
    about = {"benchmark": name, "split": split, "seed": seed, **drawing}
    return {"n_actions": len(world.action_names), "n_classes": world.n_classes, "about": about}
