"""Progress bars, shown only on a terminal and only if rich is installed."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any


class Bar:
    """A progress bar; without a display it does nothing."""

    def __init__(self, display: Any = None, title: str = "", total: int = 0, done: int = 0) -> None:
        self._display, self._title = display, title
        self._task = display.add_task(title, total=total, completed=done) if display else None

    def advance(self, steps: int = 1) -> None:
        if self._display:
            self._display.advance(self._task, steps)

    def describe(self, text: str) -> None:
        if self._display:
            self._display.update(self._task, description=f"{self._title}  {text}")


@contextmanager
def bar(title: str, total: int, *, done: int = 0, show: bool | None = None) -> Iterator[Bar]:
    """A progress bar on standard error. With ``show=None`` it is shown if standard error is a terminal."""
    if not (sys.stderr.isatty() if show is None else show) or find_spec("rich") is None:
        yield Bar()
        return
    from rich import progress
    from rich.console import Console

    times = progress.MofNCompleteColumn(), progress.TimeElapsedColumn(), progress.TimeRemainingColumn()
    columns = progress.TextColumn("{task.description}"), progress.BarColumn(bar_width=24), *times
    with progress.Progress(*columns, console=Console(stderr=True)) as display:
        yield Bar(display, title, total, done)
