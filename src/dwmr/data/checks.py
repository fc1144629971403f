"""Checks of arrays from outside. Every message says what was got and what was expected."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from dwmr.errors import InputError


def check_images(name: str, images: np.ndarray) -> None:
    if images.dtype != np.uint8:
        nan = images.dtype.kind == "f" and bool(np.isnan(images).any())
        detail = ", and it holds NaN" if nan else ""
        raise InputError(f"{name} must be uint8 (0 to 255), got {images.dtype}{detail}")
    if images.ndim != 4:
        raise InputError(f"{name} must have the axes (N, C, H, W), got shape {images.shape}")
    if 0 in images.shape:
        raise InputError(f"{name} is empty: its shape is {images.shape}")


def check_integers(name: str, values: np.ndarray, shape: tuple[int, ...] | None = None) -> None:
    if values.dtype.kind not in "iu":
        raise InputError(f"{name} must be integers, got {values.dtype}")
    if shape is not None and values.shape != shape:
        raise InputError(f"{name} has shape {values.shape}, expected {shape}")


def check_count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError(f"{name} must be a positive integer, got {value!r}")
    return int(value)


def check_actions(actions: np.ndarray, shape: tuple[int, ...], n_actions: Any) -> int:
    """Check the actions; the number of different ones as an int."""
    check_integers("actions", actions, shape)
    n_actions = check_count("n_actions", n_actions)
    if not actions.size:
        raise InputError(f"actions is empty: its shape is {actions.shape}")
    _check_range("actions", actions, n_actions)
    return n_actions


def check_action_names(names: Any, n_actions: int) -> tuple[str, ...]:
    found = tuple(names) if isinstance(names, list | tuple | np.ndarray) else (names,)
    if isinstance(names, str) or not all(isinstance(name, str) for name in found):
        raise InputError(f"action_names must be a tuple of strings, got {names!r}")
    if len(found) != n_actions:
        raise InputError(f"action_names must name all {n_actions} actions, got {len(found)} names: {found}")
    if len(set(found)) != len(found):
        raise InputError(f"action_names must differ from each other, got {found}")
    if wrong := [name for name in found if not name.strip() or not name.isprintable()]:
        raise InputError(f"action_names must be printable and not empty, got {wrong[0]!r}")
    return tuple(map(str, found))


def check_labels(name: str, labels: np.ndarray, lead: tuple[int, ...], n_classes: Any) -> int:
    """Check an array of labels with the given leading axes; the number of classes as an int."""
    check_integers(name, labels)
    if labels.shape[: len(lead)] != lead or labels.ndim - len(lead) not in (0, 1, 2) or 0 in labels.shape:
        axes = ", ".join(map(str, lead))
        raise InputError(
            f"{name} has shape {labels.shape}, expected ({axes}{',' * (len(lead) == 1)}), ({axes}, cells) or "
            f"({axes}, rows, cols)"
        )
    n_classes = check_count("n_classes", n_classes)
    _check_range(name, labels, n_classes)
    return n_classes


def check_states(state: Any, next_state: Any, count: int, n_classes: Any) -> Any:
    """Check the labels before and after an action, as arrays or as named groups of arrays.

    Returns:
        the number of classes, or a dict of them by group
    """
    if (state is None) != (next_state is None):
        raise InputError("state and next_state must be given together")
    if state is None:
        return n_classes
    if isinstance(state, Mapping) != isinstance(next_state, Mapping):
        raise InputError("state and next_state must be of one kind, got an array and a dict")
    if not isinstance(state, Mapping):
        return _check_group(state, next_state, count, n_classes)
    if not state:
        raise InputError("state is an empty dict, expected at least one named group of labels")
    if wrong := [name for name in state if not isinstance(name, str) or not re.fullmatch(r"[\w-]+", name)]:
        raise InputError(f"groups of labels are named by letters, digits, _ and -, got {wrong[0]!r}")
    if set(state) != set(next_state):
        raise InputError(f"state has the groups {', '.join(state)} but next_state {', '.join(map(str, next_state))}")
    if n_classes is not None and not isinstance(n_classes, Mapping):
        raise InputError(f"n_classes must be a dict by group as state is, got {n_classes!r}")
    if extra := [name for name in n_classes or () if name not in state]:
        raise InputError(f"n_classes names the group {extra[0]!r}, but state has {', '.join(state)}")
    classes = {}
    for name, labels in state.items():
        try:
            classes[name] = _check_group(labels, next_state[name], count, (n_classes or {}).get(name))
        except InputError as error:
            raise InputError(f"group {name!r}: {error}") from error
    return classes


def _check_group(state: np.ndarray, next_state: np.ndarray, count: int, n_classes: Any) -> int:
    if n_classes is None:
        check_integers("state", state)
        check_integers("next_state", next_state)
        n_classes = 1 + max(int(labels.max(initial=0)) for labels in (state, next_state))
    check_labels("state", state, (count,), n_classes)
    n_classes = check_labels("next_state", next_state, (count,), n_classes)
    if state.shape != next_state.shape:
        raise InputError(f"state has shape {state.shape} but next_state {next_state.shape}")
    return n_classes


def _check_range(name: str, values: np.ndarray, limit: int) -> None:
    low, high = int(values.min()), int(values.max())
    if low < 0 or high >= limit:
        raise InputError(f"{name} must lie in [0, {limit}), got values from {low} to {high}")
