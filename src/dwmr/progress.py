"""Progress bars, shown only on a terminal and only if rich is installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Bar(Protocol):
    def advance(self, steps: int = 1) -> None: ...
    def describe(self, text: str) -> None: ...


class _Silent:
    def advance(self, steps: int = 1) -> None:
        pass

    def describe(self, text: str) -> None:
        pass


@contextmanager
def bar(title: str, total: int, *, done: int = 0, show: bool | None = None) -> Iterator[Bar]:
    """A progress bar on standard error. With ``show=None`` it is shown if standard error is a terminal."""
    if show is None:
        show = sys.stderr.isatty()
    try:
        from rich import progress
        from rich.console import Console
    except ImportError:
        show = False
    if not show:
        yield _Silent()
        return
    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(bar_width=24),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=Console(stderr=True)) as display:
        task = display.add_task(title, total=total, completed=done)

        class _Rich:
            def advance(self, steps: int = 1) -> None:
                display.advance(task, steps)

            def describe(self, text: str) -> None:
                display.update(task, description=f"{title}  {text}")

        yield _Rich()
