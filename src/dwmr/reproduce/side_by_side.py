"""Tasks side by side, each in a process of its own: while one of them keeps a processor busy, another has the GPU."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait as wait_for
from typing import Any, TypeVar

import torch

from dwmr.errors import InputError

Task = TypeVar("Task")
Result = TypeVar("Result")

_work: Callable[..., Any] | None = None  # what this process was started for; it keeps its data from task to task


def side_by_side(work: Callable[[Task], Result], tasks: Iterator[Task], jobs: int) -> Iterator[tuple[Task, Result]]:
    """Each task with its result, in the order they end. A task is taken from ``tasks`` once a process is free.

    Raises:
        InputError: a process was ended from outside.
    """
    threads = max(1, (os.cpu_count() or 1) // jobs)
    running: dict[Future[Result], Task] = {}
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _start, (work, threads))
    try:
        for task in tasks:
            running[pool.submit(_do, task)] = task
            if len(running) == jobs:
                yield from _ended(running)
        while running:
            yield from _ended(running)
    except BrokenProcessPool as error:
        raise InputError(f"one of {jobs} processes was ended, perhaps for want of memory; try fewer --jobs") from error
    finally:
        pool.shutdown(cancel_futures=True)


def _ended(running: dict[Future[Result], Task]) -> Iterator[tuple[Task, Result]]:
    for future in wait(running, return_when=FIRST_COMPLETED).done:
        yield running.pop(future), future.result()


def _start(work: Callable[..., Any], threads: int) -> None:
    global _work
    _work = work
    torch.set_num_threads(threads)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Nobody would wait for this process any more, and it would not be told."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait_for([parent.sentinel])
    os._exit(1)


def _do(task: Any) -> Any:
    assert _work is not None
    return _work(task)
