"""What a world model learns from: transitions, and long episodes to test it on."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dwmr.data import store
from dwmr.errors import InputError, unknown
from dwmr.files import atomic_write_bytes

HORIZONS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)

Labels = np.ndarray | Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Transitions:
    """N transitions (image, action, next image), and the symbolic states where they are known.

    obs, next_obs      uint8 (N, C, H, W)
    actions            integers (N,) in [0, n_actions)
    state, next_state  labels: integers (N,), (N, cells) or (N, rows, cols) in [0, n_classes), or named groups of them,
                       such as {"agent": (N,), "walls": (N, rows, cols)}, or None
    n_classes          the number of classes, or with named groups a dict of them; by default the highest label plus one
    episode            integers (N,): transitions t and t+1 of one episode are consecutive, or None
    action_names       n_actions different names, or None
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
        for name in ("obs", "actions", "next_obs", "state", "next_state", "episode"):
            value = getattr(self, name)
            optional = name in ("state", "next_state", "episode")
            grouped = name in ("state", "next_state") and isinstance(value, Mapping)
            if not isinstance(value, np.ndarray) and not grouped and not (optional and value is None):
                object.__setattr__(self, name, np.asarray(value))
        _check_images("obs", self.obs)
        _check_images("next_obs", self.next_obs)
        if self.obs.shape != self.next_obs.shape:
            raise InputError(f"obs has shape {self.obs.shape} but next_obs {self.next_obs.shape}")
        count = len(self.obs)
        _check_actions(self.actions, (count,), self.n_actions)
        object.__setattr__(self, "n_actions", int(self.n_actions))
        if self.action_names is not None:
            object.__setattr__(self, "action_names", _check_action_names(self.action_names, self.n_actions))
        if (self.state is None) != (self.next_state is None):
            raise InputError("state and next_state must be given together")
        if isinstance(self.state, Mapping) or isinstance(self.next_state, Mapping):
            groups = _check_groups(self.state, self.next_state, count, self.n_classes)
            for name, values in zip(("state", "next_state", "n_classes"), groups, strict=True):
                object.__setattr__(self, name, values)
        elif self.state is not None and self.next_state is not None:
            n_classes = _check_labels("state", self.state, "next_state", self.next_state, count, self.n_classes)
            object.__setattr__(self, "n_classes", n_classes)
        if self.episode is not None:
            _check_integers("episode", self.episode)
            if self.episode.shape != (count,):
                raise InputError(f"episode has shape {self.episode.shape}, expected ({count},)")

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
        """A run of consecutive transitions (a view, no copy)."""
        if not isinstance(index, slice):
            raise TypeError(f"transitions are indexed by slices, got {type(index).__name__}")
        if index.step not in (None, 1):
            raise InputError(f"a slice of transitions must be consecutive, got a step of {index.step}")
        cut: dict[str, Any] = {}
        for name in ("obs", "actions", "next_obs", "state", "next_state", "episode"):
            value = getattr(self, name)
            if isinstance(value, Mapping):
                cut[name] = {group: labels[index] for group, labels in value.items()}
            elif value is not None:
                cut[name] = value[index]
        return replace(self, **cut)

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the labels' groups; none for a single array or without labels."""
        return tuple(self.state) if isinstance(self.state, Mapping) else ()

    def group(self, name: str) -> Transitions:
        """The same transitions with one group's labels alone."""
        if name not in self.groups:
            raise unknown("group of labels", name, self.groups)
        assert isinstance(self.state, Mapping)
        assert isinstance(self.next_state, Mapping)
        assert isinstance(self.n_classes, Mapping)
        return replace(self, state=self.state[name], next_state=self.next_state[name], n_classes=self.n_classes[name])

    def board_labels(self, purpose: str) -> tuple[np.ndarray, np.ndarray, int] | None:
        """The labels as single arrays: state, next_state and n_classes; None without labels.

        Raises:
            InputError: there are named groups; the message says that ``purpose`` needs a board.
        """
        if self.groups:
            raise InputError(
                f"{purpose} needs labels in one array, but these are in groups ({', '.join(self.groups)}); "
                f"choose one with Transitions.group"
            )
        if self.state is None or self.next_state is None:
            return None
        assert isinstance(self.n_classes, int)
        return np.asarray(self.state), np.asarray(self.next_state), self.n_classes

    def flat_labels(self) -> tuple[np.ndarray, np.ndarray] | None:
        """state and next_state as (N, labels), the groups side by side; rows are equal where states are."""
        if self.state is None or self.next_state is None:
            return None
        first, second = (
            [
                np.asarray(part).reshape(len(self), -1)
                for part in (each.values() if isinstance(each, Mapping) else [each])
            ]
            for each in (self.state, self.next_state)
        )
        return np.concatenate(first, axis=1), np.concatenate(second, axis=1)

    def same_state_pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of frames that show the same state, because transition t+1 continues t in the same episode.

        Returns:
            first, second: int64 (P,) each; ``next_obs[first]`` and ``obs[second]`` show the same states

        Raises:
            InputError: the transitions have no ``episode``.

        Example:
            >>> first, second = transitions.same_state_pairs()  # episode 0, 0, 0, 1, 1
            >>> first, second
            (array([0, 1, 3]), array([1, 2, 4]))
        """
        if self.episode is None:
            raise InputError("this data has no `episode`, which says which transitions follow each other")
        return continued(self.episode)

    def fingerprint(self) -> str:
        """A short name for this very data: shapes, actions and every pixel, action names and named groups of labels."""
        digest = hashlib.sha256(repr((self.obs.shape, self.n_actions)).encode())
        digest.update(np.ascontiguousarray(self.actions, dtype=np.int64).data)
        for images in (self.obs, self.next_obs):
            for start in range(0, len(images), 4096):
                digest.update(np.ascontiguousarray(images[start : start + 4096]).data)
        if self.action_names is not None:
            digest.update(repr(self.action_names).encode())
        for name in sorted(self.groups):
            group = self.group(name).board_labels("a fingerprint")
            assert group is not None
            state, next_state, n_classes = group
            digest.update(repr((name, state.shape, n_classes)).encode())
            for labels in (state, next_state):
                digest.update(np.ascontiguousarray(labels, dtype=np.int64).data)
        return digest.hexdigest()[:16]

    def save(self, path: str | Path) -> None:
        """Write a new store folder, or an ``.npz`` archive when the path ends so."""
        path = Path(path)
        values: dict[str, Any] = {"n_actions": self.n_actions, "n_classes": self.n_classes}
        if self.action_names is not None:
            values["action_names"] = list(self.action_names)
        if path.suffix == ".npz":
            if path.exists():
                raise FileExistsError(f"{path} exists already; nothing was written")
            known = {name: np.asarray(value) for name, value in _flat(values).items() if value is not None}
            buffer = io.BytesIO()
            np.savez(buffer, **(known | self._arrays()))  # type: ignore[arg-type]
            atomic_write_bytes(path, buffer.getvalue())
        else:
            store.save(path, "transitions", store.Stored(self._arrays(), values, dict(self.about)))

    def _arrays(self) -> dict[str, np.ndarray]:
        names = ("obs", "actions", "next_obs", "state", "next_state", "episode")
        return _flat({name: getattr(self, name) for name in names if getattr(self, name) is not None})


@dataclass(frozen=True, eq=False)
class Rollouts:
    """Long held-out episodes: all their actions, and the frames at a few horizons.

    obs       uint8 (E, F, C, H, W): frame f of an episode is what was seen after horizons[f] actions
    actions   integers (E, T)
    horizons  F increasing step counts, the first 0, the last at most T
    state     integers (E, F, rows, cols) or (E, F, cells), or None
    length    integers (E,): how many actions the episode lasted; frames past it are blank and not scored
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
        if self.obs.ndim != 5 or self.obs.dtype != np.uint8:
            raise InputError(f"obs must be uint8 (E, F, C, H, W), got {self.obs.dtype} with {self.obs.ndim} axes")
        episodes, frames = self.obs.shape[:2]
        if self.actions.ndim != 2 or len(self.actions) != episodes:
            raise InputError(f"actions has shape {self.actions.shape}, expected ({episodes}, T)")
        _check_actions(self.actions, self.actions.shape, self.n_actions)
        rising = all(a < b for a, b in zip(self.horizons, self.horizons[1:]))
        if len(self.horizons) != frames or not rising or self.horizons[0] != 0:
            raise InputError(f"horizons must be {frames} rising step counts from 0, got {self.horizons}")
        if self.horizons[-1] > self.actions.shape[1]:
            raise InputError(f"the last horizon {self.horizons[-1]} is past the {self.actions.shape[1]} actions")
        if self.length.shape != (episodes,):
            raise InputError(f"length has shape {self.length.shape}, expected ({episodes},)")
        if self.state is not None:
            _check_states("state", self.state, (episodes, frames), self.n_classes)

    def __len__(self) -> int:
        return len(self.obs)

    def save(self, path: str | Path) -> None:
        arrays = {"obs": self.obs, "actions": self.actions, "length": self.length}
        if self.state is not None:
            arrays["state"] = self.state
        values = {
            "n_actions": self.n_actions,
            "n_classes": self.n_classes,
            "horizons": list(self.horizons),
        }
        store.save(path, "rollouts", store.Stored(arrays, values, dict(self.about)))


@dataclass(frozen=True)
class Splits:
    """A data folder: what to learn from, choose by, and be judged on."""

    train: Transitions
    val: Transitions | None = None
    test: Transitions | None = None
    rollout: Rollouts | None = None


def load_transitions(path: str | Path) -> Transitions:
    """Transitions from a stored folder, or from an ``.npz`` archive with the same names."""
    path = Path(path)
    if path.suffix == ".npz":
        if not path.is_file():
            raise InputError(f"{path} does not exist")
        arrays = store.load_npz(path)
        actions = arrays.get("actions")
        if "n_actions" not in arrays and actions is not None and actions.size:
            _check_integers(f"{path}: actions", actions)
            arrays["n_actions"] = np.asarray(int(actions.max()) + 1)
        values: dict[str, Any] = {}
        if "action_names" in arrays:
            names = arrays.pop("action_names")
            if names.dtype.kind != "U":
                raise InputError(f"{path}: action_names must be strings, got {names.dtype}")
            values["action_names"] = tuple(names.tolist())
        for name in [each for each in arrays if each in ("n_actions", "n_classes") or each.startswith("n_classes.")]:
            value = arrays.pop(name)
            if value.size != 1 or value.dtype.kind not in "iu":
                raise InputError(f"{path}: {name} must be one integer, got {value.dtype} {value.shape}")
            values[name] = int(value.item())
        return _make_transitions(path, {**arrays, **values})
    if not store.is_store(path) and store.is_store(path / "train"):
        raise InputError(f"{path} is a data folder with several splits; name one, such as {path / 'train'}")
    stored = store.load(path, "transitions")
    return _make_transitions(path, {**stored.arrays, **stored.values, "about": stored.about})


def load_rollouts(path: str | Path) -> Rollouts:
    stored = store.load(path, "rollouts")
    try:
        parts: dict[str, Any] = {**stored.arrays, **stored.values, "about": stored.about}
        return Rollouts(**parts)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: {error}") from error


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


def continued(episode: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Transitions that are continued by the next one, and those that continue them: see `same_state_pairs`."""
    episode = np.asarray(episode)
    first = np.flatnonzero(episode[1:] == episode[:-1])
    return first, first + 1


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Named groups under names of their own, such as ``state.agent``."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= {f"{name}.{group}": part for group, part in value.items()}
        else:
            found[name] = value
    return found


def _grouped(parts: Mapping[str, Any]) -> dict[str, Any]:
    """`_flat` undone."""
    found = {name: value for name, value in parts.items() if "." not in name}
    for name, value in parts.items():
        field_name, dot, group = name.partition(".")
        if dot and field_name in ("state", "next_state", "n_classes"):
            groups = found.setdefault(field_name, {})
            if not isinstance(groups, dict):
                raise InputError(f"{field_name} and {name} are both given; expected one array or named groups")
            groups[group] = value
        elif dot:
            found[name] = value
    return found


def _make_transitions(path: Path, parts: dict[str, Any]) -> Transitions:
    try:
        parts = _grouped(parts)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    known = set(Transitions.__dataclass_fields__)
    missing = {"obs", "actions", "next_obs", "n_actions"} - set(parts)
    if missing:
        raise InputError(f"{path} lacks {', '.join(sorted(missing))}")
    extra = set(parts) - known
    if extra:
        raise InputError(f"{path} holds unknown arrays {', '.join(sorted(extra))}; known: {', '.join(sorted(known))}")
    try:
        return Transitions(**parts)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _check_images(name: str, images: np.ndarray) -> None:
    if images.dtype != np.uint8:
        nan = images.dtype.kind == "f" and bool(np.isnan(images).any())
        detail = ", and it holds NaN" if nan else ""
        raise InputError(f"{name} must be uint8 (0 to 255), got {images.dtype}{detail}")
    if images.ndim != 4:
        raise InputError(f"{name} must have the axes (N, C, H, W), got shape {images.shape}")
    if 0 in images.shape:
        raise InputError(f"{name} is empty: its shape is {images.shape}")


def _check_integers(name: str, values: np.ndarray) -> None:
    if values.dtype.kind not in "iu":
        raise InputError(f"{name} must be integers, got {values.dtype}")


def _check_count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError(f"{name} must be a positive integer, got {value!r}")
    return int(value)


def _check_actions(actions: np.ndarray, shape: tuple[int, ...], n_actions: int) -> None:
    _check_integers("actions", actions)
    if actions.shape != shape:
        raise InputError(f"actions has shape {actions.shape}, expected {shape}")
    _check_count("n_actions", n_actions)
    if not actions.size:
        raise InputError(f"actions is empty: its shape is {actions.shape}")
    low, high = int(actions.min()), int(actions.max())
    if low < 0 or high >= n_actions:
        raise InputError(f"actions must lie in [0, {n_actions}), got values from {low} to {high}")


def _check_states(name: str, states: np.ndarray, lead: tuple[int, ...], n_classes: int | None) -> None:
    _check_integers(name, states)
    cell_axes = states.ndim - len(lead)
    if states.shape[: len(lead)] != lead or cell_axes not in (0, 1, 2) or 0 in states.shape:
        axes = ", ".join(map(str, lead))
        raise InputError(
            f"{name} has shape {states.shape}, expected ({axes}{',' * (len(lead) == 1)}), ({axes}, cells) or "
            f"({axes}, rows, cols)"
        )
    n_classes = _check_count("n_classes", n_classes)
    low, high = int(states.min()), int(states.max())
    if low < 0 or high >= n_classes:
        raise InputError(f"{name} must lie in [0, {n_classes}), got values from {low} to {high}")


def _check_labels(
    name: str, states: np.ndarray, next_name: str, next_states: np.ndarray, count: int, n_classes: Any
) -> int:
    """Check the labels before and after; the number of their classes."""
    if n_classes is None:
        _check_integers(name, states)
        _check_integers(next_name, next_states)
        n_classes = max(int(states.max(initial=0)), int(next_states.max(initial=0))) + 1
    _check_states(name, states, (count,), n_classes)
    _check_states(next_name, next_states, (count,), n_classes)
    if states.shape != next_states.shape:
        raise InputError(f"{name} has shape {states.shape} but {next_name} {next_states.shape}")
    return int(n_classes)


def _check_groups(
    state: Any, next_state: Any, count: int, n_classes: Any
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, int]]:
    """Check named groups of labels; all three by name, in the order of ``state``."""
    if not isinstance(state, Mapping) or not isinstance(next_state, Mapping):
        got, other = ("a dict", "an array") if isinstance(state, Mapping) else ("an array", "a dict")
        raise InputError(f"state and next_state must be of one kind, got {got} and {other}")
    if not state:
        raise InputError("state is an empty dict, expected at least one named group of labels")
    for name in (*state, *next_state):
        if not isinstance(name, str) or not re.fullmatch(r"[\w-]+", name):
            raise InputError(f"groups of labels are named by letters, digits, _ and -, got {name!r}")
    if set(state) != set(next_state):
        raise InputError(f"state has the groups {', '.join(state)} but next_state {', '.join(next_state) or 'none'}")
    if n_classes is not None and not isinstance(n_classes, Mapping):
        raise InputError(f"n_classes must be a dict by group as state is, got {n_classes!r}")
    classes = dict(n_classes or {})
    if extra := [name for name in classes if name not in state]:
        raise InputError(f"n_classes names the group {extra[0]!r}, but state has {', '.join(state)}")
    states = {name: np.asanyarray(state[name]) for name in state}
    next_states = {name: np.asanyarray(next_state[name]) for name in state}
    for name, values in states.items():
        try:
            classes[name] = _check_labels("state", values, "next_state", next_states[name], count, classes.get(name))
        except InputError as error:
            raise InputError(f"group {name!r}: {error}") from error
    return states, next_states, {name: classes[name] for name in states}


def _check_action_names(names: Any, n_actions: int) -> tuple[str, ...]:
    found = tuple(names) if isinstance(names, list | tuple | np.ndarray) else names
    if not isinstance(found, tuple) or not all(isinstance(name, str) for name in found):
        raise InputError(f"action_names must be a tuple of strings, got {names!r}")
    if len(found) != n_actions:
        raise InputError(f"action_names must name all {n_actions} actions, got {len(found)} names: {found}")
    if len(set(found)) != len(found):
        raise InputError(f"action_names must differ from each other, got {found}")
    if wrong := [name for name in found if not name.strip() or not name.isprintable()]:
        raise InputError(f"action_names must be printable and not empty, got {wrong[0]!r}")
    return tuple(map(str, found))
