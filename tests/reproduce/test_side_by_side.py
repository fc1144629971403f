"""Tasks in processes of their own: what comes back, when tasks are taken, and what is left when something is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dwmr.errors import InputError
from dwmr.reproduce.side_by_side import side_by_side


def square(number: int) -> int:
    return number * number


def end(number: int) -> int:
    os._exit(9)


def refuse(number: int) -> int:
    raise InputError(f"not {number}")


def write_and_wait(path: Path) -> None:
    path.write_text(str(os.getpid()))
    time.sleep(600)


def alive(process: int) -> bool:
    """Whether it runs: a process that has ended, but that nobody has asked about, does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition) -> bool:
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.1)
    return bool(condition())


def test_each_task_comes_back_with_its_result():
    assert sorted(side_by_side(square, iter(range(5)), jobs=2)) == [(n, n * n) for n in range(5)]


def test_a_task_is_taken_when_a_process_is_free():
    taken = []

    def tasks():
        for number in range(4):
            taken.append(number)
            yield number

    results = side_by_side(square, tasks(), jobs=2)
    next(results)
    assert taken == [0, 1]
    assert len(list(results)) == 3


def test_an_error_is_passed_on():
    with pytest.raises(InputError, match="not 3"):
        list(side_by_side(refuse, iter([3]), jobs=2))


def test_a_process_that_was_ended_is_one_clear_line():
    with pytest.raises(InputError, match="one of 2 processes was ended"):
        list(side_by_side(end, iter([1]), jobs=2))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc")
def test_a_killed_parent_leaves_no_process_behind(tmp_path):
    code = (
        "import sys; from pathlib import Path; from dwmr.reproduce.side_by_side import side_by_side; "
        "from tests.reproduce.test_side_by_side import write_and_wait; "
        "list(side_by_side(write_and_wait, iter([Path(path) for path in sys.argv[1:]]), jobs=2))"
    )
    files = [tmp_path / "one", tmp_path / "two"]
    root = Path(__file__).parents[2]
    parent = subprocess.Popen([sys.executable, "-c", code, *map(str, files)], cwd=root)
    assert wait_until(lambda: all(file.exists() and file.read_text() for file in files))
    workers = [int(file.read_text()) for file in files]
    assert all(map(alive, workers))
    parent.kill()
    parent.wait()
    assert wait_until(lambda: not any(map(alive, workers)))
