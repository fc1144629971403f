"""Planning with a world model: from an image of the start and an image of the goal to actions.

A planner takes a `Dynamics` and a goal test, and returns a `Plan`: solved, exhausted, or out of budget.
"""

from dwmr.planning.acting import act
from dwmr.planning.agent import Agent, prepare_agent
from dwmr.planning.packing import pack
from dwmr.planning.prepared import load_agent, prepare_run
from dwmr.planning.problem import EXHAUSTED, OUT_OF_BUDGET, SOLVED, Budget, CodeGoal, Dynamics, Plan
from dwmr.planning.search import PLANNERS, find_planner

__all__ = [
    "EXHAUSTED",
    "OUT_OF_BUDGET",
    "PLANNERS",
    "SOLVED",
    "Agent",
    "Budget",
    "CodeGoal",
    "Dynamics",
    "Plan",
    "act",
    "find_planner",
    "load_agent",
    "pack",
    "prepare_agent",
    "prepare_run",
]
