"""Collecting transitions from any Gymnasium environment with images and discrete actions.

Actions and reset seeds come from named streams of the data seed, so an environment that its reset seed determines
gives the same bytes again. No two splits share a reset seed.
"""

import json
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
EPISODE_STEPS = 200  # then reset, so that a random walk does not stay in a corner for good
CHANNELS = (1, 3, 4)

_TRANSITIONS_PER_ROLLOUT = 200


def collect_env(
    env_id: str,
    out: str | Path,
    *,
    transitions: int,
    seed: int = 0,
    render: bool = False,
    env_options: Mapping[str, Any] | None = None,
) -> None:
    """Write a data folder of a registered environment: ``train``, ``val``, ``test`` and ``rollout``.

    ``val`` and ``test`` hold a fifth as many transitions as ``train``, ``rollout`` up to 50 episodes of up to 1,000
    actions. If ``info["state"]`` always is an integer array of one or two axes, it is stored as the label.

    Args:
        env_id: as `gymnasium.make` takes it; ``module:id`` imports the module first.
        out: the new folder.
        transitions: size of ``train``.
        seed: the data seed.
        render: store what the environment renders instead of what it observes.
        env_options: keyword arguments for `gymnasium.make`.
    """
    if transitions < 1:
        raise InputError(f"transitions must be at least 1, got {transitions}")
    try:
        from gymnasium.error import Error as GymnasiumError
    except ImportError as error:
        raise InputError("collecting from an environment needs gymnasium: pip install 'dwmr[envs]'") from error

    held_out = max(1, transitions // 5)
    counts = {"train": transitions, "val": held_out, "test": held_out}
    episodes = min(MAX_ROLLOUTS, max(1, transitions // _TRANSITIONS_PER_ROLLOUT))
    options = dict(env_options or {})
    about = {"env": env_id, "seed": seed, "render": render, "options": json.loads(json.dumps(options, default=repr))}
    try:
        with (
            atomic_folder(out) as folder,
            closing(_make(env_id, options, render)) as env,
            bar(f"collecting {env_id}", sum(counts.values()) + episodes * HORIZONS[-1]) as shown,
        ):
            player = _Player(env, env_id, render, first_seed=next(_reset_seeds(seed, "train")))
            recorded = {split: _record(player, seed, split, count, shown) for split, count in counts.items()}
            recorded["rollout"] = _record_rollouts(player, seed, episodes, shown)
            n_classes = _stack_labels(recorded)
            for split, arrays in recorded.items():
                fields: dict[str, Any] = {"n_actions": player.n_actions, "n_classes": n_classes, **arrays}
                fields["about"] = about | {"split": split}
                made = Rollouts(**fields, horizons=HORIZONS) if split == "rollout" else Transitions(**fields)
                made.save(folder / split)
    except GymnasiumError as error:
        raise InputError(f"{env_id}: {error}") from error
    except MemoryError as error:
        raise InputError(f"there is no memory for {transitions:,} transitions of {env_id}") from error


class _Player:
    """An environment seen as images, labels and actions from 0."""

    def __init__(self, env: Any, env_id: str, render: bool, first_seed: int) -> None:
        from gymnasium.spaces import Discrete

        if not isinstance(env.action_space, Discrete):
            raise InputError(f"the actions of {env_id} are {env.action_space}, expected Discrete(n)")
        modes = env.metadata.get("render_modes") or []
        if render and "rgb_array" not in modes:
            raise InputError(f"{env_id} cannot render images: its render modes are {list(modes)}, expected rgb_array")
        self._env, self._env_id, self._render = env, env_id, render
        self._first_action, self.n_actions = int(env.action_space.start), int(env.action_space.n)
        self.shape: tuple[int, ...] = ()
        self.reset(first_seed)
        self.shape = self.see()[0].shape

    def reset(self, seed: int) -> None:
        self._observation, self._info = self._env.reset(seed=seed)

    def step(self, action: int) -> bool:
        """Act; returns whether the episode has ended."""
        self._observation, _, terminated, truncated, self._info = self._env.step(self._first_action + action)
        return bool(terminated or truncated)

    def see(self) -> tuple[np.ndarray, np.ndarray | None]:
        """The current image, uint8 (C, H, W), in memory that the environment may reuse, and its label."""
        seen = self._env.render() if self._render else self._observation
        image = _channels_first(seen)
        if image is None:
            got = f"{seen.dtype} {seen.shape}" if isinstance(seen, np.ndarray) else f"of type {type(seen).__name__}"
            hint = "" if self._render else "; --render (render=True) takes rendered frames instead"
            raise InputError(
                f"the {'rendered frames' if self._render else 'observations'} of {self._env_id} are {got}, "
                f"expected images: uint8 (H, W) or (H, W, C) with C 1, 3 or 4{hint}"
            )
        if image.shape != (self.shape or image.shape):
            raise InputError(
                f"the images of {self._env_id} change their shape: "
                f"{image.shape} (channels, rows, columns) came after {self.shape}"
            )
        return image, _label(self._info)


def _record(player: _Player, seed: int, split: str, count: int, shown: Bar) -> dict[str, Any]:
    """The fields of transitions, the labels as lists."""
    seeds = _reset_seeds(seed, split)
    obs, next_obs = (np.zeros((count, *player.shape), np.uint8) for _ in range(2))
    labels: dict[str, list[np.ndarray | None]] = {"state": [], "next_state": []}
    actions = below(rng(seed, "random actions", split), player.n_actions, count)
    starts = np.zeros(count, np.int64)
    ended, steps = True, 0
    shown.describe(split)
    for t, action in enumerate(actions.tolist()):
        if ended or steps == EPISODE_STEPS:
            player.reset(next(seeds))
            seen = player.see()
            steps, starts[t] = 0, 1
        obs[t], label = seen
        labels["state"].append(label)
        ended = player.step(action)
        seen = player.see()
        next_obs[t], label = seen
        labels["next_state"].append(label)
        steps += 1
        shown.advance()
    return {"obs": obs, "actions": actions, "next_obs": next_obs, "episode": np.cumsum(starts) - 1, **labels}


def _record_rollouts(player: _Player, seed: int, episodes: int, shown: Bar) -> dict[str, Any]:
    """Episodes until they end or reach the last horizon; frames past the end stay black, and their labels 0."""
    seeds = _reset_seeds(seed, "rollout")
    actions = below(rng(seed, "random actions", "rollout"), player.n_actions, (episodes, HORIZONS[-1]))
    obs, state = np.zeros((episodes, len(HORIZONS), *player.shape), np.uint8), []
    length = np.zeros(episodes, np.int64)
    shown.describe("rollout")
    for episode, (frames, chosen) in enumerate(zip(obs, actions.tolist())):
        player.reset(next(seeds))
        labels: list[np.ndarray | None] = []
        ended = False
        for step in range(HORIZONS[-1] + 1):
            if step in HORIZONS:
                frames[len(labels)], label = player.see()
                labels.append(label)
            if ended or step == HORIZONS[-1]:
                break
            ended = player.step(chosen[step])
            length[episode] = step + 1
        blank = None if labels[0] is None else np.zeros_like(labels[0])
        state.append(labels + [blank] * (len(HORIZONS) - len(labels)))
        shown.advance(HORIZONS[-1])
    return {"obs": obs, "actions": actions, "length": length, "state": state}


def _stack_labels(recorded: Mapping[str, dict[str, Any]]) -> int | None:
    """Turn the lists of labels into arrays and return the number of classes; remove them if they are not all alike."""
    places = [(arrays, name) for arrays in recorded.values() for name in ("state", "next_state") if name in arrays]
    lists = [arrays.pop(name) for arrays, name in places]
    try:
        stacked = [np.array(labels) for labels in lists]
    except ValueError:  # their shapes differ
        return None
    if any(array.dtype == object for array in stacked):  # some are None
        return None
    for (arrays, name), array in zip(places, stacked):
        arrays[name] = array
    return 1 + max(int(array.max()) for array in stacked)


def _reset_seeds(seed: int, split: str) -> Iterator[int]:
    """Seeds below 2³¹ that no other split uses: their remainder modulo the number of splits differs."""
    generator = rng(seed, "reset seeds", split)
    while True:
        draw = int(below(generator, (1 << 31) // len(SPLITS), 1)[0])
        yield draw * len(SPLITS) + SPLITS.index(split)


def _label(info: Mapping[str, Any]) -> np.ndarray | None:
    """A copy of ``info["state"]`` if that is a label: one or two axes of integers, none negative."""
    state = info.get("state")
    if not isinstance(state, np.ndarray) or state.dtype.kind not in "iu" or state.ndim not in (1, 2):
        return None
    return state.copy() if state.size and state.min() >= 0 else None


def _make(env_id: str, options: Mapping[str, Any], render: bool) -> Any:
    import gymnasium

    asked = {"disable_env_checker": True, **options} | ({"render_mode": "rgb_array"} if render else {})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what matters is checked in `_Player`
            return gymnasium.make(env_id, **asked)
    except Exception as error:  # the environment's own code may raise anything
        raise InputError(f"{env_id} could not be made: {str(error) or type(error).__name__}") from error


def _channels_first(frame: Any) -> np.ndarray | None:
    """A frame as (C, H, W), None if it is no image. Channels come last, or first where they cannot be last."""
    if not isinstance(frame, np.ndarray) or frame.dtype != np.uint8 or frame.size == 0 or frame.ndim not in (2, 3):
        return None
    if frame.ndim == 2:
        return frame[None]
    if frame.shape[-1] in CHANNELS:
        return frame.transpose(2, 0, 1)
    return frame if frame.shape[0] in CHANNELS and min(frame.shape[1:]) > max(CHANNELS) else None
