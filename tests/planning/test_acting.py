"""Acting in the true IceSlider with exact codes and models that are wrong on purpose."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dwmr.planning import EXHAUSTED, PLANNERS, Agent, CodeGoal, act
from dwmr.planning.acting import DONE, NO_ACTIONS, NO_PLAN, NO_TIME, Limits, one_step
from dwmr.planning.benchmark import TrueWorld, true_agent
from dwmr.planning.search import no_heuristic
from dwmr.seeding import rng
from dwmr.worlds.registry import tasks_of
from tests.planning.graphs import Graph, true_code


@pytest.fixture(scope="module")
def task():
    return tasks_of("iceslider", trials=1)["min_solution_8"][0]


class Deranged:
    """The true rules, but for one action, which is said to do nothing in some cells."""

    n_actions = 4

    def __init__(self, rules, action, cells):
        self.rules, self.action, self.cells = rules, action, torch.tensor(cells)

    def successors(self, words):
        children, _ = self.rules.successors(words)
        wrong = torch.isin(words[:, 0], self.cells)
        children[:, self.action] = torch.where(wrong[:, None], words, children[:, self.action])
        return children, None


def go(task, dynamics, planner=PLANNERS["breadth_first"], **more):
    goal = CodeGoal(true_code(task, task.goal))
    agent = Agent(torch.from_numpy, dynamics, bits=64)
    world = TrueWorld(task)
    return world, act(world, agent, goal, planner, no_heuristic, Limits(**more), generator=rng(0, "test"))


def test_with_the_true_rules_the_first_plan_is_the_shortest(task):
    world, episode = go(task, true_agent(task).dynamics)
    assert world.task.reached(world.state)
    assert (episode.ending, len(episode.actions), episode.replans) == (DONE, task.optimal, 0)
    assert len(episode.frames) == len(episode.expected) == task.optimal + 1
    assert task.solved_by(episode.actions)


def test_a_wrong_model_is_corrected_by_what_is_seen(task):
    """The model believes that "down" leads to the goal from everywhere; each attempt teaches it better."""

    class Hopeful(Deranged):
        def successors(self, words):
            children, _ = self.rules.successors(words)
            children[:, 3] = true_code(task, task.goal)
            return children, None

    world, episode = go(task, Hopeful(true_agent(task).dynamics, 3, []))
    assert world.task.reached(world.state)
    assert episode.ending == DONE
    assert episode.replans > 0
    assert len(episode.plans) == episode.replans + 1


def test_without_a_plan_it_tries_what_it_has_not_tried(task):
    """The model denies the first step of the only shortest way, so it finds no plan until it happens upon it."""
    start, goal = true_code(task, task.start), CodeGoal(true_code(task, task.goal))
    first = PLANNERS["breadth_first"](true_agent(task).dynamics, start, goal).actions[0]
    _, episode = go(task, Deranged(true_agent(task).dynamics, first, [task.rules.number(task.start)]))
    assert episode.random_actions or len(episode.actions) > task.optimal or episode.plans[0].outcome != EXHAUSTED


def test_it_gives_up_where_nothing_leads_on():
    class Stuck:
        def observe(self):
            return np.zeros(1, np.int64)

        def act(self, action):
            pass

    agent = Agent(torch.from_numpy, Graph([[0, 0]]), bits=64)
    goal = CodeGoal(torch.tensor([[1]]))
    episode = act(Stuck(), agent, goal, PLANNERS["astar"], no_heuristic, generator=rng(0, "test"))
    assert episode.ending == NO_PLAN
    assert {plan.outcome for plan in episode.plans} == {EXHAUSTED}
    assert set(episode.actions) == {0, 1}


def test_actions_and_time_end(task):
    assert go(task, true_agent(task).dynamics, actions=2)[1].ending == NO_ACTIONS
    assert go(task, true_agent(task).dynamics, task_seconds=0.0)[1].ending == NO_TIME


def test_codes_within_the_radius_are_not_worth_a_new_plan(task):
    """A world that shows one bit of noise: with radius 1 the plan goes on from the predicted codes."""

    class Noisy(TrueWorld):
        def observe(self):
            return super().observe() ^ (1 << 56)

    noise = torch.tensor([[1 << 56]])
    at_goal = CodeGoal(true_code(task, task.goal))

    class Flickering:
        n_actions = 4

        def successors(self, words):
            return true_agent(task).dynamics.successors(words & ~noise)

    for radius, replans in ((1, 0), (0, task.optimal)):
        world = Noisy(task)
        agent = Agent(torch.from_numpy, Flickering(), bits=64, radius=radius)
        planner, generator = PLANNERS["breadth_first"], rng(0, "test")
        episode = act(world, agent, lambda words: at_goal(words & ~noise), planner, no_heuristic, generator=generator)
        assert world.task.reached(world.state)
        assert episode.replans == replans


def test_the_controls_take_one_step_at_a_time(task):
    for planner in (one_step(), one_step(rng(1, "test"))):
        _, episode = go(task, true_agent(task).dynamics, planner=planner, actions=12)
        assert len(episode.plans) >= 1
        assert all(len(plan.actions) == 1 for plan in episode.plans)
