"""Finding, running and reading Fast Downward."""

import importlib.util
import shutil

import pytest

from dwmr.errors import InputError
from dwmr.symbolic import fast_downward

DOMAIN = "(define (domain d) (:predicates (p)) (:action a :parameters () :precondition (and) :effect (p)))"
PROBLEM = "(define (problem q) (:domain d) (:init) (:goal (p)))"


@pytest.fixture
def nothing_installed(monkeypatch):
    monkeypatch.delenv(fast_downward.VARIABLE, raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


@pytest.mark.usefixtures("nothing_installed")
def test_a_missing_planner_is_one_clear_line():
    with pytest.raises(InputError, match=r"^Fast Downward was not found; pip install 'dwmr\[pddl\]', or name it in "):
        fast_downward.solve(DOMAIN, PROBLEM)


def test_the_variable_comes_first(monkeypatch, tmp_path):
    monkeypatch.setenv(fast_downward.VARIABLE, str(tmp_path / "downward"))
    with pytest.raises(InputError, match="which is no file"):
        fast_downward.find()
    (tmp_path / "downward").touch()
    assert fast_downward.find() == [str(tmp_path / "downward")]


def test_it_solves(planner):
    answer = fast_downward.solve(DOMAIN, PROBLEM)
    assert (answer.outcome, answer.plan) == ("solved", ("a",))
    assert fast_downward.solve(DOMAIN, PROBLEM.replace("(:init)", "(:init (p))")).plan == ()


def test_a_budget_that_ends_is_said(planner):
    assert fast_downward.solve(DOMAIN, PROBLEM, seconds=0.001).outcome == "out of budget"


def test_files_that_it_refuses(planner):
    with pytest.raises(InputError, match="Fast Downward ended with status"):
        fast_downward.solve(DOMAIN, "(define (problem q)")


def test_plans_are_read():
    assert fast_downward.read_plan("(up )\n(action-12 c1)\n; cost = 2 (unit cost)\n") == ("up", "action-12")
