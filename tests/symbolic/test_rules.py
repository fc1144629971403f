"""Rules learned from exact models hold on boards that were never seen."""

import dataclasses

import numpy as np

from dwmr import Transitions
from dwmr.seeding import below, rng
from dwmr.symbolic import BitRules, CellRules, Layout, learn_symbols
from dwmr.symbolic.rules import sample_codes
from dwmr.worlds.actions import NAMES
from tests.symbolic.exact import ICE_LAYOUT, Tiles, ice_encode, ice_predict


def test_the_slide_is_learned_from_fifty_levels(ice_symbols):
    found = ice_symbols.fidelity
    assert found["form"] == "cells"
    assert found["states"] >= 99
    assert found["bits"] >= 99.99
    assert found["copy"] < 60
    assert found["rules"] < 30


def test_rocks_never_change(ice_symbols):
    rules = ice_symbols.rules
    names = {rules.symbols.name(rule.own) for listed in rules.by_action for rule in listed}
    assert names == {"101", "001", "110"}  # ice, agent and goal; 010 is rock


def test_a_predictor_that_errs_now_and_then_gives_the_same_rules(ice_levels, ice_val):
    def erring(codes, actions):
        after = ice_predict(codes, actions)
        wrong = below(rng(0, "errs", len(codes)), 200, len(codes)) == 0
        return np.where(wrong[:, None], codes, after)

    rules = learn_symbols(ice_encode, erring, ice_levels, ice_val, actions=NAMES[:4], layout=ICE_LAYOUT).rules
    seen = sample_codes(ice_encode, ice_predict, ice_val)
    assert (rules.predict(seen.codes, seen.actions) == seen.after).all(1).mean() >= 0.99


def test_tiles_that_swap_places_are_learned_as_cells():
    train, test = Tiles.walk(3000, 0), Tiles.walk(200, 1)
    learned = learn_symbols(Tiles.encode, Tiles.predict, train, test, actions=NAMES[:4], layout=Tiles.layout)
    assert isinstance(learned.rules, CellRules)
    assert learned.rules.symbols.count == 9
    assert learned.fidelity["states"] == 100


def gates(count: int, seed: int) -> Transitions:
    """Six bits as pixels. Action 0 turns bit 0 on where 1 and 2 are on, action 1 flips bit 3 where 4 is off."""
    codes = below(rng(seed, "gates"), 2, (count, 1, 1, 6)).astype(np.uint8)
    actions = below(rng(seed, "gate actions"), 2, count)
    after = gates_predict(gates_encode(codes), actions).reshape(codes.shape).astype(np.uint8)
    return Transitions(codes, actions, after, n_actions=2)


def gates_encode(images):
    return np.asarray(images).reshape(len(images), -1) > 0


def gates_predict(codes, actions):
    after = codes.copy()
    after[:, 0] |= (actions == 0) & codes[:, 1] & codes[:, 2]
    after[:, 3] ^= (actions == 1) & ~codes[:, 4]
    return after


def test_bits_have_the_rules_they_were_made_with():
    train, test = gates(600, 0), gates(100, 1)
    learned = learn_symbols(gates_encode, gates_predict, train, test, actions=("one", "two"))
    assert isinstance(learned.rules, BitRules)
    found = [
        (action, rule.bit, rule.own, set(rule.literals))
        for action, listed in enumerate(learned.rules.by_action)
        for rule in listed
    ]
    assert found == [
        (0, 0, 0, {(1, True), (2, True)}),
        (1, 3, 0, {(4, False)}),
        (1, 3, 1, {(4, False)}),
    ]
    assert learned.fidelity["states"] == 100


def test_codes_are_met_along_the_actions_that_were_taken(ice_val):
    met = sample_codes(ice_encode, ice_predict, ice_val)
    assert (~met.imagined).sum() == len(ice_val) == 80
    assert met.imagined.sum() == 4 * (19 + 18 + 17)  # four episodes of twenty steps
    once = met.imagined.nonzero()[0][:19]
    assert np.array_equal(met.codes[once], met.after[:19])
    assert np.array_equal(met.actions[once], ice_val.actions[1:20])
    alone = sample_codes(ice_encode, ice_predict, dataclasses.replace(ice_val, episode=None))
    assert (len(alone.codes), alone.imagined.any()) == (80, False)


def test_cells_with_too_many_symbols_get_rules_for_single_bits():
    train = gates(600, 0)

    def encode(images):
        return below(rng(0, "codes", len(images)), 2, (len(images), 192)).astype(bool)

    layout = Layout(6, 4, 8)
    learned = learn_symbols(encode, lambda codes, _: codes, train, train, actions=("one", "two"), layout=layout)
    assert isinstance(learned.rules, BitRules)
