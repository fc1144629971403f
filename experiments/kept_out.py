"""Does `auto` work on worlds that nobody tuned it for?

    python experiments/kept_out.py --out experiments/results/kept_out.json

The worlds of this file are kept out of all development: do not look at them, or at figures of single ones, while
working on the recipe. Each is trained with `auto` and several seeds, and judged on held-out levels or states. Results
are written after each world. An interrupted run continues where it stopped, and with more --seeds trains those missing.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import dwmr
from dwmr.errors import unknown
from dwmr.evaluation.evaluate import evaluate_many
from dwmr.files import atomic_write_json
from dwmr.models.world_model import resolve_device
from dwmr.provenance import describe_code, describe_machine
from dwmr.seeding import below, rng, shuffled
from dwmr.worlds.noise import add_noise

RESULTS = Path("experiments/results/kept_out.json")
HORIZONS = (0, 1, 2, 5, 10, 20, 50, 100)
LEVELS, STATES = "levels", "states"
MAX_TRIES = 10_000  # episodes that may be rejected before one fits a split
FRAMES_AT_ONCE = 500
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))  # up, right, down, left
DIRECTIONS = ("up", "right", "down", "left")


class World(ABC):
    """A deterministic world. A state is a flat array of small integers, which are also its labels.

    name         what --only calls it
    actions      their names
    n_classes    the number of values of a label
    image_shape  (C, H, W)
    held_out     LEVELS if no level of a split occurs in another one, STATES if no state does. Then only the first
                 states of roll-outs are held out.
    """

    name: str
    actions: tuple[str, ...]
    n_classes: int
    image_shape: tuple[int, int, int]
    held_out = LEVELS

    @abstractmethod
    def start(self, generator: np.random.Generator) -> np.ndarray:
        """A random first state, int64 (labels,)."""

    @abstractmethod
    def step(self, state: np.ndarray, action: int) -> np.ndarray:
        """The next state."""

    @abstractmethod
    def paint(self, states: np.ndarray) -> np.ndarray:
        """Frames uint8 (N, C, H, W) of states (N, labels), without anything random."""

    def draw(self, states: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Frames of states as they are recorded."""
        return self.paint(states)

    def level(self, state: np.ndarray) -> np.ndarray:
        """What no action changes."""
        return state[:0]


# Drawing

Layer = tuple[np.ndarray, tuple[int, ...]]  # coverage in [0, 1], and a colour


def _centres(shape: tuple[int, int]) -> np.ndarray:
    return np.mgrid[: shape[0], : shape[1]] + 0.5


def _disc(shape: tuple[int, int], y: float, x: float, radius: float) -> np.ndarray:
    rows, cols = _centres(shape)
    return np.clip(radius + 0.5 - np.hypot(rows - y, cols - x), 0, 1)


def _ring(shape: tuple[int, int], y: float, x: float, radius: float, width: float) -> np.ndarray:
    rows, cols = _centres(shape)
    return np.clip(width / 2 + 0.5 - np.abs(np.hypot(rows - y, cols - x) - radius), 0, 1)


def _line(shape: tuple[int, int], begin: Sequence[float], end: Sequence[float], width: float) -> np.ndarray:
    points = _centres(shape) - np.reshape(begin, (2, 1, 1))
    along = np.subtract(end, begin)
    share = np.clip(np.tensordot(along, points, 1) / (along @ along), 0, 1)
    distance = np.hypot(*(points - share * along.reshape(2, 1, 1)))
    return np.clip(width / 2 + 0.5 - distance, 0, 1)


def _box(shape: tuple[int, int], top: float, left: float, bottom: float, right: float) -> np.ndarray:
    rows, cols = _centres(shape)
    return ((rows > top) & (rows < bottom) & (cols > left) & (cols < right)).astype(float)


def _picture(shape: tuple[int, int], background: tuple[int, ...], *layers: Layer) -> np.ndarray:
    """A picture uint8 (C, H, W): layers over a background."""
    picture = np.broadcast_to(np.reshape(background, (-1, 1, 1)), (len(background), *shape)).astype(float)
    for coverage, colour in layers:
        picture = picture + coverage * (np.reshape(colour, (-1, 1, 1)) - picture)
    return np.rint(picture).astype(np.uint8)


def _mosaic(symbols: np.ndarray, tiles: np.ndarray) -> np.ndarray:
    """Frames of boards of symbols (N, rows, cols), from tiles (S, C, h, w)."""
    frames, rows, cols = symbols.shape
    _, channels, height, width = tiles.shape
    return tiles[symbols].transpose(0, 3, 1, 4, 2, 5).reshape(frames, channels, rows * height, cols * width)


def _paste(frames: np.ndarray, where: np.ndarray, pictures: np.ndarray, shown: np.ndarray) -> None:
    """Write picture shown[n] of pictures (S, C, H, W) into frame n, in the pixels bool (H, W)."""
    frames[:, :, where] = pictures[:, :, where][shown]


def _area_weights(size: int, target: int) -> np.ndarray:
    """How much of each of ``size`` pixels lies in each of ``target`` pixels, (target, size); rows sum to ``size``."""
    ends, cuts = np.arange(size + 1) * target, np.arange(target + 1) * size
    shared = np.minimum(ends[1:], cuts[1:, None]) - np.maximum(ends[:-1], cuts[:-1, None])
    return np.maximum(shared, 0).astype(float)


def _shrink(frames: np.ndarray, height: int, width: int) -> np.ndarray:
    """Frames in another size; the new pixels are means of areas. All values are whole numbers until the division."""
    tall, wide = frames.shape[2:]
    sums = _area_weights(tall, height) @ frames.astype(float) @ _area_weights(wide, width).T
    return ((2 * sums.astype(np.int64) + tall * wide) // (2 * tall * wide)).astype(np.uint8)


# Worlds


class Rings(World):
    """Two rings of beads cross at two places. An action turns a ring by one bead."""

    name = "rings"
    actions = ("left ring on", "left ring back", "right ring on", "right ring back")
    n_classes = 4
    image_shape = (3, 48, 72)
    held_out = STATES
    left = (0, 1, 2, 3, 4, 5, 6, 7)  # slots by angle
    right = (8, 9, 10, 1, 11, 7, 12, 13)
    beads = (0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 3, 3)
    colours = ((200, 50, 45), (45, 95, 190), (240, 190, 60), (60, 150, 90))

    def __init__(self) -> None:
        shape, radius = self.image_shape[1:], 12 * math.sqrt(2)
        tracks = [(_ring(shape, 24, x, radius, 5), (150, 140, 130)) for x in (24, 48)]
        self.background = _picture(shape, (228, 220, 205), *tracks)
        places = {}
        for ring, x in ((self.left, 24), (self.right, 48)):
            for k, slot in enumerate(ring):
                places[slot] = (24 - radius * math.sin(k * math.pi / 4), x + radius * math.cos(k * math.pi / 4))
        self.parts = []
        for slot in range(len(self.beads)):
            cover, shine = _disc(shape, *places[slot], 4.4), _disc(shape, places[slot][0] - 1.5, places[slot][1] - 1, 1)
            pictures = []
            for colour in self.colours:
                paint = cover[None] * (np.reshape(colour, (3, 1, 1)) - self.background) + self.background
                pictures.append(np.rint(paint + 0.7 * shine * (255 - paint)).astype(np.uint8))
            self.parts.append((cover > 0, np.stack(pictures)))

    def start(self, generator: np.random.Generator) -> np.ndarray:
        return np.array(self.beads)[shuffled(generator, len(self.beads))]

    def step(self, state: np.ndarray, action: int) -> np.ndarray:
        ring, after = list((self.left, self.right)[action // 2]), state.copy()
        after[ring] = np.roll(state[ring], (1, -1)[action % 2])
        return after

    def paint(self, states: np.ndarray) -> np.ndarray:
        frames = np.repeat(self.background[None], len(states), axis=0)
        for slot, (where, pictures) in enumerate(self.parts):
            _paste(frames, where, pictures, states[:, slot])
        return frames


class Tilt(World):
    """Three balls on a board with walls. An action tilts the board, and all balls roll until something stops them."""

    name = "tilt"
    actions = DIRECTIONS
    n_classes = 5
    image_shape = (1, 60, 70)
    rows, cols, walls = 6, 7, 9
    empty, wall, first_ball = 0, 1, 2

    def __init__(self) -> None:
        shape = (10, 10)
        stripes = [(_line(shape, (at, 0), (at - 6, 10), 1.2), (70,)) for at in (3, 8, 13)]
        floor = (_disc(shape, 5, 5, 0.8), (60,))
        turned = np.abs(_centres(shape) - 5).sum(0) < 4.3
        self.tiles = np.stack(
            [
                _picture(shape, (40,), floor),
                _picture(shape, (150,), *stripes),
                _picture(shape, (40,), (_disc(shape, 5, 5, 3.8), (235,))),
                _picture(shape, (40,), (_ring(shape, 5, 5, 3.2, 1.8), (235,))),
                _picture(shape, (40,), (turned.astype(float), (190,)), (_box(shape, 4, 4, 6, 6), (20,))),
            ]
        )

    def start(self, generator: np.random.Generator) -> np.ndarray:
        board = np.full(self.rows * self.cols, self.empty)
        cells = shuffled(generator, len(board))
        board[cells[: self.walls]] = self.wall
        board[cells[self.walls : self.walls + 3]] = np.arange(3) + self.first_ball
        return board

    def step(self, state: np.ndarray, action: int) -> np.ndarray:
        board = np.pad(state.reshape(self.rows, self.cols), 1, constant_values=self.wall)
        down, right = MOVES[action]
        balls = np.argwhere(board >= self.first_ball)
        for row, col in balls[np.argsort(-(balls @ (down, right)), kind="stable")]:  # the foremost first
            ball, board[row, col] = board[row, col], self.empty
            while board[row + down, col + right] == self.empty:
                row, col = row + down, col + right
            board[row, col] = ball
        return board[1:-1, 1:-1].reshape(-1).copy()

    def paint(self, states: np.ndarray) -> np.ndarray:
        return _mosaic(states.reshape(-1, self.rows, self.cols), self.tiles)

    def draw(self, states: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        return add_noise(self.paint(states), generator, 0.08)

    def level(self, state: np.ndarray) -> np.ndarray:
        return (state == self.wall).astype(np.int64)


class Dials(World):
    """Six dials. An action turns one by a step and the one after it by two; a lamp is on if two dials agree."""

    name = "dials"
    actions = ("first", "second", "third", "fourth", "fifth", "sixth")
    n_classes = 10
    image_shape = (1, 64, 112)
    held_out = STATES
    dials = ((18, 18, 14), (46, 30, 10), (18, 52, 13), (47, 62, 12), (20, 88, 15), (50, 97, 9))  # y, x, radius
    lamps = ((38, 8), (35, 76), (40, 108))  # of the first two dials, the next two, the last two

    def __init__(self) -> None:
        shape = self.image_shape[1:]
        self.background = _picture(shape, (70,))
        self.parts = []
        for y, x, radius in self.dials:
            pictures = []
            for position in range(self.n_classes):
                angle = 2 * math.pi * position / self.n_classes
                tip = (y - 0.75 * radius * math.cos(angle), x + 0.75 * radius * math.sin(angle))
                layers = [(_disc(shape, y, x, radius), (25,)), (_disc(shape, y, x, radius - 1.5), (215,))]
                layers += [(_line(shape, (y, x), tip, 2.2), (30,)), (_disc(shape, y, x, 2), (30,))]
                pictures.append(_picture(shape, (70,), *layers))
            self.parts.append((_disc(shape, y, x, radius) > 0, np.stack(pictures)))
        self.lights = []
        for y, x in self.lamps:
            bulb = _disc(shape, y, x, 3)
            self.lights.append((bulb > 0, np.stack([_picture(shape, (70,), (bulb, (on,))) for on in (35, 255)])))

    def start(self, generator: np.random.Generator) -> np.ndarray:
        return below(generator, self.n_classes, len(self.dials))

    def step(self, state: np.ndarray, action: int) -> np.ndarray:
        after = state.copy()
        after[action] += 1
        after[(action + 1) % len(after)] += 2
        return after % self.n_classes

    def paint(self, states: np.ndarray) -> np.ndarray:
        frames = np.repeat(self.background[None], len(states), axis=0)
        for dial, (where, pictures) in enumerate(self.parts):
            _paste(frames, where, pictures, states[:, dial])
        for pair, (where, pictures) in enumerate(self.lights):
            _paste(frames, where, pictures, (states[:, 2 * pair] == states[:, 2 * pair + 1]).astype(np.int64))
        return frames


class Gates(World):
    """A walker on a map whose edges wrap around. A plate of a colour opens all closed gates of that colour, and closes
    the open ones. Frames are screenshots scaled down to 70%."""

    name = "gates"
    actions = DIRECTIONS
    n_classes = 13
    image_shape = (3, 50, 67)
    rows, cols = 6, 8
    floor, wall, red_plate, blue_plate, red_closed, red_open, blue_closed, blue_open = range(8)
    counts = (25, 9, 3, 3, 4, 0, 4, 0)
    entered = {floor: 8, red_plate: 9, blue_plate: 10, red_open: 11, blue_open: 12}  # noqa: RUF012
    swapped = {red_plate: (red_closed, red_open), blue_plate: (blue_closed, blue_open)}  # noqa: RUF012

    def __init__(self) -> None:
        shape, ground = (12, 12), (215, 205, 180)
        bricks = [(_box(shape, *box), (70, 70, 80)) for box in ((5, 0, 6, 12), (11, 0, 12, 12), (0, 5, 5, 6))]
        bricks.append((_box(shape, 6, 10, 11, 11), (70, 70, 80)))
        left: list[list[Layer]] = [[], [(_box(shape, 0, 0, 12, 12), (120, 120, 130)), *bricks]]
        for colour in ((205, 60, 50), (50, 90, 200)):
            left.append([(_box(shape, 2, 2, 10, 10), colour), (_box(shape, 4, 4, 8, 8), ground)])
        for colour in ((205, 60, 50), (50, 90, 200)):
            bars: list[Layer] = [(_box(shape, 0, at, 12, at + 2), colour) for at in (1, 5, 9)]
            left += [bars, [(_box(shape, 0, at, 12, at + 1), colour) for at in (0, 11)]]
        walker: list[Layer] = [(_disc(shape, 6, 6, 3), (40, 140, 70)), (_disc(shape, 5, 6, 1), (250, 250, 250))]
        left += [left[symbol] + walker for symbol in self.entered]
        self.tiles = np.stack([_picture(shape, ground, *layers) for layers in left])

    def start(self, generator: np.random.Generator) -> np.ndarray:
        board = np.repeat(np.arange(len(self.counts)), self.counts)[shuffled(generator, self.rows * self.cols)]
        for cell in np.flatnonzero((board == self.red_closed) | (board == self.blue_closed)):
            board[cell] += below(generator, 2, 1)[0]
        standing = np.flatnonzero(np.isin(board, list(self.entered)))
        cell = standing[below(generator, len(standing), 1)[0]]
        board[cell] = self.entered[int(board[cell])]
        return board

    @staticmethod
    def _swap(board: np.ndarray, one: int, other: int) -> None:
        ones, others = board == one, board == other
        board[ones], board[others] = other, one

    def step(self, state: np.ndarray, action: int) -> np.ndarray:
        after = state.copy()
        here = int(np.flatnonzero(state >= self.entered[self.floor])[0])
        down, right = MOVES[action]
        there = (here // self.cols + down) % self.rows * self.cols + (here % self.cols + right) % self.cols
        target = int(state[there])
        if target not in self.entered:
            return after
        after[here] = {entered: symbol for symbol, entered in self.entered.items()}[int(state[here])]
        if target in self.swapped:
            self._swap(after, *self.swapped[target])
        after[there] = self.entered[target]
        return after

    def paint(self, states: np.ndarray) -> np.ndarray:
        return _shrink(_mosaic(states.reshape(-1, self.rows, self.cols), self.tiles), *self.image_shape[1:])

    def level(self, state: np.ndarray) -> np.ndarray:
        return np.array([0, 1, 2, 3, 4, 4, 5, 5, 0, 2, 3, 4, 5])[state]


class Pipes(World):
    """Pieces of pipe; an action turns a piece by a quarter. Water runs from the pump through all that is connected."""

    name = "pipes"
    actions = tuple(f"turn {row},{col}" for row in range(3) for col in range(4))
    n_classes = 16
    image_shape = (3, 54, 77)
    rows, cols, inlet = 3, 4, 4  # the inlet is the cell beside the pump
    sides = ((1, -1, 0), (2, 0, 1), (4, 1, 0), (8, 0, -1))  # bit, and where it leads: down and right
    kinds = (5, 3, 7, 7)  # straight, bent, forked; forked ones are twice as frequent

    def __init__(self) -> None:
        shape, tiles = (16, 16), []
        for mask in range(16):
            for water in ((165, 165, 165), (40, 130, 220)):
                ends = [(8 + 8 * down, 8 + 8 * right) for bit, down, right in self.sides if mask & bit]
                layers = [(_box(shape, 0, 0, 15, 15), (58, 52, 48))]
                layers += [(_line(shape, (8, 8), end, 6), (110, 110, 110)) for end in ends]
                layers += [(_line(shape, (8, 8), end, 3.5), water) for end in ends]
                tiles.append(_picture(shape, (40, 36, 34), *layers))
        self.tiles = np.stack(tiles)
        whole = self.image_shape[1:]
        pump = [(_box(whole, 20, 1, 34, 10), (180, 60, 50)), (_disc(whole, 27, 6, 3), (40, 130, 220))]
        self.background = _picture(whole, (100, 80, 60), *pump)

    def start(self, generator: np.random.Generator) -> np.ndarray:
        state = np.array(self.kinds)[below(generator, len(self.kinds), self.rows * self.cols)]
        turns = below(generator, 4, len(state))
        for turn in range(3):
            state = np.where(turns > turn, self._turned(state), state)
        return state

    @staticmethod
    def _turned(masks: np.ndarray) -> np.ndarray:
        return (masks << 1 | masks >> 3) & 15

    def step(self, state: np.ndarray, action: int) -> np.ndarray:
        after = state.copy()
        after[action] = self._turned(state[action])
        return after

    def wet(self, states: np.ndarray) -> np.ndarray:
        """Which pieces hold water, bool (N, cells)."""
        masks = np.pad(states.reshape(-1, self.rows, self.cols), ((0, 0), (1, 1), (1, 1)))
        wet = np.zeros(masks.shape, bool)
        row, col = 1 + self.inlet // self.cols, 1 + self.inlet % self.cols
        wet[:, row, col] = masks[:, row, col] & 8 > 0
        for _ in range(self.rows * self.cols):
            for bit, down, right in self.sides:
                back = bit << 2 if bit < 4 else bit >> 2
                shifted = np.roll(wet & (masks & bit > 0), (down, right), (1, 2))
                wet |= shifted & (masks & back > 0)
        return wet[:, 1:-1, 1:-1].reshape(states.shape)

    def paint(self, states: np.ndarray) -> np.ndarray:
        frames = np.repeat(self.background[None], len(states), axis=0)
        symbols = (2 * states + self.wet(states)).reshape(-1, self.rows, self.cols)
        frames[:, :, 3:51, 10:74] = _mosaic(symbols, self.tiles)
        return frames

    def level(self, state: np.ndarray) -> np.ndarray:
        return np.array([0, 0, 0, 1, 0, 2, 1, 3, 0, 1, 2, 3, 1, 3, 3, 0])[state]  # bent, straight or forked


class Loops(World):
    """A board of signs. An action moves a row to the right or a column down, and what leaves comes in at the other
    end. Every sign is sketched by hand in every frame."""

    name = "loops"
    actions = (*(f"row {row}" for row in range(4)), *(f"column {col}" for col in range(5)))
    n_classes = 5
    image_shape = (1, 64, 80)
    held_out = STATES
    rows, cols, sketches = 4, 5, 30

    def __init__(self) -> None:
        generator = rng(0, "kept out", "sketches")
        pictures = [self._sketch(sign, generator) for sign in range(5) for _ in range(self.sketches)]
        self.tiles = np.stack(pictures)

    @staticmethod
    def _sketch(sign: int, generator: np.random.Generator) -> np.ndarray:
        shape = (16, 16)
        up, side, size, turn, width, ink = (below(generator, 1001, 6) / 500 - 1).tolist()  # from -1 to 1
        y, x, radius, angle = 8 + up, 8 + side, 4.6 + 0.6 * size, 0.2 * turn
        stroke, colour = 1.6 + 0.4 * width, (int(60 + 45 * ink),)

        def corner(share: float) -> tuple[float, float]:
            around = angle + 2 * math.pi * share
            return y - radius * math.cos(around), x + radius * math.sin(around)

        lines: Mapping[int, tuple[tuple[float, float], ...]] = {
            1: ((0.125, 0.625), (0.375, 0.875)),
            2: ((0.0, 1 / 3), (1 / 3, 2 / 3), (2 / 3, 1.0)),
            3: ((0.125, 0.375), (0.375, 0.625), (0.625, 0.875), (0.875, 1.125)),
            4: ((0.0, 0.5), (0.0, 0.2), (0.0, 0.8)),
        }
        if sign == 0:
            return _picture(shape, (240,), (_ring(shape, y, x, radius, stroke), colour))
        layers = [(_line(shape, corner(one), corner(other), stroke), colour) for one, other in lines[sign]]
        return _picture(shape, (240,), *layers)

    def start(self, generator: np.random.Generator) -> np.ndarray:
        return np.repeat(np.arange(5), 4)[shuffled(generator, self.rows * self.cols)]

    def step(self, state: np.ndarray, action: int) -> np.ndarray:
        board = state.reshape(self.rows, self.cols).copy()
        if action < self.rows:
            board[action] = np.roll(board[action], 1)
        else:
            board[:, action - self.rows] = np.roll(board[:, action - self.rows], 1)
        return board.reshape(-1)

    def paint(self, states: np.ndarray) -> np.ndarray:
        return _mosaic(self.sketches * states.reshape(-1, self.rows, self.cols), self.tiles)

    def draw(self, states: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        sketch = below(generator, self.sketches, states.shape)
        return _mosaic((self.sketches * states + sketch).reshape(-1, self.rows, self.cols), self.tiles)


class Boulders(World):
    """A miner digs through earth, takes gems and pushes boulders sideways. Boulders fall as soon as nothing holds them.
    Frames have an alpha channel."""

    name = "boulders"
    actions = DIRECTIONS
    n_classes = 6
    image_shape = (4, 48, 64)
    held_out = STATES
    rows, cols = 6, 8
    empty, earth, boulder, gem, wall, miner = range(6)
    counts = (12, 17, 10, 4, 4, 1)

    def __init__(self) -> None:
        shape, dark, brown, pale = (8, 8), (20, 18, 25, 255), (120, 80, 45, 255), (255, 255, 255, 255)
        grains = [(_box(shape, y, x, y + 1, x + 1), (90, 58, 30, 255)) for y, x in ((1, 2), (3, 6), (5, 1), (6, 4))]
        stone = [(_disc(shape, 4, 4, 3.2), (140, 140, 145, 255)), (_disc(shape, 3, 3, 0.8), pale)]
        turned = np.abs(_centres(shape) - 4).sum(0)
        gem = [((turned < 3.5).astype(float), (60, 210, 220, 255)), ((turned < 1.5).astype(float), pale)]
        joints = [(_box(shape, *box), (60, 30, 30, 255)) for box in ((3, 0, 4, 8), (7, 0, 8, 8), (0, 3, 3, 4))]
        figure = [(_disc(shape, 2, 4, 1.4), (240, 200, 160, 255)), (_box(shape, 4, 2, 7, 6), (230, 130, 30, 255))]
        figure.append((_box(shape, 6, 3, 8, 5), (50, 60, 140, 255)))
        self.tiles = np.stack(
            [
                _picture(shape, dark),
                _picture(shape, brown, *grains),
                _picture(shape, dark, *stone),
                _picture(shape, dark, *gem),
                _picture(shape, (150, 80, 70, 255), *joints),
                _picture(shape, dark, *figure),
            ]
        )

    def start(self, generator: np.random.Generator) -> np.ndarray:
        board = np.repeat(np.arange(6), self.counts)[shuffled(generator, self.rows * self.cols)]
        return self._fallen(board.reshape(self.rows, self.cols)).reshape(-1)

    def _fallen(self, board: np.ndarray) -> np.ndarray:
        for row, col in np.argwhere(board == self.boulder)[::-1]:  # from the bottom up
            board[row, col] = self.empty
            while row + 1 < self.rows and board[row + 1, col] == self.empty:
                row += 1
            board[row, col] = self.boulder
        return board

    def step(self, state: np.ndarray, action: int) -> np.ndarray:
        board = np.pad(state.reshape(self.rows, self.cols), 2, constant_values=self.wall)
        (row, col), (down, right) = np.argwhere(board == self.miner)[0], MOVES[action]
        beyond = row + 2 * down, col + 2 * right
        there = row + down, col + right
        if board[there] == self.boulder and not down and board[beyond] == self.empty:
            board[beyond], board[there] = self.boulder, self.empty
        if board[there] in (self.empty, self.earth, self.gem):
            board[there], board[row, col] = self.miner, self.empty
        return self._fallen(board[2:-2, 2:-2].copy()).reshape(-1)

    def paint(self, states: np.ndarray) -> np.ndarray:
        return _mosaic(states.reshape(-1, self.rows, self.cols), self.tiles)


class Jugs(World):
    """Three jugs that hold 3 to 8 litres. An action fills one, empties one, or pours one into another until the one is
    empty or the other full. Labels: what each jug can hold, and what it holds."""

    name = "jugs"
    pours = ((0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1))
    actions = (
        *(f"fill {jug}" for jug in range(3)),
        *(f"empty {jug}" for jug in range(3)),
        *(f"pour {one} into {other}" for one, other in pours),
    )
    n_classes = 9
    image_shape = (3, 60, 72)
    lanes = ((4, 12), (23, 16), (46, 20))  # left edge and width

    def __init__(self) -> None:
        shape, wall, bottom = self.image_shape[1:], (215, 225, 225), 54
        self.background = _picture(shape, wall, (_box(shape, bottom + 1, 0, 60, 72), (140, 95, 60)))
        self.parts = []
        for left, width in self.lanes:
            where = _box(shape, 0, left, bottom + 1, left + width) > 0
            pictures = np.repeat(self.background[None], 81, axis=0)
            for holds in range(3, 9):
                for held in range(holds + 1):
                    top, glass = bottom - 6 * holds - 2, (90, 110, 120)
                    layers = [(_box(shape, top, left, bottom + 1, left + width), glass)]
                    layers.append((_box(shape, top - 1, left + 2, bottom - 1, left + width - 2), (240, 248, 250)))
                    surface = bottom - 1 - 6 * held
                    layers.append((_box(shape, surface, left + 2, bottom - 1, left + width - 2), (60, 120, 210)))
                    pictures[9 * holds + held] = _picture(shape, wall, *layers)
            self.parts.append((where, pictures))

    def start(self, generator: np.random.Generator) -> np.ndarray:
        holds = 3 + below(generator, 6, 3)
        return np.concatenate([holds, below(generator, holds + 1, 3)])

    def step(self, state: np.ndarray, action: int) -> np.ndarray:
        holds, held = state[:3], state[3:].copy()
        if action < 3:
            held[action] = holds[action]
        elif action < 6:
            held[action - 3] = 0
        else:
            one, other = self.pours[action - 6]
            poured = min(held[one], holds[other] - held[other])
            held[one] -= poured
            held[other] += poured
        return np.concatenate([holds, held])

    def paint(self, states: np.ndarray) -> np.ndarray:
        frames = np.repeat(self.background[None], len(states), axis=0)
        for jug, (where, pictures) in enumerate(self.parts):
            _paste(frames, where, pictures, 9 * states[:, jug] + states[:, 3 + jug])
        return frames

    def level(self, state: np.ndarray) -> np.ndarray:
        return state[:3]


KINDS: tuple[type[World], ...] = (Rings, Tilt, Dials, Gates, Pipes, Loops, Boulders, Jugs)


# Data


@dataclass(frozen=True)
class Sizes:
    """Transitions of each split, steps of their episodes, and the number of long episodes, of 100 steps each."""

    train: int = 20_000
    val: int = 2000
    test: int = 5000
    steps: int = 20
    rollouts: int = 50


def collect(world: World, sizes: Sizes, seed: int = 0) -> dwmr.Splits:
    """All splits of a world, walked at random."""
    seen: set[bytes] = set()
    parts: dict[str, Any] = {}
    for split in ("train", "val", "test"):
        episodes = getattr(sizes, split) // sizes.steps
        parts[split] = _transitions(world, seed, split, *_walks(world, seed, split, episodes, sizes.steps, seen))
    states, actions = _walks(world, seed, "rollout", sizes.rollouts, HORIZONS[-1], seen)
    kept = states[:, HORIZONS]
    frames = _frames(world, kept.reshape(-1, kept.shape[-1]), rng(seed, world.name, "rollout", "frames"))
    return dwmr.Splits(
        rollout=dwmr.Rollouts(
            obs=frames.reshape(*kept.shape[:2], *frames.shape[1:]),
            actions=actions,
            horizons=HORIZONS,
            n_actions=len(world.actions),
            length=np.full(len(states), HORIZONS[-1]),
            state=kept,
            n_classes=world.n_classes,
        ),
        **parts,
    )


def split_of_level(level: np.ndarray) -> str:
    """The split that a level belongs to, by a hash: one in ten is for validation, one in five for tests."""
    return ("val", "test", "test", *("train",) * 7)[zlib.crc32(_key(level)) % 10]


def _key(values: np.ndarray) -> bytes:
    return values.astype(np.uint8).tobytes()


def _walks(
    world: World, seed: int, split: str, episodes: int, steps: int, seen: set[bytes]
) -> tuple[np.ndarray, np.ndarray]:
    """States (E, steps + 1, labels) and actions (E, steps) of episodes that keep to their split.

    ``seen`` holds the states of earlier splits, and is extended by those of this one.
    """
    generator = rng(seed, world.name, split, "walks")
    earlier = frozenset(seen)
    states, actions = [], []
    for _ in range(episodes):
        for _ in range(MAX_TRIES):
            state = world.start(generator)
            if world.held_out == LEVELS and split_of_level(world.level(state)) != split.replace("rollout", "test"):
                continue
            chosen = below(generator, len(world.actions), steps)
            path = [state]
            for action in chosen.tolist():
                path.append(world.step(path[-1], action))
            keys = [_key(each) for each in path]
            if world.held_out == LEVELS or earlier.isdisjoint(keys[:1] if split == "rollout" else keys):
                break
        else:
            raise RuntimeError(f"{world.name}: no episode of {MAX_TRIES} keeps to the split {split!r}")
        seen.update(keys)
        states.append(np.stack(path))
        actions.append(chosen)
    return np.stack(states), np.stack(actions)


def _transitions(world: World, seed: int, split: str, states: np.ndarray, actions: np.ndarray) -> dwmr.Transitions:
    before, after = (part.reshape(-1, part.shape[-1]) for part in (states[:, :-1], states[:, 1:]))
    return dwmr.Transitions(
        obs=_frames(world, before, rng(seed, world.name, split, "obs")),
        actions=actions.reshape(-1),
        next_obs=_frames(world, after, rng(seed, world.name, split, "next_obs")),
        n_actions=len(world.actions),
        state=before,
        next_state=after,
        n_classes=world.n_classes,
        episode=np.repeat(np.arange(len(actions)), actions.shape[1]),
        action_names=world.actions,
    )


def _frames(world: World, states: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    frames = np.empty((len(states), *world.image_shape), np.uint8)
    for first in range(0, len(states), FRAMES_AT_ONCE):
        some = slice(first, first + FRAMES_AT_ONCE)
        frames[some] = world.draw(states[some], generator)
    return frames


# Training and evaluation


def train_and_judge(
    splits: dwmr.Splits, seeds: Sequence[int], device: str, config: dwmr.Config
) -> Iterator[dict[str, Any]]:
    """The figures of a run for each seed, in percent; the runs are trained together."""
    assert splits.val is not None
    assert splits.test is not None
    begun = time.monotonic()
    try:
        runs = dwmr.train_many(config, train=splits.train, val=splits.val, seeds=seeds, device=device, progress=False)
    except dwmr.InputError as error:
        yield from ({"seed": seed, "verdict": "refused", "reason": str(error)} for seed in seeds)
        return
    seconds = (time.monotonic() - begun) / len(seeds)
    done = [run for run in runs if isinstance(run, dwmr.Run)]
    found = evaluate_many(
        [run.model for run in done], train=splits.train, test=splits.test, rollout=splits.rollout, horizon=HORIZONS[-1]
    )
    figures_of = {run.seed: each.figures for run, each in zip(done, found, strict=True)}
    for seed, run in zip(seeds, runs, strict=True):
        if not isinstance(run, dwmr.Run):
            yield {"seed": seed, "verdict": "diverged", "reason": str(run), "seconds": round(seconds, 1)}
            continue
        codes, steps = figures_of[seed]["codes"], figures_of[seed]["rollout"]
        yield {
            "seed": seed,
            "verdict": run.verdict.word if run.verdict else None,
            "reason": run.verdict.reason if run.verdict else None,
            "exact_unique_1": codes["exact_unique"],
            "exact_unique_100": steps[str(HORIZONS[-1])]["exact_unique"],
            "exact_unique_by_steps": {step: scores["exact_unique"] for step, scores in steps.items()},
            **{name: codes[name] for name in ("exact_next", "exact_changed", "collisions", "splits", "same_code")},
            "networks": {
                name: getattr(run.config, name)
                for name in ("encoder", "predictor", "cells", "symbols", "bits", "epochs")
            },
            "verdict_figures": dict(run.verdict.figures) if run.verdict else None,
            "seconds": round(seconds, 1),
        }


def line_of(name: str, runs: Sequence[Mapping[str, Any]]) -> str:
    """One line about a world: means over the seeds, and how often each verdict was given."""
    means = []
    for figure in ("exact_unique_1", "exact_unique_100", "exact_next", "collisions", "same_code"):
        values = [run[figure] for run in runs if run.get(figure) is not None]
        means.append(f"{figure} {np.mean(values):.1f}" if values else f"{figure} –")
    words = [run["verdict"] for run in runs]
    verdicts = ", ".join(f"{words.count(word)} {word}" for word in sorted(set(words), key=str))
    return f"{name:10} {'  '.join(means)}  {verdicts}  {sum(run.get('seconds', 0) for run in runs):.0f} s"


def main(
    arguments: Sequence[str] | None = None,
    kinds: Sequence[type[World]] = KINDS,
    sizes: Sizes = Sizes(),
    config: dwmr.Config | None = None,
) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS, help="the file to write or to continue")
    parser.add_argument("--seeds", type=int, default=5, help="runs of each world")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these worlds alone")
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="begin no world that may end after this; rerun")
    given = parser.parse_args(arguments)
    known = {kind.name: kind for kind in kinds}
    for name in given.only or ():
        if name not in known:
            raise unknown("world", name, known)
    begun, device, code = time.monotonic(), resolve_device(given.device), describe_code()
    results: dict[str, Any] = json.loads(given.out.read_text(encoding="utf-8")) if given.out.exists() else {}
    if results and results["code"]["digest"] != code["digest"]:
        raise dwmr.InputError(
            f"{given.out} was made with other code ({results['code']['digest']}); choose another --out"
        )
    results = {"machine": describe_machine(device), "code": code, "sizes": vars(sizes), "worlds": {}} | results
    slowest = 0.0  # seconds of a world, in this call
    for name in given.only or known:
        entry = results["worlds"].get(name, {"runs": []})
        done = {run["seed"] for run in entry["runs"]}
        missing = [seed for seed in range(given.seeds) if seed not in done]
        if missing:
            if given.budget is not None and time.monotonic() - begun + slowest >= given.budget:
                print("the budget is spent; rerun to continue")
                return
            at = time.monotonic()
            splits = collect(known[name](), sizes)
            runs = list(train_and_judge(splits, missing, given.device, config or dwmr.preset("auto")))
            entry = {"data": splits.train.fingerprint(), "machine": describe_machine(device)} | entry
            entry["runs"] = sorted([*entry["runs"], *runs], key=lambda run: run["seed"])
            results["worlds"][name] = entry
            atomic_write_json(given.out, results)
            slowest = max(slowest, time.monotonic() - at)
        print(line_of(name, entry["runs"]), flush=True)


if __name__ == "__main__":
    main()
