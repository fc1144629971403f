"""The errors that users can run into. Each message says in one sentence what is wrong."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Invalid input. The message says what was got, what was expected, and the likely fix."""


class TrainingDiverged(RuntimeError):
    """A loss became infinite or NaN. The last good checkpoint is kept."""


class ExportFailed(RuntimeError):
    """The exported files do not behave like the model, and were removed."""


def unknown(kind: str, name: str, known: Iterable[str]) -> InputError:
    """The error for an unknown name: it suggests the most similar known names, or lists all of them."""
    known = sorted(known)
    similar = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, similar))}?" if similar else f"known: {', '.join(known)}"
    return InputError(f"unknown {kind} {name!r}; {hint}")
