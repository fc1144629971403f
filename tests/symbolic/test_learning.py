"""Rules from examples whose rules are known."""

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dwmr.seeding import below, rng
from dwmr.symbolic.fitting import Rule, apply_rules, exclusive, fit_rules, holds

TABLE = np.array(list(product([False, True], repeat=4)))
EXAMPLES = np.repeat(TABLE, 10, axis=0)


def literals(rules: list[Rule]) -> set[frozenset[tuple[int, bool]]]:
    return {frozenset(rule.literals) for rule in rules}


def test_a_conjunction_is_found_and_nothing_else():
    after = (EXAMPLES[:, 1] & ~EXAMPLES[:, 3]).astype(int)
    (rule,) = fit_rules(EXAMPLES, np.zeros(len(EXAMPLES), int), after, 2)
    assert (rule.own, rule.target, set(rule.literals)) == (0, 1, {(1, True), (3, False)})
    assert (rule.right, rule.wrong) == (40, 0)


def test_a_disjunction_becomes_short_rules():
    after = (EXAMPLES[:, 0] | EXAMPLES[:, 2]).astype(int)
    rules = fit_rules(EXAMPLES, np.zeros(len(EXAMPLES), int), after, 2)
    assert literals(rules) == {frozenset({(0, True)}), frozenset({(2, True)})}


def test_what_never_changes_has_no_rules():
    assert fit_rules(EXAMPLES, np.ones(len(EXAMPLES), int), np.ones(len(EXAMPLES), int), 2) == []


def test_each_value_has_rules_of_its_own():
    own = np.tile([0, 1], len(EXAMPLES) // 2)
    after = np.where((own == 0) & EXAMPLES[:, 0], 2, np.where((own == 1) & ~EXAMPLES[:, 1], 0, own))
    rules = fit_rules(EXAMPLES, own, after, 3)
    assert [(rule.own, rule.target, rule.literals) for rule in rules] == [(0, 2, ((0, True),)), (1, 0, ((1, False),))]


def test_of_features_that_tell_the_same_the_first_is_taken():
    doubled = np.concatenate([EXAMPLES, EXAMPLES], axis=1)
    (rule,) = fit_rules(doubled, np.zeros(len(doubled), int), doubled[:, 2].astype(int), 2)
    assert rule.literals == ((2, True),)


def test_a_few_wrong_examples_change_nothing():
    after = (EXAMPLES[:, 1] & ~EXAMPLES[:, 3]).astype(int)
    after[[3, 77]] ^= 1
    (rule,) = fit_rules(EXAMPLES, np.zeros(len(EXAMPLES), int), after, 2)
    assert set(rule.literals) == {(1, True), (3, False)}


@given(st.integers(0, 2**32 - 1))
def test_any_table_of_four_features_is_learned(seed):
    values = below(rng(seed, "table"), 3, len(TABLE))
    own, after = np.zeros(len(EXAMPLES), int), np.repeat(values, 10)
    rules = fit_rules(EXAMPLES, own, after, 3)
    assert np.array_equal(apply_rules(rules, EXAMPLES, own), after)


def test_the_first_rule_that_applies_counts():
    rules = [Rule(0, 1, ((0, True),)), Rule(0, 2, ((1, True),))]
    features = np.array([[True, True], [False, True], [False, False]])
    assert apply_rules(rules, features, np.zeros(3, int)).tolist() == [1, 2, 0]
    assert holds(rules[1], features).tolist() == [True, True, False]


def test_rules_exclude_each_other_by_a_literal_or_by_their_value():
    assert exclusive(Rule(0, 1, ((0, True), (1, True))), Rule(0, 2, ((1, False),)))
    assert exclusive(Rule(0, 1, ()), Rule(1, 2, ()))
    assert not exclusive(Rule(0, 1, ((0, True),)), Rule(0, 2, ((1, False),)))
