"""World models that are exactly right, as plain callables."""

import importlib.util
from pathlib import Path

import numpy as np

from dwmr import Transitions
from dwmr.seeding import below, rng
from dwmr.symbolic import Layout
from dwmr.worlds.actions import DIRECTIONS

FILE = Path(__file__).parents[2] / "experiments" / "pddl.py"
spec = importlib.util.spec_from_file_location("pddl_experiment", FILE)
experiment = importlib.util.module_from_spec(spec)
spec.loader.exec_module(experiment)

ice_encode, ice_predict, ICE_LAYOUT = experiment.exact_encode, experiment.exact_predict, experiment.LAYOUT

ROW = Layout(2, 1, 5)


def row_code(*patterns: int) -> np.ndarray:
    """The code of a row of five cells with two bits each."""
    return ROW.codes(np.array([[patterns]]))[0]


class Tiles:
    """The 8-puzzle with five bits a cell: an image has one pixel a bit."""

    layout = Layout(5, 3, 3)
    patterns = np.array([0b10011, 0b00101, 0b11000, 0b01110, 0b10101, 0b00011, 0b11111, 0b01001, 0b00110])

    @staticmethod
    def encode(images):
        return np.asarray(images).reshape(len(images), -1) > 0

    @classmethod
    def predict(cls, codes, actions):
        """The blank, tile 0, moves if it can."""
        boards = cls.layout.patterns(codes)
        for board, action in zip(boards, actions):
            row, col = np.argwhere(board == cls.patterns[0])[0]
            down, right = DIRECTIONS[action]
            other = row + down, col + right
            if 0 <= other[0] < 3 and 0 <= other[1] < 3:
                board[row, col], board[other] = board[other], board[row, col]
        return cls.layout.codes(boards)

    @classmethod
    def walk(cls, steps, seed):
        """Transitions along random boards, each a few steps."""
        generator = rng(seed, "tiles")
        boards = np.stack([np.argsort(below(generator, 1 << 30, 9)) for _ in range(steps)]).reshape(-1, 3, 3)
        codes = cls.layout.codes(cls.patterns[boards])
        actions = below(generator, 4, steps)
        images = codes.reshape(steps, 5, 3, 3).astype(np.uint8)
        after = cls.predict(codes, actions).reshape(images.shape).astype(np.uint8)
        return Transitions(images, actions, after, n_actions=4)
