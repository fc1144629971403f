"""Collecting transitions from any Gymnasium environment with images and discrete actions.

Actions and reset seeds come from named streams of the data seed, so an environment that its reset seed determines
gives the same bytes again. No two splits share a reset seed.
"""

from __future__ import annotations

import difflib
import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import closing
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

Arrays = dict[str, np.ndarray]


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
    actions. If ``info["state"]`` always is an integer array of one or two axes, it is stored as the label.

    Args:
        env_id: as `gymnasium.make` takes it; ``module:id`` imports the module first.
        out: the new folder; it appears whole or not at all.
        transitions: size of ``train``.
        seed: the data seed.
        render: store what the environment renders instead of what it observes.
        episode_steps: reset after this many actions in ``train``, ``val`` and ``test``, so that a random walk does not
            stay in a corner for good.
        env_options: keyword arguments for `gymnasium.make`.
        progress: show a progress bar; by default if standard error is a terminal.

    Raises:
        InputError: the environment is unknown or cannot be made, or has no discrete actions or no images.
        FileExistsError: ``out`` exists already.
    """
    numbers = (("transitions", transitions, 1), ("seed", seed, 0), ("episode_steps", episode_steps, 1))
    for name, number, least in numbers:
        if number < least:
            raise InputError(f"{name} must be at least {least}, got {number}")
    try:
        from gymnasium.error import Error as GymnasiumError
    except ImportError as error:
        raise InputError("collecting from an environment needs gymnasium: pip install 'dwmr[envs]'") from error

    held_out = max(1, transitions // 5)
    counts = {"train": transitions, "val": held_out, "test": held_out}
    episodes = min(MAX_ROLLOUTS, max(1, transitions // _TRANSITIONS_PER_ROLLOUT))
    options = dict(env_options or {})
    storable = bool | int | float | str | None  # what JSON can hold
    plain = {name: value if isinstance(value, storable) else repr(value) for name, value in options.items()}
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
            n_classes = _check_labels(recorded, player.labelled)
            for split, arrays in recorded.items():
                fields: dict[str, Any] = {
                    **arrays,
                    "n_actions": player.n_actions,
                    "n_classes": n_classes,
                    "about": {**about, "split": split},
                }
                made = Rollouts(**fields, horizons=HORIZONS) if split == "rollout" else Transitions(**fields)
                made.save(folder / split)
    except GymnasiumError as error:
        raise InputError(f"{env_id}: {error}") from error


class _Player:
    """An environment seen as images, labels and actions from 0.

    ``labelled`` becomes False as soon as a label is missing, or unlike the first one.
    """

    def __init__(self, env: Any, env_id: str, render: bool, first_seed: int) -> None:
        from gymnasium.spaces import Discrete

        if not isinstance(env.action_space, Discrete):
            raise InputError(f"the actions of {env_id} are {env.action_space}, expected Discrete(n)")
        self._env, self._env_id, self._render = env, env_id, render
        self._first_action, self.n_actions = int(env.action_space.start), int(env.action_space.n)
        self.reset(first_seed)
        self._shape = self._frame().shape
        label = _label(self._info)
        self.labelled = label is not None
        self._no_label = np.zeros(0, np.uint8) if label is None else np.zeros_like(label)

    def reset(self, seed: int) -> None:
        self._observation, self._info = self._env.reset(seed=seed)

    def step(self, action: int) -> bool:
        """Act; returns whether the episode has ended."""
        self._observation, _, terminated, truncated, self._info = self._env.step(self._first_action + action)
        return bool(terminated or truncated)

    def blank(self, *lead: int) -> tuple[np.ndarray, np.ndarray]:
        """Black images, uint8 (*lead, C, H, W), and labels of zeros."""
        empty = self._no_label
        try:
            return np.zeros((*lead, *self._shape), np.uint8), np.zeros((*lead, *empty.shape), empty.dtype)
        except MemoryError as error:
            raise InputError(f"there is no memory for {math.prod(lead):,} images of {self._shape} bytes") from error

    def see(self) -> tuple[np.ndarray, np.ndarray]:
        """The current image, uint8 (C, H, W), in memory that the environment may reuse, and its label."""
        frame = self._frame()
        if frame.shape != self._shape:
            raise InputError(
                f"the images of {self._env_id} change their shape: "
                f"{frame.shape} (channels, rows, columns) came after {self._shape}"
            )
        label = _label(self._info)
        if label is None or (label.shape, label.dtype) != (self._no_label.shape, self._no_label.dtype):
            self.labelled, label = False, self._no_label
        return frame, label

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


def _record(player: _Player, seed: int, split: str, count: int, episode_steps: int, shown: Bar) -> Arrays:
    seeds = _reset_seeds(seed, split)
    obs, state = player.blank(count)
    next_obs, next_state = player.blank(count)
    actions = below(rng(seed, "random actions", split), player.n_actions, count)
    starts = np.zeros(count, np.int64)
    ended, steps = True, 0
    shown.describe(split)
    for t, action in enumerate(actions.tolist()):
        if ended or steps == episode_steps:
            player.reset(next(seeds))
            steps, starts[t] = 0, 1
            obs[t], state[t] = player.see()
        else:
            obs[t], state[t] = next_obs[t - 1], next_state[t - 1]
        ended = player.step(action)
        steps += 1
        next_obs[t], next_state[t] = player.see()
        shown.advance()
    return {
        "obs": obs,
        "actions": actions,
        "next_obs": next_obs,
        "state": state,
        "next_state": next_state,
        "episode": np.cumsum(starts) - 1,
    }


def _record_rollouts(player: _Player, seed: int, episodes: int, shown: Bar) -> Arrays:
    """Episodes until they end or reach the last horizon; frames past the end stay black, and their labels 0."""
    seeds = _reset_seeds(seed, "rollout")
    actions = below(rng(seed, "random actions", "rollout"), player.n_actions, (episodes, HORIZONS[-1]))
    obs, state = player.blank(episodes, len(HORIZONS))
    length = np.zeros(episodes, np.int64)
    shown.describe("rollout")
    for episode in range(episodes):
        player.reset(next(seeds))
        obs[episode, 0], state[episode, 0] = player.see()
        for step, action in enumerate(actions[episode].tolist(), start=1):
            ended = player.step(action)
            length[episode] = step
            if step in HORIZONS:
                frame = HORIZONS.index(step)
                obs[episode, frame], state[episode, frame] = player.see()
            if ended:
                break
        shown.advance(HORIZONS[-1])
    return {"obs": obs, "actions": actions, "length": length, "state": state}


def _check_labels(recorded: Mapping[str, Arrays], labelled: bool) -> int | None:
    """The number of classes; without complete labels None, and they are removed."""
    names = [(arrays, name) for arrays in recorded.values() for name in ("state", "next_state") if name in arrays]
    if labelled:
        return 1 + max(int(arrays[name].max()) for arrays, name in names)
    for arrays, name in names:
        del arrays[name]
    return None


def _reset_seeds(seed: int, split: str) -> Iterator[int]:
    """Seeds below 2³¹ that no other split uses: their remainder modulo the number of splits differs."""
    generator = rng(seed, "reset seeds", split)
    while True:
        draw = int(below(generator, (1 << 31) // len(SPLITS), 1)[0])
        yield draw * len(SPLITS) + SPLITS.index(split)


def _label(info: Mapping[str, Any]) -> np.ndarray | None:
    """``info["state"]`` if that is a label: one or two axes of integers, none negative."""
    state = info.get("state")
    if not isinstance(state, np.ndarray) or state.dtype.kind not in "iu":
        return None
    return state if state.ndim in (1, 2) and state.size and state.min() >= 0 else None


def _make(env_id: str, options: Mapping[str, Any], render: bool) -> Any:
    import gymnasium

    asked = {"disable_env_checker": True, **options} | ({"render_mode": "rgb_array"} if render else {})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what matters is checked here and in `_Player`
            env = gymnasium.make(env_id, **asked)
    except gymnasium.error.UnregisteredEnv as error:
        near = difflib.get_close_matches(env_id.rpartition(":")[2], gymnasium.registry, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
        raise InputError(
            f"unknown environment {env_id!r}; {hint}the environments of another package are named package:id, "
            "such as minigrid:MiniGrid-Empty-5x5-v0"
        ) from error
    except Exception as error:  # the environment's own code may raise anything
        raise InputError(f"{env_id} could not be made: {str(error) or type(error).__name__}") from error
    modes = env.metadata.get("render_modes") or []
    if render and "rgb_array" not in modes:
        env.close()
        raise InputError(f"{env_id} cannot render images: its render modes are {list(modes)}, expected rgb_array")
    return env


def _channels_first(frame: Any) -> np.ndarray | None:
    """A frame as (C, H, W), None if it is no image. Channels come last, or first where they cannot be last."""
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
