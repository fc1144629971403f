"""Progress bars, shown only on a terminal and only if rich is installed."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec


class Bar:
    """A progress bar, which ``update`` redraws."""

    def __init__(self, title: str, update: Callable[..., None] = lambda **changes: None) -> None:
        self._title, self._update = title, update

    def advance(self, steps: int = 1) -> None:
        self._update(advance=steps)

    def describe(self, text: str) -> None:
        self._update(description=f"{self._title}  {text}")


@contextmanager
def bar(title: str, total: int, *, done: int = 0, show: bool | None = None) -> Iterator[Bar]:
    """A progress bar on standard error. With ``show=None`` it is shown if standard error is a terminal."""
    if not (sys.stderr.isatty() if show is None else show) or find_spec("rich") is None:
        yield Bar(title)
        return
    from rich import progress
    from rich.console import Console

    times = progress.MofNCompleteColumn(), progress.TimeElapsedColumn(), progress.TimeRemainingColumn()
    columns = progress.TextColumn("{task.description}"), progress.BarColumn(bar_width=24), *times
    with progress.Progress(*columns, console=Console(stderr=True)) as display:
        yield Bar(title, partial(display.update, display.add_task(title, total=total, completed=done)))
