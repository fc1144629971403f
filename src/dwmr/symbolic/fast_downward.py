"""Fast Downward, run as a separate program; it is never imported."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from dwmr.errors import InputError

VARIABLE = "DWMR_FAST_DOWNWARD"
OPTIMAL = "astar(blind())"
SECONDS = 60.0  # the time it may take
SOLVED, EXHAUSTED = {0, 1, 2, 3}, {10, 11, 12}  # exit codes; 10 and 11 are proofs, 12 an incomplete search


@dataclass(frozen=True)
class Answer:
    """The outcome is solved, exhausted (the rules admit no plan) or out of budget. The plan names actions."""

    outcome: str
    plan: tuple[str, ...] | None
    seconds: float


def find() -> list[str]:
    """The command of Fast Downward: from ``$DWMR_FAST_DOWNWARD``, from the path, or from the wheel.

    Raises:
        InputError: there is none.
    """
    if own := os.environ.get(VARIABLE):
        if not Path(own).is_file():
            raise InputError(f"${VARIABLE} names {own}, which is no file")
        return [sys.executable, own] if own.endswith(".py") else [own]
    if found := shutil.which("fast-downward") or shutil.which("fast-downward.py"):
        return [found]
    spec = importlib.util.find_spec("up_fast_downward")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        script = Path(folder) / "downward" / "fast-downward.py"
        if script.is_file():
            return [sys.executable, str(script)]
    raise InputError(f"Fast Downward was not found; pip install 'dwmr[pddl]', or name it in ${VARIABLE}")


def solve(domain: str, problem: str, *, search: str = OPTIMAL, seconds: float = SECONDS) -> Answer:
    """Run Fast Downward on a domain and a problem.

    Raises:
        InputError: it is missing, or it refuses the files.
    """
    command = [*find(), "--plan-file", "plan", "domain.pddl", "problem.pddl", "--search", search]
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="dwmr-") as name:
        folder = Path(name)
        (folder / "domain.pddl").write_text(domain, encoding="utf-8")
        (folder / "problem.pddl").write_text(problem, encoding="utf-8")
        status, message = _run(command, folder, seconds)
        took = time.perf_counter() - began
        if status in SOLVED:
            return Answer("solved", read_plan((folder / "plan").read_text(encoding="utf-8")), took)
    if status in EXHAUSTED:
        return Answer("exhausted", None, took)
    if status is None or 20 <= status < 30:
        return Answer("out of budget", None, took)
    raise InputError(f"Fast Downward ended with status {status}: {message}")


def _run(command: list[str], folder: Path, seconds: float) -> tuple[int | None, str]:
    """The exit status, None when time was up, and the last line of output. Its child processes end with it."""
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        out, err = process.communicate(timeout=seconds)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            return None, ""
        raise
    return process.returncode, (err.strip() or out.strip() or "nothing").splitlines()[-1]


def read_plan(text: str) -> tuple[str, ...]:
    """The actions of a plan file, in order."""
    return tuple(re.findall(r"^\(\s*([^\s()]+)", text, re.MULTILINE))
