"""Learned worlds against true graphs, with IceSlider models built from the true state."""

import numpy as np
import pytest

from dwmr import InputError, certify
from dwmr.evaluation.true_graph import compare_graphs
from dwmr.worlds import ice_slider
from dwmr.worlds.grid_world import GridState
from dwmr.worlds.registry import find_world
from dwmr.worlds.tasks import StateGraph

LEVELS = (1250, 1251, 1252)


def encode(images):
    """Exact: two bits a cell, its label."""
    pixels = images.reshape(len(images), 3, 8, 8, 8, 8).transpose(0, 2, 4, 1, 3, 5).reshape(len(images), 64, 1, -1)
    label = (pixels == ice_slider.IceSlider.pictures.reshape(4, -1)).all(3).argmax(2)
    return np.concatenate([label % 2 == 1, label // 2 == 1], axis=1)


def predict(codes, actions):
    """Exact: the rules themselves. A goal under the agent is remembered by no cell, so it is looked up."""
    label = codes[:, :64] + 2 * codes[:, 64:].astype(int)
    after = label.copy()
    for row, action in enumerate(actions):
        rocks, agent = label[row] == ice_slider.ROCK, int(np.flatnonzero(label[row] == ice_slider.AGENT)[0])
        state = GridState(LEVEL_OF[rocks.tobytes()], agent)
        after[row] = ICE.labels(ICE.step(state, action)).ravel()
    return np.concatenate([after % 2 == 1, after // 2 == 1], axis=1)


ICE = find_world("iceslider")
LEVEL_OF = {
    bytes(label == ice_slider.ROCK for label in level.board): level for level in map(ice_slider.make_level, LEVELS)
}


@pytest.fixture(scope="module")
def graphs():
    return ICE.true_graphs(LEVELS)


def test_an_exact_model_has_the_same_graph(graphs):
    found = compare_graphs(encode, predict, graphs)
    assert (found["levels"], found["same"]) == (3, 100)
    assert (found["edges_right"], found["moves_right"], found["collisions"]) == (100, 100, 0)
    assert found["edges"] == 4 * sum(len(graph.images) for graph in graphs)
    assert found["wrong"] == []


def test_a_wrong_edge_is_listed(graphs):
    state, action = np.argwhere(graphs[0].table != np.arange(len(graphs[0].table))[:, None])[5]
    code = encode(graphs[0].images[[state]])[0]

    def err(codes, actions):
        stuck = (codes == code).all(1) & (actions == action)
        return np.where(stuck[:, None], codes, predict(codes, actions))

    found = compare_graphs(encode, err, graphs)
    assert found["same"] == pytest.approx(200 / 3)
    assert found["edges_right"] == pytest.approx(100 * (1 - 1 / found["edges"]))
    name = graphs[0].states[state]
    assert found["wrong"] == [
        {
            "level": "level 1250",
            "state": name,
            "action": int(action),
            "expected": graphs[0].states[graphs[0].table[state, action]],
            "got": name,
        }
    ]


def test_a_model_in_which_nothing_moves(graphs):
    found = compare_graphs(encode, lambda codes, actions: codes, graphs)
    assert (found["same"], found["moves_right"]) == (0, 0)
    assert 0 < found["edges_right"] < 60  # blocked moves
    assert len(found["wrong"]) == 10


def test_collisions_within_a_level(graphs):
    found = compare_graphs(lambda images: np.zeros((len(images), 2), bool), lambda codes, actions: codes, graphs)
    assert found["collisions"] == found["edges"] // 4
    assert (found["edges_right"], found["same"]) == (100, 0)


def test_the_states_are_those_that_can_be_reached(graphs):
    level = ice_slider.make_level(1250)
    assert graphs[0].states[0] == f"row 0, column {level.start}"
    assert set(np.unique(graphs[0].table)) <= set(range(len(graphs[0].images)))
    assert ((encode(graphs[0].images)[:, :64] & encode(graphs[0].images)[:, 64:]).sum(1) == 1).all()  # one agent


def test_noisy_levels_and_digit_jump(graphs):
    noisy = find_world("iceslider-noisy").true_graphs(LEVELS[:1])
    assert np.array_equal(noisy[0].table, graphs[0].table)
    assert not np.array_equal(noisy[0].images, graphs[0].images)
    assert np.array_equal(noisy[0].images, find_world("iceslider-noisy").true_graphs(LEVELS[:1])[0].images)
    assert find_world("digitjump").true_graphs([0])[0].states[0] == "row 0, column 0"


def test_a_world_with_too_many_states_has_no_graph():
    assert find_world("8puzzle").true_graphs() is None


def test_certify_asks_about_graphs(ice, graphs):
    found = certify(encode, predict_any, ice[:40], graphs=graphs)
    (asked,) = [each for each in found["verdicts"] if each["name"] == "graph"]
    assert (asked["answer"], asked["figure"]) == ("no", 0)


def predict_any(codes, actions):
    return codes


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (lambda: StateGraph("x", np.zeros((2, 1, 1, 1)), ["a"], np.zeros((2, 4), int)), "2 images, 1 states"),
        (lambda: StateGraph("x", np.zeros((1, 1, 1, 1)), ["a"], np.full((1, 4), 7)), r"states in \[0, 1\)"),
        (lambda: compare_graphs(encode, predict, []), "at least one"),
    ],
)
def test_bad_graphs_are_refused(graph, message):
    with pytest.raises(InputError, match=message):
        graph()
