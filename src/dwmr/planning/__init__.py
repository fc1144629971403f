"""Planning with a world model: from an image of now and an image of the goal to actions.

A planner is given a `Dynamics` and a goal test, and answers with a `Plan`: solved, exhausted, or out of budget.
"""

from dwmr.planning.acting import Episode, World, act
from dwmr.planning.agent import Agent, agent_of, prepare_agent
from dwmr.planning.goals import BoardGoal, CodeGoal, board_goal, choose_radius
from dwmr.planning.packing import pack, unpack
from dwmr.planning.problem import EXHAUSTED, OUT_OF_BUDGET, SOLVED, Budget, Dynamics, Goal, Heuristic, Plan
from dwmr.planning.search import PLANNERS, find_planner

__all__ = [
    "EXHAUSTED",
    "OUT_OF_BUDGET",
    "PLANNERS",
    "SOLVED",
    "Agent",
    "BoardGoal",
    "Budget",
    "CodeGoal",
    "Dynamics",
    "Episode",
    "Goal",
    "Heuristic",
    "Plan",
    "World",
    "act",
    "agent_of",
    "board_goal",
    "choose_radius",
    "find_planner",
    "pack",
    "prepare_agent",
    "unpack",
]
