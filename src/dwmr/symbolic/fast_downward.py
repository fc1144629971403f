"""Fast Downward, run as a separate program; it is never imported."""

import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from dwmr.errors import InputError

OPTIONS = ["--overall-time-limit", "60s", "--plan-file", "plan", "domain.pddl", "problem.pddl"]
OPTIONS += ["--search", "astar(blind())"]  # optimal, and accepts derived predicates
OUTCOMES = {"solved": range(4), "exhausted": range(10, 13), "out of budget": range(20, 30)}  # their exit codes


class Answer(NamedTuple):
    """The outcome is solved, exhausted (the rules admit no plan) or out of budget. The plan names actions."""

    outcome: str
    plan: tuple[str, ...] | None
    seconds: float


def find() -> list[str]:
    """The command of Fast Downward: from the path, or from the wheel."""
    if found := shutil.which("fast-downward") or shutil.which("fast-downward.py"):
        return [found]
    spec = importlib.util.find_spec("up_fast_downward")
    if spec is None or spec.origin is None:
        raise InputError("Fast Downward was not found; pip install 'dwmr[pddl]', or put fast-downward on the path")
    return [sys.executable, str(Path(spec.origin).parent / "downward" / "fast-downward.py")]


def solve(domain: str, problem: str) -> Answer:
    """Find a shortest plan for a domain and a problem with Fast Downward, in at most 60 seconds."""
    command, began = [*find(), *OPTIONS], time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="dwmr-") as name:
        folder = Path(name)
        (folder / "domain.pddl").write_text(domain, encoding="utf-8")
        (folder / "problem.pddl").write_text(problem, encoding="utf-8")
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        took = time.perf_counter() - began
        for outcome, codes in OUTCOMES.items():
            if done.returncode in codes:
                plan = read_plan((folder / "plan").read_text(encoding="utf-8")) if outcome == "solved" else None
                return Answer(outcome, plan, took)
    said = " ".join((done.stdout + done.stderr).split())[-200:]
    raise InputError(f"Fast Downward ended with status {done.returncode}: {said}")


def read_plan(text: str) -> tuple[str, ...]:
    """The actions of a plan file, in order."""
    return tuple(re.findall(r"^\(\s*([^\s()]+)", text, re.MULTILINE))
