"""Boards off the grid."""

import importlib.util
from pathlib import Path

import numpy as np

FILE = Path(__file__).parents[2] / "experiments" / "shifted_board.py"
spec = importlib.util.spec_from_file_location("shifted_board", FILE)
shifted_board = importlib.util.module_from_spec(spec)
spec.loader.exec_module(shifted_board)


def test_frames_move_down_and_right(ice):
    data = ice[:5]
    moved = shifted_board.shifted(data, 3)
    assert np.array_equal(moved.obs[..., 3:, 3:], data.obs[..., :-3, :-3])
    assert not moved.next_obs[..., :3, :].any()
    assert not moved.next_obs[..., :, :3].any()
    assert np.array_equal(shifted_board.shifted(data, 0).obs, data.obs)
    assert np.array_equal(moved.state, data.state)
