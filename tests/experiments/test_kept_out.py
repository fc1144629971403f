"""The worlds kept out of development are fair, and the command works: on a stand-in, never on the worlds themselves."""

import json

import numpy as np
import pytest

import dwmr
from dwmr.seeding import below, rng
from experiments import kept_out
from experiments.kept_out import KINDS, LEVELS, STATES, Sizes, World, collect, split_of_level

SMALL = Sizes(train=400, val=100, test=200, steps=20, rollouts=3)


class Corridor(World):
    """A light that moves along eight cells, below a pattern that differs between levels."""

    name = "corridor"
    actions = ("left", "right")
    n_classes = 2
    image_shape = (1, 24, 48)

    def start(self, generator):
        return np.concatenate([below(generator, 2, 8), np.eye(8, dtype=np.int64)[below(generator, 8, 1)[0]]])

    def step(self, state, action):
        place = np.clip(state[8:].argmax() + (-1, 1)[action], 0, 7)
        return np.concatenate([state[:8], np.eye(8, dtype=np.int64)[place]])

    def paint(self, states):
        return (255 * states.reshape(-1, 1, 2, 8)).astype(np.uint8).repeat(12, axis=2).repeat(6, axis=3)

    def level(self, state):
        return state[:8]


@pytest.fixture(params=(*KINDS, Corridor), ids=lambda kind: kind.name)
def world(request):
    return request.param()


def walk(world, steps=400):
    """States of episodes of 20 steps, and the actions taken."""
    generator = rng(0, world.name, "test")
    states, actions = [], below(generator, len(world.actions), steps).tolist()
    for count, action in enumerate(actions):
        before = world.start(generator) if count % 20 == 0 else states[-1][1]
        states.append((before, world.step(before, action)))
    return states, actions


def test_names_differ():
    assert len({kind.name for kind in KINDS}) == len(KINDS)


def test_steps_are_deterministic_and_leave_the_state_as_it_was(world):
    again = type(world)()
    for (before, after), action in zip(*walk(world), strict=True):
        kept = before.copy()
        assert np.array_equal(again.step(before, action), after)
        assert np.array_equal(before, kept)
        assert before.shape == after.shape
        assert min(after) >= 0
        assert max(after) < world.n_classes


def test_every_action_changes_something_now_and_then(world):
    states, actions = walk(world)
    changed = [action for (before, after), action in zip(states, actions, strict=True) if (before != after).any()]
    assert set(changed) == set(range(len(world.actions)))
    assert len(changed) > len(actions) / 5


def test_levels_stay(world):
    for before, after in walk(world)[0]:
        assert np.array_equal(world.level(before), world.level(after))


def test_frames_fit_the_description(world):
    channels, height, width = world.image_shape
    assert 1 <= channels <= 4
    assert 24 <= min(height, width) <= max(height, width) <= 160
    assert 2 <= len(world.actions) <= 12
    states = np.stack([before for before, _ in walk(world, 40)[0]])
    frames = world.draw(states, rng(0, "frames"))
    assert frames.dtype == np.uint8
    assert frames.shape == (40, *world.image_shape)
    assert np.array_equal(world.draw(states, rng(0, "frames")), frames)


def test_different_states_look_different(world):
    starts = [world.start(rng(0, world.name, "start", count)) for count in range(300)]
    states = np.unique([*starts, *(after for _, after in walk(world)[0])], axis=0)
    assert len(states) > 300
    frames = world.paint(states)
    assert len(np.unique(frames.reshape(len(frames), -1), axis=0)) == len(states)


def test_what_is_held_out_occurs_in_no_other_split(world):
    splits = collect(world, SMALL)
    assert (len(splits.train), len(splits.val), len(splits.test)) == (400, 100, 200)
    assert splits.rollout.obs.shape == (3, 8, *world.image_shape)
    states = {name: np.concatenate(getattr(splits, name).flat_labels()) for name in ("train", "val", "test")}
    starts = splits.rollout.state[:, 0]
    if world.held_out == LEVELS:
        for name, each in (*states.items(), ("test", starts)):
            assert {split_of_level(world.level(state)) for state in each} == {name}
    assert world.held_out in (LEVELS, STATES)
    known = {name: {tuple(state) for state in each} for name, each in states.items()}
    assert known["train"].isdisjoint(known["val"] | known["test"])
    assert known["val"].isdisjoint(known["test"])
    assert (known["train"] | known["val"]).isdisjoint(map(tuple, starts))


def test_episodes_are_connected_and_a_seed_gives_the_same_data_again(world):
    sizes = Sizes(train=40, val=20, test=20, steps=20, rollouts=1)
    data, other = (collect(world, sizes).train for _ in range(2))
    first, second = data.same_state_pairs()
    assert len(first) == 38
    assert np.array_equal(data.next_state[first], data.state[second])
    assert data.fingerprint() == other.fingerprint()
    assert collect(world, sizes, seed=1).train.fingerprint() != data.fingerprint()


def test_the_command_trains_judges_and_continues(tmp_path, capsys):
    out, sizes = tmp_path / "found.json", Sizes(train=800, val=200, test=200, steps=20, rollouts=2)

    def run(*options):
        words = ["--out", str(out), "--device", "cpu", *options]
        kept_out.main(words, [Corridor], sizes, dwmr.preset("auto", epochs=4))
        return capsys.readouterr().out

    assert "budget" in run("--budget", "0")
    assert not out.exists()
    assert run("--seeds", "1").startswith("corridor")
    (first,) = json.loads(out.read_text())["worlds"]["corridor"]["runs"]
    assert {"seed", "verdict", "reason", "exact_unique_1", "exact_unique_100", "exact_next", "collisions"} <= set(first)
    assert first["collisions"] == 0
    run("--seeds", "2")
    found = json.loads(out.read_text())
    runs = found["worlds"]["corridor"]["runs"]
    assert [each["seed"] for each in runs] == [0, 1]
    assert runs[0] == first
    run("--seeds", "2", "--only", "corridor")
    assert json.loads(out.read_text()) == found
    out.write_text(json.dumps(found | {"code": {"digest": "other"}}))
    with pytest.raises(dwmr.InputError, match="other code"):
        run("--seeds", "3")
    with pytest.raises(dwmr.InputError, match="unknown world"):
        run("--only", "nowhere")


def test_a_refused_run_is_recorded():
    splits = collect(Corridor(), SMALL)
    (found,) = kept_out.train_and_judge(splits, [0], "nowhere", dwmr.preset("auto"))
    assert found["verdict"] == "refused"
    assert "nowhere" in found["reason"]
    assert "1 refused" in kept_out.line_of("corridor", [found])
