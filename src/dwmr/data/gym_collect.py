"""Collecting transitions by random actions from any Gymnasium environment with images and discrete actions.

Actions and reset seeds come from named streams of the data seed, so an environment that is decided by its reset
seed gives the same bytes again. Every split resets with seeds of its own.
"""

from __future__ import annotations

import difflib
import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import dwmr.envs  # noqa: F401  registers our own environments
from dwmr.data.transitions import HORIZONS, Rollouts, Transitions
from dwmr.errors import InputError
from dwmr.files import atomic_folder
from dwmr.progress import Bar, bar
from dwmr.seeding import below, rng

SPLITS = ("train", "val", "test", "rollout")
MAX_ROLLOUTS = 50
EPISODE_STEPS = 200
CHANNELS = (1, 3, 4)

_TRANSITIONS_PER_ROLLOUT = 200


def collect_env(
    env_id: str,
    out: str | Path,
    *,
    transitions: int,
    seed: int = 0,
    render: bool = False,
    episode_steps: int = EPISODE_STEPS,
    env_options: Mapping[str, Any] | None = None,
    progress: bool | None = None,
) -> None:
    """Write a data folder of a registered environment: ``train``, ``val``, ``test`` and ``rollout``.

    ``val`` and ``test`` hold a fifth as many transitions as ``train``, ``rollout`` up to 50 episodes of up to 1,000
    actions. Where every ``info["state"]`` is an integer array of one or two axes, it is stored as the label.

    Args:
        env_id: as `gymnasium.make` takes it; ``module:id`` imports the module first.
        out: the new folder; it appears whole or not at all.
        transitions: how many of them ``train`` holds.
        seed: the data seed.
        render: store what the environment renders instead of what it observes.
        episode_steps: after so many actions an episode of ``train``, ``val`` and ``test`` is broken off and another one
            begun, so that a random walk does not end in a corner for good.
        env_options: keyword arguments for `gymnasium.make`.

    Raises:
        InputError: no such environment, it cannot be made, its actions are not discrete or its observations no images.
        FileExistsError: ``out`` exists already.
    """
    if transitions < 1:
        raise InputError(f"the number of transitions must be positive, got {transitions}")
    if seed < 0:
        raise InputError(f"the seed must not be negative, got {seed}")
    if episode_steps < 1:
        raise InputError(f"an episode must have at least one step, got {episode_steps}")
    try:
        from gymnasium.error import Error as GymnasiumError
    except ImportError as error:
        raise InputError("collecting from an environment needs gymnasium: pip install 'dwmr[envs]'") from error

    held_out = max(1, transitions // 5)
    counts = {"train": transitions, "val": held_out, "test": held_out}
    episodes = min(MAX_ROLLOUTS, max(1, transitions // _TRANSITIONS_PER_ROLLOUT))
    options = dict(env_options or {})
    plain = {name: _plain(value) for name, value in options.items()}
    about = {"env": env_id, "seed": seed, "render": render, "episode_steps": episode_steps, "options": plain}
    try:
        with (
            atomic_folder(out) as folder,
            closing(_make(env_id, options, render)) as env,
            bar(f"collecting {env_id}", sum(counts.values()) + episodes * HORIZONS[-1], show=progress) as shown,
        ):
            player = _Player(env, env_id, render, first_seed=next(_reset_seeds(seed, "train")))
            recorded = {
                split: _record(player, seed, split, count, episode_steps, shown) for split, count in counts.items()
            }
            recorded["rollout"] = _record_rollouts(player, seed, episodes, shown)
            n_classes = _add_labels(recorded)
            for split, part in recorded.items():
                fields: dict[str, Any] = {
                    **part.arrays,
                    "n_actions": player.n_actions,
                    "n_classes": n_classes,
                    "about": {**about, "split": split},
                }
                made = Rollouts(**fields, horizons=HORIZONS) if split == "rollout" else Transitions(**fields)
                made.save(folder / split)
    except GymnasiumError as error:
        raise InputError(f"{env_id}: {error}") from error


class _Player:
    """An environment seen as images and 0-based actions."""

    def __init__(self, env: Any, env_id: str, render: bool, first_seed: int) -> None:
        self._env = env
        self._env_id = env_id
        self._render = render
        self._first_action, self.n_actions = _discrete_actions(env, env_id)
        self.reset(first_seed)
        self._shape = self._frame().shape

    def reset(self, seed: int) -> None:
        self._observation, info = self._env.reset(seed=seed)
        self.label = _label(info)

    def step(self, action: int) -> bool:
        """Act, and say whether the episode has ended."""
        self._observation, _, terminated, truncated, info = self._env.step(self._first_action + action)
        self.label = _label(info)
        return bool(terminated or truncated)

    def image(self) -> np.ndarray:
        """What is to be seen now, uint8 (C, H, W); the environment may own and reuse the memory."""
        frame = self._frame()
        if frame.shape != self._shape:
            raise InputError(
                f"the images of {self._env_id} change their shape: "
                f"{frame.shape} (channels, rows, columns) came after {self._shape}"
            )
        return frame

    def blank(self, *lead: int) -> np.ndarray:
        """Black images, uint8 (*lead, C, H, W)."""
        try:
            return np.zeros((*lead, *self._shape), np.uint8)
        except MemoryError as error:
            raise InputError(f"there is no memory for {math.prod(lead):,} images of {self._shape} bytes") from error

    def _frame(self) -> np.ndarray:
        seen = self._env.render() if self._render else self._observation
        image = _channels_first(seen)
        if image is None:
            kind = "rendered frames" if self._render else "observations"
            hint = "" if self._render else "; --render (render=True) takes rendered frames instead"
            raise InputError(
                f"the {kind} of {self._env_id} are {_described(seen)}, "
                f"expected images: uint8 (H, W) or (H, W, C) with C 1, 3 or 4{hint}"
            )
        return image


@dataclass(frozen=True)
class _Recording:
    """The arrays of a split, and the labels seen with its frames, one for each in order."""

    arrays: dict[str, np.ndarray]
    labels: dict[str, list[np.ndarray | None]]


def _record(player: _Player, seed: int, split: str, count: int, episode_steps: int, shown: Bar) -> _Recording:
    seeds = _reset_seeds(seed, split)
    obs, next_obs = player.blank(count), player.blank(count)
    actions = below(rng(seed, "random actions", split), player.n_actions, count)
    state: list[np.ndarray | None] = []
    next_state: list[np.ndarray | None] = []
    starts = np.zeros(count, np.int64)
    ended, steps = True, 0
    shown.describe(split)
    for t, action in enumerate(actions.tolist()):
        if ended or steps == episode_steps:
            player.reset(next(seeds))
            steps = 0
            starts[t] = 1
            obs[t] = player.image()
            state.append(player.label)
        else:
            obs[t] = next_obs[t - 1]
            state.append(next_state[-1])
        ended = player.step(action)
        steps += 1
        next_obs[t] = player.image()
        next_state.append(player.label)
        shown.advance()
    arrays = {"obs": obs, "actions": actions, "next_obs": next_obs, "episode": np.cumsum(starts) - 1}
    return _Recording(arrays, {"state": state, "next_state": next_state})


def _record_rollouts(player: _Player, seed: int, episodes: int, shown: Bar) -> _Recording:
    """Episodes up to their end or the last horizon; images past the end stay black, and their labels 0."""
    seeds = _reset_seeds(seed, "rollout")
    actions = below(rng(seed, "random actions", "rollout"), player.n_actions, (episodes, HORIZONS[-1]))
    obs = player.blank(episodes, len(HORIZONS))
    length = np.zeros(episodes, np.int64)
    labels: list[np.ndarray | None] = []
    shown.describe("rollout")
    for episode in range(episodes):
        player.reset(next(seeds))
        obs[episode, 0] = player.image()
        first = player.label
        seen = [first]
        for step, action in enumerate(actions[episode].tolist(), start=1):
            ended = player.step(action)
            length[episode] = step
            if step in HORIZONS:
                obs[episode, len(seen)] = player.image()
                seen.append(player.label)
            if ended:
                break
        past_end = None if first is None else np.zeros_like(first)
        labels += seen + [past_end] * (len(HORIZONS) - len(seen))
        shown.advance(HORIZONS[-1])
    return _Recording({"obs": obs, "actions": actions, "length": length}, {"state": labels})


def _reset_seeds(seed: int, split: str) -> Iterator[int]:
    """Seeds below 2³¹ that no other split uses: the remainder modulo the number of splits tells them apart."""
    generator = rng(seed, "reset seeds", split)
    while True:
        draw = int(below(generator, (1 << 31) // len(SPLITS), 1)[0])
        yield draw * len(SPLITS) + SPLITS.index(split)


def _add_labels(recorded: Mapping[str, _Recording]) -> int | None:
    """Put the labels among the arrays and count their classes; None if not every frame has one like the others."""
    everything = [label for part in recorded.values() for labels in part.labels.values() for label in labels]
    known = [label for label in everything if label is not None]
    if len(known) < len(everything) or len({(label.shape, label.dtype) for label in known}) > 1:
        return None
    for part in recorded.values():
        lead = part.arrays["obs"].shape[:-3]
        for name, labels in part.labels.items():
            part.arrays[name] = np.array(labels).reshape(*lead, *known[0].shape)
    return 1 + max(int(label.max()) for label in known)


def _label(info: Mapping[str, Any]) -> np.ndarray | None:
    """A copy of ``info["state"]`` if that is a label: one or two axes of integers, none negative."""
    state = info.get("state")
    if not isinstance(state, np.ndarray) or state.dtype.kind not in "iu":
        return None
    return state.copy() if state.ndim in (1, 2) and state.size and state.min() >= 0 else None


def _make(env_id: str, options: Mapping[str, Any], render: bool) -> Any:
    import gymnasium

    asked = {"disable_env_checker": True, **options}
    if render:
        asked["render_mode"] = "rgb_array"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what matters of them is refused here and in `_Player`
            env = gymnasium.make(env_id, **asked)
    except gymnasium.error.UnregisteredEnv as error:
        name = env_id.rpartition(":")[2]
        near = difflib.get_close_matches(name, gymnasium.registry, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
        raise InputError(
            f"unknown environment {env_id!r}; {hint}one that another package registers is named package:id, "
            "such as minigrid:MiniGrid-Empty-5x5-v0"
        ) from error
    except Exception as error:  # the environment's own code may raise anything
        raise InputError(f"{env_id} could not be made: {str(error) or type(error).__name__}") from error
    modes = env.metadata.get("render_modes") or []
    if render and "rgb_array" not in modes:
        env.close()
        raise InputError(f"{env_id} cannot render images: its render modes are {list(modes)}, expected rgb_array")
    return env


def _discrete_actions(env: Any, env_id: str) -> tuple[int, int]:
    """The lowest action and how many there are."""
    from gymnasium.spaces import Discrete

    space = env.action_space
    if not isinstance(space, Discrete):
        raise InputError(f"the actions of {env_id} are {space}, expected Discrete(n)")
    return int(space.start), int(space.n)


def _channels_first(frame: Any) -> np.ndarray | None:
    """A frame as (C, H, W), None if it is no image. Channels come last, or first where that is the only reading."""
    if not isinstance(frame, np.ndarray) or frame.dtype != np.uint8 or frame.size == 0:
        return None
    if frame.ndim == 2:
        return frame[None]
    if frame.ndim == 3 and frame.shape[-1] in CHANNELS:
        return frame.transpose(2, 0, 1)
    if frame.ndim == 3 and frame.shape[0] in CHANNELS and min(frame.shape[1:]) > max(CHANNELS):
        return frame
    return None


def _described(frame: Any) -> str:
    if isinstance(frame, np.ndarray):
        return f"{frame.dtype} {frame.shape}"
    if isinstance(frame, Mapping):
        return f"a dictionary of {', '.join(map(str, frame))}"
    return f"of type {type(frame).__name__}"


def _plain(value: Any) -> Any:
    """An option as JSON can hold it."""
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)
