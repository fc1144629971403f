"""PDDL means what the rules mean: a real planner finds the plans that exist, and no others."""

import re

import numpy as np
import pytest

from dwmr.errors import InputError
from dwmr.symbolic import BitRules, CellRules, fast_downward, pddl
from dwmr.symbolic.cells import Atom, Symbols
from dwmr.symbolic.fitting import Rule
from dwmr.symbolic.rules import sample_codes
from dwmr.worlds.actions import NAMES
from dwmr.worlds.registry import find_world
from tests.symbolic.exact import ROW, Tiles, experiment, ice_encode, ice_predict, row_code

SYMBOLS = Symbols(ROW, (0b00, 0b01, 0b10))
EMPTY, TOKEN, WALL = range(3)
SLIDE = CellRules(
    SYMBOLS,
    [
        Atom("nearest", (TOKEN,), "left", among=(TOKEN, WALL)),
        Atom("at", (WALL, SYMBOLS.edge), "right", 1),
    ],
    [[Rule(EMPTY, TOKEN, ((0, True), (1, True))), Rule(TOKEN, EMPTY, ((1, False),))]],
)


def solved(rules, start, goal):
    return fast_downward.solve(pddl.domain(rules, ("go",)), pddl.problem(rules, start, goal))


def test_a_slide_in_a_row(planner):
    start = row_code(0b01, 0, 0, 0b10, 0)
    assert solved(SLIDE, start, row_code(0, 0, 0b01, 0b10, 0)).plan == ("go",)
    assert np.array_equal(SLIDE.predict(start[None], np.zeros(1, int))[0], row_code(0, 0, 0b01, 0b10, 0))


def test_what_cannot_be_reached_is_exhausted(planner):
    for goal in (row_code(0, 0b01, 0, 0b10, 0), row_code(0, 0, 0b01, 0, 0)):
        answer = solved(SLIDE, row_code(0b01, 0, 0, 0b10, 0), goal)
        assert (answer.outcome, answer.plan) == ("exhausted", None)


def test_of_two_rules_the_first_counts(planner):
    anywhere = [Atom("anywhere", (WALL,)), Atom("anywhere", (TOKEN,))]
    rules = CellRules(SYMBOLS, anywhere, [[Rule(EMPTY, TOKEN, ((0, True),)), Rule(EMPTY, WALL, ((1, True),))]])
    start = row_code(0, 0, 0, 0b01, 0b10)
    assert solved(rules, start, row_code(1, 1, 1, 1, 2)).plan == ("go",)
    assert solved(rules, start, row_code(2, 2, 2, 1, 2)).outcome == "exhausted"
    assert solved(rules, row_code(0, 0, 0, 0b01, 0b01), row_code(2, 2, 2, 1, 1)).plan == ("go",)


def test_cells_farther_away(planner):
    rules = CellRules(SYMBOLS, [Atom("at", (TOKEN,), "right", 2)], [[Rule(EMPTY, WALL, ((0, True),))]])
    assert solved(rules, row_code(0, 0, 0, 0b01, 0), row_code(0, 0b10, 0, 0b01, 0)).plan == ("go",)


def test_single_bits(planner):
    flip, follow = Rule(0, 1, (), bit=0), Rule(0, 1, ((0, True),), bit=1)
    rules = BitRules(3, [[flip, follow]])
    answer = solved(rules, np.array([False, False, True]), np.array([True, True, True]))
    assert answer.plan == ("go", "go")
    assert solved(rules, np.zeros(3, bool), np.ones(3, bool)).outcome == "exhausted"


def test_one_domain_serves_all_levels(ice_symbols, planner):
    for seed in range(2000, 2006):
        found = experiment.solve(ice_symbols, ice_encode, ice_predict, find_world("iceslider").task(seed))
        assert found["reached"], seed
        assert found["predictor_agrees"]
        assert found["length"] == found["shortest"] > 8


def test_parentheses_match_and_names_are_plain(ice_symbols):
    level = find_world("iceslider").task(0)
    codes = ice_encode(np.stack([level.paint(level.start), level.paint(level.goal)]))
    for text in (pddl.domain(ice_symbols.rules, NAMES[:4]), pddl.problem(ice_symbols.rules, *codes)):
        assert text.count("(") == text.count(")")
        code = re.sub(r";.*", "", text)
        assert not set(re.findall(r"[^\s()?:a-z0-9-]", code))


def test_unknown_patterns_in_a_goal_are_refused():
    with pytest.raises(InputError, match="a pattern in row 0, column 2 that no rule knows"):
        pddl.problem(SLIDE, row_code(0, 0, 0, 0, 0), row_code(0, 0, 0b11, 0, 0))


def test_names_of_actions_must_fit():
    with pytest.raises(InputError, match="expected 1 different names"):
        pddl.domain(SLIDE, ("up", "down"))


def test_tiles_bit_by_bit(planner):
    train = Tiles.walk(2000, 0)
    rules = BitRules.fit(sample_codes(Tiles.encode, Tiles.predict, train), 4)
    start = goal = Tiles.encode(train.obs[:1])
    for action in (0, 0, 1, 1, 3):
        goal = Tiles.predict(goal, [action])
    answer = fast_downward.solve(pddl.domain(rules, NAMES[:4]), pddl.problem(rules, start[0], goal[0]))
    assert answer.plan is not None
    reached = start
    for name in answer.plan:
        reached = Tiles.predict(reached, [NAMES.index(name)])
    assert np.array_equal(reached, goal)
    assert len(answer.plan) <= 5
