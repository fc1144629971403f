"""Checks of arrays from outside. Every message says what was got and what was expected."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from dwmr.errors import InputError


def check_images(name: str, images: np.ndarray, axes: str = "N, C, H, W") -> None:
    if images.dtype != np.uint8 or images.ndim != len(axes.split()) or not images.size:
        raise InputError(f"{name} must be uint8 ({axes}), not empty, got {images.dtype} with the shape {images.shape}")


def check_integers(name: str, values: np.ndarray, shape: tuple[int, ...] | None = None) -> None:
    if values.dtype.kind not in "iu":
        raise InputError(f"{name} must be integers, got {values.dtype}")
    if shape is not None and values.shape != shape:
        raise InputError(f"{name} has shape {values.shape}, expected {shape}")


def check_below(name: str, values: np.ndarray, limit_name: str, limit: Any) -> int:
    """Check that values lie in [0, limit), and the limit itself; the limit as an int."""
    if isinstance(limit, bool) or not isinstance(limit, int | np.integer) or limit < 1:
        raise InputError(f"{limit_name} must be a positive integer, got {limit!r}")
    low, high = int(values.min()), int(values.max())
    if low < 0 or high >= limit:
        raise InputError(f"{name} must lie in [0, {limit}), got values from {low} to {high}")
    return int(limit)


def check_action_names(names: Any, n_actions: int) -> tuple[str, ...]:
    found = tuple(names) if isinstance(names, list | tuple | np.ndarray) else ()
    proper = [str(name) for name in found if isinstance(name, str) and name.strip() and name.isprintable()]
    if not len(found) == len(set(proper)) == n_actions:
        raise InputError(f"action_names must be {n_actions} different printable names, got {names!r}")
    return tuple(proper)


def check_labels(name: str, labels: np.ndarray, lead: tuple[int, ...], n_classes: Any) -> int:
    """Check an array of labels with the given leading axes; the number of classes as an int."""
    check_integers(name, labels)
    if labels.shape[: len(lead)] != lead or labels.ndim - len(lead) not in (0, 1, 2) or 0 in labels.shape:
        axes = ", ".join(map(str, lead))
        raise InputError(
            f"{name} has shape {labels.shape}, expected ({axes}{',' * (len(lead) == 1)}), ({axes}, cells) or "
            f"({axes}, rows, cols)"
        )
    return check_below(name, labels, "n_classes", n_classes)


def check_states(state: Any, next_state: Any, count: int, n_classes: Any) -> Any:
    """Check the labels before and after an action, as arrays or as named groups of arrays.

    Returns:
        the number of classes, or a dict of them by group
    """
    if (state is None) != (next_state is None):
        raise InputError("state and next_state must be given together")
    if state is None:
        return n_classes
    groups = [set(labels) if isinstance(labels, Mapping) else None for labels in (state, next_state)]
    if groups == [None, None]:
        return _check_group(state, next_state, count, n_classes)
    if not groups[0] or groups[0] != groups[1]:
        got = " and ".join("one array" if names is None else f"groups {sorted(map(str, names))}" for names in groups)
        raise InputError(f"state and next_state must be two arrays or the same named groups, got {got}")
    if wrong := [name for name in state if not isinstance(name, str) or not re.fullmatch(r"[\w-]+", name)]:
        raise InputError(f"groups of labels are named by letters, digits, _ and -, got {wrong[0]!r}")
    given = {} if n_classes is None else n_classes
    if not isinstance(given, Mapping) or not set(given) <= set(state):
        raise InputError(f"n_classes must be a dict by group, of {', '.join(state)}, got {n_classes!r}")
    classes = {}
    for name, labels in state.items():
        try:
            classes[name] = _check_group(labels, next_state[name], count, given.get(name))
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
