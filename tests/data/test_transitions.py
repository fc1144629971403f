"""Transitions: what is accepted, what is refused and in which words, and how they are kept."""

import io
import zipfile

import numpy as np
import pytest

from dwmr import InputError, Rollouts, Transitions, load_rollouts, load_splits, load_transitions

IMAGES = np.arange(3 * 1 * 2 * 2, dtype=np.uint8).reshape(3, 1, 2, 2)
ACTIONS = np.array([0, 1, 2])
BOARDS = np.array([[[0, 1]], [[1, 0]], [[2, 2]]])


def make(**other) -> Transitions:
    """Three transitions of 1×2×2 images, with other values where given."""
    return Transitions(**{"obs": IMAGES, "actions": ACTIONS, "next_obs": IMAGES[::-1], "n_actions": 3, **other})


def labelled(**other) -> Transitions:
    return make(**{"state": BOARDS, "next_state": BOARDS[::-1], "episode": np.array([0, 0, 1]), **other})


def rollouts(**other) -> Rollouts:
    """Two episodes of three actions with frames at 0, 1 and 3."""
    values = {
        "obs": np.zeros((2, 3, 1, 2, 2), np.uint8),
        "actions": np.zeros((2, 3), int),
        "horizons": (0, 1, 3),
        "n_actions": 2,
        "length": np.array([3, 3]),
    }
    return Rollouts(**{**values, **other})


def assert_same(one: Transitions, other: Transitions) -> None:
    for name in ("obs", "actions", "next_obs", "state", "next_state", "episode", "n_actions", "n_classes"):
        first, second = getattr(one, name), getattr(other, name)
        assert (first is None) == (second is None), name
        assert first is None or np.array_equal(first, second), name


def test_what_they_know():
    data = labelled()
    assert len(data) == 3
    assert data.image_shape == (1, 2, 2)
    assert data.labelled
    assert data.n_classes == 3  # one more than the highest label
    assert not make().labelled


def test_lists_and_odd_integers_are_taken():
    data = make(actions=[0, 1, 2], episode=[0, 0, 1], n_actions=np.int64(3))
    assert data.actions.shape == (3,)
    assert type(data.n_actions) is int
    assert make(actions=ACTIONS.astype(np.uint16)).actions.dtype == np.uint16


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"obs": IMAGES / 255}, r"obs must be uint8 \(N, C, H, W\), not empty, got float64 with the shape"),
        ({"obs": np.full(IMAGES.shape, np.nan, np.float32)}, "obs must be uint8.*got float32"),
        ({"obs": None}, "obs must be uint8.*got object"),
        ({"next_obs": IMAGES.astype(np.int16)}, "next_obs must be uint8.*got int16"),
        ({"obs": IMAGES.astype(object)}, "obs must be uint8.*got object"),
        ({"obs": IMAGES[:, 0]}, r"obs must be uint8 \(N, C, H, W\).* with the shape \(3, 2, 2\)"),
        ({"next_obs": IMAGES[None]}, r"next_obs must be uint8 .*with the shape \(1, 3, 1, 2, 2\)"),
        (
            {"obs": IMAGES[:0], "next_obs": IMAGES[:0], "actions": ACTIONS[:0]},
            r"obs must be .*not empty, got .*\(0, 1, 2, 2\)",
        ),
        ({"obs": IMAGES[..., :0], "next_obs": IMAGES[..., :0]}, "obs must be .*not empty"),
        ({"next_obs": IMAGES[:2]}, r"obs has shape \(3, 1, 2, 2\) but next_obs \(2, 1, 2, 2\)"),
        ({"next_obs": IMAGES[..., :1]}, "but next_obs"),
        ({"actions": ACTIONS[:2]}, r"actions has shape \(2,\), expected \(3,\)"),
        ({"actions": ACTIONS[:, None]}, r"actions has shape \(3, 1\), expected \(3,\)"),
        ({"actions": ACTIONS.astype(float)}, "actions must be integers, got float64"),
        ({"actions": ACTIONS > 0}, "actions must be integers, got bool"),
        ({"actions": np.array(["a", "b", "c"])}, "actions must be integers"),
        ({"actions": ACTIONS - 1}, r"actions must lie in \[0, 3\), got values from -1 to 1"),
        ({"n_actions": 2}, r"actions must lie in \[0, 2\), got values from 0 to 2"),
        ({"n_actions": 0}, "n_actions must be a positive integer, got 0"),
        ({"n_actions": True}, "n_actions must be a positive integer, got True"),
        ({"n_actions": 3.0}, "n_actions must be a positive integer, got 3.0"),
        ({"state": BOARDS}, "state and next_state must be given together"),
        ({"next_state": BOARDS}, "state and next_state must be given together"),
        ({"state": BOARDS, "next_state": BOARDS, "n_classes": 2}, r"state must lie in \[0, 2\), got values from 0"),
        ({"state": BOARDS, "next_state": BOARDS - 1}, r"next_state must lie in \[0, 3\), got values from -1"),
        ({"state": BOARDS, "next_state": BOARDS, "n_classes": "3"}, "n_classes must be a positive integer, got '3'"),
        ({"state": BOARDS[:2], "next_state": BOARDS}, r"state has shape \(2, 1, 2\), expected \(3,\), \(3, cells\)"),
        ({"state": BOARDS, "next_state": BOARDS[:, :, :1]}, "but next_state"),
        ({"state": BOARDS[..., None], "next_state": BOARDS}, r"state has shape \(3, 1, 2, 1\), expected .*rows, cols"),
        ({"state": BOARDS * 1.0, "next_state": BOARDS}, "state must be integers, got float64"),
        ({"state": BOARDS * np.nan, "next_state": BOARDS}, "state must be integers, got float64"),
        ({"state": BOARDS, "next_state": BOARDS.astype(str)}, "next_state must be integers"),
        ({"episode": np.array([0, 1])}, r"episode has shape \(2,\), expected \(3,\)"),
        ({"episode": np.array([0.0, 0.0, 1.0])}, "episode must be integers"),
    ],
)
def test_bad_arrays_are_refused_by_name(values, message):
    with pytest.raises(InputError, match=message) as raised:
        make(**values)
    assert isinstance(raised.value, ValueError)


AGENT, WALLS = np.array([0, 1, 3]), np.array([[[0, 1]], [[0, 1]], [[1, 1]]])


def grouped(**other) -> Transitions:
    """Labels in two groups: where the agent is, and a board of walls."""
    state = {"agent": AGENT, "walls": WALLS}
    return make(**{"state": state, "next_state": {"walls": WALLS[::-1], "agent": AGENT[::-1]}, **other})


def test_one_label_a_frame_is_enough():
    data = make(state=AGENT, next_state=AGENT[::-1])
    assert data.n_classes == 4
    assert np.array_equal(data[1:].state, [1, 3])


def test_labels_in_named_groups():
    data = grouped(episode=np.array([0, 0, 1]))
    assert data.labelled
    assert data.groups == ("agent", "walls")
    assert data.n_classes == {"agent": 4, "walls": 2}  # one more than the highest label of each
    assert grouped(n_classes={"agent": 9}).n_classes == {"agent": 9, "walls": 2}
    assert np.array_equal(data.group("walls").next_state, WALLS[::-1])
    assert data.group("agent").n_classes == 4
    part = data[1:]
    assert np.array_equal(part.state["agent"], [1, 3])
    assert np.array_equal(part.next_state["walls"], WALLS[1::-1])
    now, then = data.flat_labels()
    assert now.tolist() == [[0, 0, 1], [1, 0, 1], [3, 1, 1]]
    assert then.tolist() == [[3, 1, 1], [1, 0, 1], [0, 0, 1]]
    assert labelled().groups == make().groups == ()
    with pytest.raises(InputError, match="unknown group of labels 'agnet'; did you mean 'agent'"):
        data.group("agnet")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"state": None}, "state and next_state must be given together"),
        ({"state": BOARDS}, r"got one array and groups \['agent', 'walls'\]"),
        ({"next_state": BOARDS}, r"got groups \['agent', 'walls'\] and one array"),
        ({"state": {}, "next_state": {}}, r"or the same named groups, got groups \[\] and groups \[\]"),
        ({"next_state": {"agent": AGENT}}, r"got groups \['agent', 'walls'\] and groups \['agent'\]"),
        ({"state": {"../x": AGENT}, "next_state": {"../x": AGENT}}, "letters, digits, _ and -, got '../x'"),
        ({"state": {1: AGENT}, "next_state": {1: AGENT}}, "letters, digits, _ and -, got 1"),
        ({"state": {"agent": AGENT[:2], "walls": WALLS}}, r"group 'agent': state has shape \(2,\), expected \(3,\)"),
        ({"state": {"agent": AGENT, "walls": WALLS[:, 0]}}, r"group 'walls': state has shape \(3, 2\) but next_state"),
        ({"state": {"agent": AGENT / 2, "walls": WALLS}}, "group 'agent': state must be integers, got float64"),
        ({"n_classes": 4}, "n_classes must be a dict by group, of agent, walls, got 4"),
        ({"n_classes": {"door": 2}}, "n_classes must be a dict by group, of agent, walls, got {'door': 2}"),
        ({"n_classes": {"agent": 3}}, r"group 'agent': state must lie in \[0, 3\), got values from 0 to 3"),
        ({"state": BOARDS, "next_state": BOARDS, "n_classes": {"agent": 3}}, "n_classes must be a positive integer"),
    ],
)
def test_bad_groups_are_refused_by_name(values, message):
    with pytest.raises(InputError, match=message) as raised:
        grouped(**values)
    assert isinstance(raised.value, ValueError)


def test_actions_may_have_names():
    data = make(action_names=["left", "right", "stay"])
    assert data.action_names == ("left", "right", "stay")
    assert data[1:].action_names == data.action_names
    assert make().action_names is None
    assert "stay" not in repr(data)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("abc", "got 'abc'"),
        ((0, 1, 2), r"got \(0, 1, 2\)"),
        (("left", "right"), r"got \('left', 'right'\)"),
        (("left", "left", "stay"), "got"),
        (("left", "right", "stay", ""), "got"),
        (("left", "right", " "), "got"),
    ],
)
def test_bad_action_names_are_refused(names, message):
    with pytest.raises(InputError, match=f"action_names must be 3 different printable names, {message}"):
        make(action_names=names)


@pytest.mark.parametrize("name", ["data", "data.npz"])
def test_groups_and_names_are_read_back(tmp_path, name):
    data = grouped(action_names=("links", "rechts", "öffnen"), n_classes={"walls": 5})
    data.save(tmp_path / name)
    back = load_transitions(tmp_path / name)
    assert back.action_names == data.action_names
    assert back.groups == data.groups
    assert back.n_classes == {"agent": 4, "walls": 5}
    for group in data.groups:
        assert_same(back.group(group), data.group(group))
    assert back.fingerprint() == data.fingerprint()
    if name == "data":
        assert (tmp_path / "data" / "state.agent.npy").is_file()


def test_an_array_and_groups_cannot_be_mixed_in_a_file(tmp_path):
    arrays = {"obs": IMAGES, "actions": ACTIONS, "next_obs": IMAGES}
    np.savez(tmp_path / "both.npz", **arrays, state=BOARDS, **{"state.agent": AGENT})
    with pytest.raises(InputError, match=r"both\.npz: state and state\.agent are both given"):
        load_transitions(tmp_path / "both.npz")
    np.savez(tmp_path / "odd.npz", **arrays, **{"reward.agent": AGENT})
    with pytest.raises(InputError, match=r"unknown arrays reward\.agent"):
        load_transitions(tmp_path / "odd.npz")
    np.savez(tmp_path / "names.npz", **arrays, action_names=np.arange(3))
    with pytest.raises(InputError, match=r"action_names must be 3 different printable names, got array\(\[0, 1, 2\]\)"):
        load_transitions(tmp_path / "names.npz")


def test_new_fields_are_part_of_the_fingerprint():
    assert (
        labelled().fingerprint() == make().fingerprint() == "700b7ce511c49f34"
    )  # as before there were names and groups
    others = [
        make(action_names=("a", "b", "c")),
        make(action_names=("a", "c", "b")),
        grouped(),
        grouped(state={"agent": AGENT[::-1], "walls": WALLS}),
        grouped(n_classes={"agent": 5}),
    ]
    assert len({data.fingerprint() for data in [make(), *others]}) == 6
    swapped = {"walls": WALLS, "agent": AGENT}
    assert grouped(state=swapped).fingerprint() == grouped().fingerprint()


def test_pairs_of_frames_that_show_the_same_state():
    images = np.zeros((6, 1, 2, 2), np.uint8)
    data = Transitions(images, np.zeros(6, int), images, n_actions=1, episode=[0, 0, 0, 1, 1, 2])
    first, second = data.same_state_pairs()  # next_obs[first] and obs[second]
    assert first.tolist() == [0, 1, 3]
    assert second.tolist() == [1, 2, 4]
    assert first.dtype == second.dtype == np.int64
    assert [len(index) for index in data[:1].same_state_pairs()] == [0, 0]
    with pytest.raises(InputError, match="no `episode`"):
        make().same_state_pairs()


def test_slices_are_views_of_consecutive_transitions():
    data = labelled()
    part = data[1:]
    assert len(part) == 2
    assert np.shares_memory(part.obs, data.obs)
    assert np.array_equal(part.state, BOARDS[1:])
    assert np.array_equal(part.episode, [0, 1])
    assert part.n_classes == data.n_classes
    with pytest.raises(TypeError, match="slices, got int"):
        data[0]
    with pytest.raises(InputError, match="consecutive, got a step of -1"):
        data[::-1]
    with pytest.raises(InputError, match="empty"):
        data[3:]


def test_the_fingerprint_is_of_the_data():
    other_frame, other_action = IMAGES.copy(), ACTIONS.copy()
    other_frame[2, 0, 1, 1] += 1
    other_action[2] = 0
    others = [
        make(obs=other_frame),
        make(next_obs=other_frame),
        make(actions=other_action),
        make(n_actions=4),
        make()[:2],
    ]
    names = {data.fingerprint() for data in others}
    assert len(names) == 5
    assert make().fingerprint() not in names
    assert make().fingerprint() == make(actions=ACTIONS.astype(np.uint8)).fingerprint()


@pytest.mark.parametrize("name", ["data", "data.npz"])
@pytest.mark.parametrize("build", [make, labelled])
def test_saved_and_read_back(tmp_path, name, build):
    build().save(tmp_path / name)
    assert_same(load_transitions(tmp_path / name), build())
    assert load_transitions(tmp_path / name).fingerprint() == build().fingerprint()


def test_how_they_were_made_is_kept(tmp_path):
    make(about={"benchmark": "iceslider", "seed": 3}).save(tmp_path / "data")
    assert load_transitions(tmp_path / "data").about == {"benchmark": "iceslider", "seed": 3}


@pytest.mark.parametrize("name", ["data", "data.npz"])
def test_nothing_is_overwritten(tmp_path, name):
    make().save(tmp_path / name)
    with pytest.raises(FileExistsError, match="exists already"):
        labelled().save(tmp_path / name)
    assert_same(load_transitions(tmp_path / name), make())
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_an_npz_of_ones_own_needs_no_n_actions(tmp_path):
    np.savez_compressed(tmp_path / "own.npz", obs=IMAGES, actions=np.array([0, 4, 1]), next_obs=IMAGES)
    assert load_transitions(tmp_path / "own.npz").n_actions == 5


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"obs": IMAGES, "actions": ACTIONS}, "lacks next_obs"),
        ({"obs": IMAGES, "next_obs": IMAGES}, "lacks actions, n_actions"),
        ({"obs": IMAGES, "actions": ACTIONS, "next_obs": IMAGES, "reward": ACTIONS}, "unknown arrays reward"),
        ({"obs": IMAGES, "actions": ACTIONS > 0, "next_obs": IMAGES}, "actions must be integers, got bool"),
        ({"obs": IMAGES, "actions": ACTIONS.astype(str), "next_obs": IMAGES}, "actions must be integers"),
        ({"obs": IMAGES, "actions": ACTIONS, "next_obs": IMAGES, "n_actions": 2.5}, "n_actions must be one integer"),
        ({"obs": IMAGES, "actions": ACTIONS, "next_obs": IMAGES, "n_actions": [3, 3]}, "n_actions must be one integer"),
        ({"obs": IMAGES, "actions": ACTIONS, "next_obs": IMAGES, "n_actions": 1}, r"actions must lie in \[0, 1\)"),
        ({"obs": IMAGES.astype(object), "actions": ACTIONS, "next_obs": IMAGES}, "not a readable .npz.*[Oo]bject"),
    ],
)
def test_a_bad_npz_is_refused_by_name(tmp_path, arrays, message):
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(InputError, match=rf"(?s)bad\.npz.*{message}"):
        load_transitions(tmp_path / "bad.npz")


def test_files_that_are_no_npz_are_refused(tmp_path):
    make().save(tmp_path / "good.npz")
    whole = (tmp_path / "good.npz").read_bytes()
    single = io.BytesIO()
    np.save(single, IMAGES)
    for content in (b"", b"nonsense", whole[:-100], whole[: len(whole) // 2], single.getvalue()):
        (tmp_path / "bad.npz").write_bytes(content)
        with pytest.raises(InputError, match=r"bad\.npz"):
            load_transitions(tmp_path / "bad.npz")
    (tmp_path / "bad.npz").write_text("a text")
    with pytest.raises(InputError, match=r"bad\.npz is not an \.npz archive; write one with numpy\.savez$"):
        load_transitions(tmp_path / "bad.npz")
    with pytest.raises(InputError, match=r"absent\.npz does not exist"):
        load_transitions(tmp_path / "absent.npz")


def test_a_damaged_npz_is_refused_wherever_the_damage_is(tmp_path):
    np.savez_compressed(tmp_path / "good.npz", obs=IMAGES, actions=ACTIONS, next_obs=IMAGES)
    whole = (tmp_path / "good.npz").read_bytes()
    with zipfile.ZipFile(tmp_path / "good.npz") as archive:
        members = [(info.header_offset + 30 + len(info.filename), info.compress_size) for info in archive.infolist()]
    refused = 0
    for start, size in members:
        for position in range(start, start + size, 5):
            (tmp_path / "bad.npz").write_bytes(
                whole[:position] + bytes([whole[position] ^ 0x55]) + whole[position + 1 :]
            )
            try:
                assert_same(load_transitions(tmp_path / "bad.npz"), make(next_obs=IMAGES))
            except InputError:
                refused += 1
    assert refused > 20


def test_a_data_folder(tmp_path):
    for split in ("train", "val"):
        make().save(tmp_path / "data" / split)
    rollouts().save(tmp_path / "data" / "rollout")
    splits = load_splits(tmp_path / "data")
    assert len(splits.train) == len(splits.val) == 3
    assert splits.test is None
    assert splits.rollout.horizons == (0, 1, 3)
    with pytest.raises(InputError, match=r"several splits; name one, such as .*train"):
        load_transitions(tmp_path / "data")


def test_a_lone_store_or_npz_is_the_training_split(tmp_path):
    for name in ("lone", "lone.npz"):
        make().save(tmp_path / name)
        splits = load_splits(tmp_path / name)
        assert_same(splits.train, make())
        assert splits.val is splits.test is splits.rollout is None


def test_folders_that_are_no_data_folders(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        load_splits(tmp_path / "absent")
    with pytest.raises(InputError, match="no stored split 'train'"):
        load_splits(tmp_path)


def test_rollouts_read_back(tmp_path):
    boards = np.arange(6).reshape(2, 3, 1, 1) % 4
    episodes = rollouts(state=boards, n_classes=4)
    episodes.save(tmp_path / "r")
    back = load_rollouts(tmp_path / "r")
    assert np.array_equal(back.state, boards)
    assert (back.horizons, back.n_actions, back.n_classes, len(back)) == ((0, 1, 3), 2, 4, 2)
    with pytest.raises(InputError, match="holds 'rollouts', expected 'transitions'"):
        load_transitions(tmp_path / "r")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"obs": np.zeros((2, 3, 1, 2, 2))}, "obs must be uint8.*got float64"),
        ({"obs": np.zeros((2, 3, 2, 2), np.uint8)}, r"\(E, F, C, H, W\).* with the shape \(2, 3, 2, 2\)"),
        ({"actions": np.zeros((3, 3), int)}, r"actions has shape \(3, 3\), expected \(2, T\)"),
        ({"actions": np.zeros((2, 0), int)}, r"actions has shape \(2, 0\), expected \(2, T\)"),
        ({"actions": np.zeros((2, 3))}, "actions must be integers, got float64"),
        ({"actions": np.full((2, 3), 2)}, r"actions must lie in \[0, 2\)"),
        ({"horizons": (0, 1)}, "horizons must be 3 rising step counts from 0"),
        ({"horizons": (0, 2, 1)}, "rising"),
        ({"horizons": (1, 2, 3)}, "from 0"),
        ({"horizons": (0, 1, 4)}, "last horizon 4 is past the 3 actions"),
        ({"length": np.array([3])}, r"length has shape \(1,\), expected \(2,\)"),
        ({"state": np.zeros((2, 2, 1, 1), int), "n_classes": 1}, "state has shape"),
        ({"state": np.zeros((2, 3, 1, 1), int)}, "n_classes must be a positive integer, got None"),
        (
            {
                "obs": np.zeros((0, 3, 1, 2, 2), np.uint8),
                "actions": np.zeros((0, 3), int),
                "length": np.zeros(0, int),
            },
            "obs must be .*not empty",
        ),
    ],
)
def test_bad_rollouts_are_refused_by_name(values, message):
    with pytest.raises(InputError, match=message):
        rollouts(**values)
