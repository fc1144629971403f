"""The errors a user can cause or meet. Each carries one sentence that names the fault."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Something handed in from outside is wrong; the message says what was got and what was expected."""


class TrainingDiverged(RuntimeError):
    """A loss term stopped being a finite number; the last good checkpoint was kept."""


class ExportFailed(RuntimeError):
    """What was written does not do what the model does; it was removed."""


def unknown(kind: str, name: str, known: Iterable[str]) -> InputError:
    """The error for a name that is not among the known ones: it names the nearest, or lists them all."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"known: {', '.join(known)}"
    return InputError(f"unknown {kind} {name!r}; {hint}")
