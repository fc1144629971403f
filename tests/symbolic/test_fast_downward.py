"""Finding, running and reading Fast Downward."""

import importlib.util
import os
import shutil

import pytest

from dwmr.errors import InputError
from dwmr.symbolic import fast_downward

DOMAIN = "(define (domain d) (:predicates (p)) (:action a :parameters () :precondition (and) :effect (p)))"
PROBLEM = "(define (problem q) (:domain d) (:init) (:goal (p)))"


def test_a_missing_planner_is_one_clear_line(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    message = r"^Fast Downward was not found; pip install 'dwmr\[pddl\]', or put fast-downward on the path$"
    with pytest.raises(InputError, match=message):
        fast_downward.solve(DOMAIN, PROBLEM)


@pytest.mark.parametrize(("status", "outcome"), [(12, "exhausted"), (22, "out of budget")])
def test_a_planner_on_the_path_comes_first(monkeypatch, tmp_path, status, outcome):
    (tmp_path / "fast-downward").write_text(f"#!/bin/sh\nexit {status}\n")
    (tmp_path / "fast-downward").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert fast_downward.find() == [str(tmp_path / "fast-downward")]
    answer = fast_downward.solve(DOMAIN, PROBLEM)
    assert (answer.outcome, answer.plan) == (outcome, None)


def test_it_solves(planner):
    answer = fast_downward.solve(DOMAIN, PROBLEM)
    assert (answer.outcome, answer.plan) == ("solved", ("a",))
    assert fast_downward.solve(DOMAIN, PROBLEM.replace("(:init)", "(:init (p))")).plan == ()


def test_files_that_it_refuses(planner):
    with pytest.raises(InputError, match="Fast Downward ended with status"):
        fast_downward.solve(DOMAIN, "(define (problem q)")


def test_plans_are_read():
    assert fast_downward.read_plan("(up )\n(action-12 c1)\n; cost = 2 (unit cost)\n") == ("up", "action-12")
