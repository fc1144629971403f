"""What a world model learns from: transitions, and long episodes to test it on."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dwmr.data import store
from dwmr.errors import InputError
from dwmr.files import atomic_write_bytes

HORIZONS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


@dataclass(frozen=True, eq=False)
class Transitions:
    """N transitions (image, action, next image), and the symbolic states where they are known.

    obs, next_obs      uint8 (N, C, H, W)
    actions            integers (N,) in [0, n_actions)
    state, next_state  integers (N, rows, cols) or (N, cells) in [0, n_classes), or None
    episode            integers (N,): transitions t and t+1 of one episode are consecutive, or None
    """

    obs: np.ndarray
    actions: np.ndarray
    next_obs: np.ndarray
    n_actions: int
    state: np.ndarray | None = None
    next_state: np.ndarray | None = None
    n_classes: int | None = None
    episode: np.ndarray | None = None
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("obs", "actions", "next_obs", "state", "next_state", "episode"):
            value = getattr(self, name)
            optional = name in ("state", "next_state", "episode")
            if not isinstance(value, np.ndarray) and not (optional and value is None):
                object.__setattr__(self, name, np.asarray(value))
        _check_images("obs", self.obs)
        _check_images("next_obs", self.next_obs)
        if self.obs.shape != self.next_obs.shape:
            raise InputError(f"obs has shape {self.obs.shape} but next_obs {self.next_obs.shape}")
        count = len(self.obs)
        _check_actions(self.actions, (count,), self.n_actions)
        object.__setattr__(self, "n_actions", int(self.n_actions))
        if (self.state is None) != (self.next_state is None):
            raise InputError("state and next_state must be given together")
        if self.state is not None and self.next_state is not None:
            if self.n_classes is None:
                _check_integers("state", self.state)
                _check_integers("next_state", self.next_state)
                highest = max(int(self.state.max(initial=0)), int(self.next_state.max(initial=0)))
                object.__setattr__(self, "n_classes", highest + 1)
            _check_states("state", self.state, (count,), self.n_classes)
            _check_states("next_state", self.next_state, (count,), self.n_classes)
            object.__setattr__(self, "n_classes", _check_count("n_classes", self.n_classes))
            if self.state.shape != self.next_state.shape:
                raise InputError(f"state has shape {self.state.shape} but next_state {self.next_state.shape}")
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
        arrays = {name: array[index] for name, array in self._arrays().items()}
        return Transitions(**arrays, n_actions=self.n_actions, n_classes=self.n_classes, about=self.about)

    def fingerprint(self) -> str:
        """A short name for this very data: shapes, actions and every pixel."""
        digest = hashlib.sha256(repr((self.obs.shape, self.n_actions)).encode())
        digest.update(np.ascontiguousarray(self.actions, dtype=np.int64).data)
        for images in (self.obs, self.next_obs):
            for start in range(0, len(images), 4096):
                digest.update(np.ascontiguousarray(images[start : start + 4096]).data)
        return digest.hexdigest()[:16]

    def save(self, path: str | Path) -> None:
        """Write a new store folder, or an ``.npz`` archive when the path ends so."""
        path = Path(path)
        values = {"n_actions": self.n_actions, "n_classes": self.n_classes}
        if path.suffix == ".npz":
            if path.exists():
                raise FileExistsError(f"{path} exists already; nothing was written")
            known: dict[str, Any] = {name: np.asarray(value) for name, value in values.items() if value is not None}
            buffer = io.BytesIO()
            np.savez(buffer, **(known | self._arrays()))
            atomic_write_bytes(path, buffer.getvalue())
        else:
            store.save(path, "transitions", store.Stored(self._arrays(), values, dict(self.about)))

    def _arrays(self) -> dict[str, np.ndarray]:
        names = ("obs", "actions", "next_obs", "state", "next_state", "episode")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


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
        for name in ("n_actions", "n_classes"):
            if name in arrays:
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


def _make_transitions(path: Path, parts: dict[str, Any]) -> Transitions:
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
    if states.shape[: len(lead)] != lead or cell_axes not in (1, 2) or 0 in states.shape:
        raise InputError(f"{name} has shape {states.shape}, expected {(*lead, 'rows', 'cols')}")
    n_classes = _check_count("n_classes", n_classes)
    low, high = int(states.min()), int(states.max())
    if low < 0 or high >= n_classes:
        raise InputError(f"{name} must lie in [0, {n_classes}), got values from {low} to {high}")
