"""What a world model learns from: transitions, and long episodes to test it on."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from dwmr.data import checks, store
from dwmr.errors import InputError, unknown
from dwmr.files import atomic_write_bytes

HORIZONS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)

Labels = np.ndarray | Mapping[str, np.ndarray]

_ARRAYS = ("obs", "actions", "next_obs", "state", "next_state", "episode")
_GROUPED = ("state", "next_state", "n_classes")  # may hold named groups


@dataclass(frozen=True, eq=False)
class Transitions:
    """N transitions (image, action, next image), and labels of the states where they are known.

    obs, next_obs      uint8 (N, C, H, W)
    actions            integers (N,) in [0, n_actions)
    state, next_state  labels: integers (N,), (N, cells) or (N, rows, cols) in [0, n_classes), or named groups of them,
                       such as {"agent": (N,), "walls": (N, rows, cols)}, or None
    n_classes          the number of classes, or with named groups a dict of them; by default the highest label plus one
    episode            integers (N,): transitions t and t+1 of one episode are consecutive, or None
    action_names       n_actions different names, or None
    about              how the data was made
    """

    obs: np.ndarray
    actions: np.ndarray
    next_obs: np.ndarray
    n_actions: int
    state: Labels | None = None
    next_state: Labels | None = None
    n_classes: int | Mapping[str, int] | None = None
    episode: np.ndarray | None = None
    action_names: tuple[str, ...] | None = field(default=None, repr=False)
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = vars(self)  # may be written to, unlike the frozen attributes
        for name in ("obs", "actions", "next_obs"):
            known[name] = np.asanyarray(known[name])
        for name in ("state", "next_state", "episode"):
            known[name] = _each_group(np.asanyarray, known[name])
        for name in ("obs", "next_obs"):
            checks.check_images(name, known[name])
        if self.obs.shape != self.next_obs.shape:
            raise InputError(f"obs has shape {self.obs.shape} but next_obs {self.next_obs.shape}")
        count = len(self.obs)
        checks.check_integers("actions", self.actions, (count,))
        known["n_actions"] = checks.check_below("actions", self.actions, "n_actions", self.n_actions)
        if self.action_names is not None:
            known["action_names"] = checks.check_action_names(self.action_names, self.n_actions)
        known["n_classes"] = checks.check_states(self.state, self.next_state, count, self.n_classes)
        if isinstance(self.state, Mapping) and isinstance(self.next_state, Mapping):
            known["next_state"] = {name: self.next_state[name] for name in self.state}
        if self.episode is not None:
            checks.check_integers("episode", self.episode, (count,))

    def __len__(self) -> int:
        return len(self.obs)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        _, c, h, w = self.obs.shape
        return c, h, w

    @property
    def labelled(self) -> bool:
        return self.state is not None

    def __getitem__(self, index: slice) -> Transitions:
        """Consecutive transitions (a view, no copy)."""
        if not isinstance(index, slice):
            raise TypeError(f"transitions are indexed by slices, got {type(index).__name__}")
        if index.step not in (None, 1):
            raise InputError(f"a slice of transitions must be consecutive, got a step of {index.step}")
        parts: Any = {name: _each_group(lambda array: array[index], getattr(self, name)) for name in _ARRAYS}
        return replace(self, **parts)

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the labels' groups; none for a single array or without labels."""
        return tuple(self.state) if isinstance(self.state, Mapping) else ()

    def group(self, name: str) -> Transitions:
        """The same transitions with the labels of one group."""
        if name not in self.groups:
            raise unknown("group of labels", name, self.groups)
        parts: Any = {each: getattr(self, each)[name] for each in _GROUPED}
        return replace(self, **parts)

    def flat_labels(self) -> tuple[np.ndarray, np.ndarray] | None:
        """state and next_state as (N, labels), the groups side by side; rows are equal where states are."""
        if self.state is None or self.next_state is None:
            return None
        first, second = (
            [part.reshape(len(self), -1) for part in (each.values() if isinstance(each, Mapping) else [each])]
            for each in (self.state, self.next_state)
        )
        return np.concatenate(first, axis=1), np.concatenate(second, axis=1)

    def same_state_pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of frames that show the same state, because transition t+1 continues t in the same episode.

        Returns:
            first, second: int64 (P,) each; ``next_obs[first]`` and ``obs[second]`` show the same states. Episodes
            0, 0, 0, 1, 1 give 0, 1, 3 and 1, 2, 4.
        """
        if self.episode is None:
            raise InputError("this data has no `episode`, which says which transitions follow each other")
        return continued(self.episode)

    def fingerprint(self) -> str:
        """A digest of shapes, actions and every pixel, of action names and of named groups of labels."""
        digest = hashlib.sha256(repr((self.obs.shape, self.n_actions)).encode())
        digest.update(np.ascontiguousarray(self.actions, dtype=np.int64).data)
        for images in (self.obs, self.next_obs):
            for start in range(0, len(images), 4096):
                digest.update(np.ascontiguousarray(images[start : start + 4096]).data)
        if self.action_names is not None:
            digest.update(repr(self.action_names).encode())
        for name in sorted(self.groups):
            state, next_state, n_classes = (getattr(self, each)[name] for each in _GROUPED)
            digest.update(repr((name, state.shape, n_classes)).encode())
            for labels in (state, next_state):
                digest.update(np.ascontiguousarray(labels, dtype=np.int64).data)
        return digest.hexdigest()[:16]

    def save(self, path: str | Path) -> None:
        """Write a new store folder, or an ``.npz`` archive if the path ends in that."""
        path, parts = Path(path), _parts(self)
        if path.suffix != ".npz":
            store.save(path, "transitions", parts, self.about)
            return
        if path.exists():
            raise FileExistsError(f"{path} exists already; nothing was written")
        buffer = io.BytesIO()
        np.savez(buffer, **parts)
        atomic_write_bytes(path, buffer.getvalue())


@dataclass(frozen=True, eq=False)
class Rollouts:
    """Long held-out episodes: all their actions, and the frames at a few horizons.

    obs       uint8 (E, F, C, H, W): frame f of an episode comes after horizons[f] actions
    actions   integers (E, T)
    horizons  F increasing step counts, the first 0, the last at most T
    state     integers (E, F, rows, cols) or (E, F, cells), or None
    length    integers (E,): actions until the episode ended; frames past it are blank and not scored
    """

    obs: np.ndarray
    actions: np.ndarray
    horizons: tuple[int, ...]
    n_actions: int
    length: np.ndarray
    state: np.ndarray | None = None
    n_classes: int | None = None
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "horizons", tuple(int(h) for h in self.horizons))
        checks.check_images("obs", self.obs, "E, F, C, H, W")
        episodes, frames = self.obs.shape[:2]
        checks.check_integers("actions", self.actions)
        if self.actions.ndim != 2 or len(self.actions) != episodes or not self.actions.size:
            raise InputError(f"actions has shape {self.actions.shape}, expected ({episodes}, T)")
        checks.check_below("actions", self.actions, "n_actions", self.n_actions)
        rising = all(a < b for a, b in zip(self.horizons, self.horizons[1:]))
        if len(self.horizons) != frames or not rising or self.horizons[0] != 0:
            raise InputError(f"horizons must be {frames} rising step counts from 0, got {self.horizons}")
        if self.horizons[-1] > self.actions.shape[1]:
            raise InputError(f"the last horizon {self.horizons[-1]} is past the {self.actions.shape[1]} actions")
        checks.check_integers("length", self.length, (episodes,))
        if self.state is not None:
            checks.check_labels("state", self.state, (episodes, frames), self.n_classes)

    def __len__(self) -> int:
        return len(self.obs)

    def save(self, path: str | Path) -> None:
        """Write a new store folder."""
        store.save(path, "rollouts", _parts(self), self.about)


Made = TypeVar("Made", Transitions, Rollouts)


@dataclass(frozen=True)
class Splits:
    """A data folder: the splits to train on, to choose by and to test on."""

    train: Transitions
    val: Transitions | None = None
    test: Transitions | None = None
    rollout: Rollouts | None = None


def load_transitions(path: str | Path) -> Transitions:
    """Transitions from a stored folder, or from an ``.npz`` archive with the same names."""
    path = Path(path)
    if path.suffix == ".npz":
        return _build(Transitions, path, _read_npz(path))
    if not store.is_store(path) and store.is_store(path / "train"):
        raise InputError(f"{path} is a data folder with several splits; name one, such as {path / 'train'}")
    return _build(Transitions, path, store.load(path, "transitions"))


def load_rollouts(path: str | Path) -> Rollouts:
    """Roll-outs from a stored folder."""
    return _build(Rollouts, Path(path), store.load(path, "rollouts"))


def load_splits(path: str | Path) -> Splits:
    """A data folder with ``train`` and optionally ``val``, ``test``, ``rollout``; or a lone store or ``.npz``."""
    path = Path(path)
    if path.suffix == ".npz" or store.is_store(path):
        return Splits(train=load_transitions(path))
    if not path.exists():
        raise InputError(f"{path} does not exist")
    if not store.is_store(path / "train"):
        raise InputError(f"{path} is not a data folder: it has no stored split 'train'")
    found = {name: load_transitions(path / name) for name in ("val", "test") if (path / name).exists()}
    rollout = load_rollouts(path / "rollout") if (path / "rollout").exists() else None
    return Splits(train=load_transitions(path / "train"), rollout=rollout, **found)


def episode_runs(episode: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first transition, and the number of transitions, of each run of equal entries of ``episode``, (E,) each."""
    starts = np.flatnonzero(np.r_[True, episode[1:] != episode[:-1]])
    return starts, np.diff(np.r_[starts, len(episode)])


def continued(episode: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Transitions that are continued by the next one, and those that continue them: see `same_state_pairs`."""
    episode = np.asarray(episode)
    first = np.flatnonzero(episode[1:] == episode[:-1])
    return first, first + 1


def _each_group(function: Callable[[Any], Any], labels: Any) -> Any:
    """Apply a function to an array, or to each named group; None stays None."""
    if isinstance(labels, Mapping):
        return {name: function(part) for name, part in labels.items()}
    return None if labels is None else function(labels)


def _parts(made: Transitions | Rollouts) -> dict[str, Any]:
    """What is stored, by name; named groups as entries of their own, such as ``state.agent``."""
    parts: dict[str, Any] = {}
    for each in fields(made):
        value = getattr(made, each.name)
        if each.name in _GROUPED and isinstance(value, Mapping):
            parts |= {f"{each.name}.{group}": part for group, part in value.items()}
        elif each.name != "about" and value is not None:
            parts[each.name] = value
    return parts


def _grouped(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Entries such as ``state.agent`` as named groups."""
    found = dict(parts)
    for whole in _GROUPED:
        names = [name for name in parts if name.startswith(f"{whole}.")]
        if names and whole in found:
            raise InputError(f"{whole} and {names[0]} are both given; expected one array or named groups")
        if names:
            found[whole] = {name.partition(".")[2]: found.pop(name) for name in names}
    return found


def _read_npz(path: Path) -> dict[str, Any]:
    """The arrays of an archive, with single values as such; ``n_actions`` may be missing."""
    if not path.is_file():
        raise InputError(f"{path} does not exist")
    parts: dict[str, Any] = dict(store.load_npz(path))
    for name, value in parts.items():
        if name.partition(".")[0] in ("n_actions", "n_classes"):
            if value.size != 1 or value.dtype.kind not in "iu":
                raise InputError(f"{path}: {name} must be one integer, got {value.dtype} {value.shape}")
            parts[name] = int(value.item())
    if (actions := parts.get("actions")) is not None and actions.size and "n_actions" not in parts:
        checks.check_integers(f"{path}: actions", actions)
        parts["n_actions"] = int(actions.max()) + 1
    return parts


def _build(made: type[Made], path: Path, parts: Mapping[str, Any]) -> Made:
    """Transitions or roll-outs from stored parts; errors name the path."""
    try:
        parts = _grouped(parts)
        known = {each.name: each for each in fields(made)}
        required = {name for name, each in known.items() if each.default is each.default_factory is MISSING}
        if missing := required - set(parts):
            raise InputError(f"lacks {', '.join(sorted(missing))}")
        if extra := set(parts) - set(known):
            raise InputError(f"unknown arrays {', '.join(sorted(extra))}; known: {', '.join(sorted(known))}")
        return made(**parts)
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: {error}") from error
