"""LightsOut: pressing a cell switches it and its neighbours; the goal is to switch all off."""

import functools
from dataclasses import dataclass

import numpy as np

from dwmr.seeding import below
from dwmr.worlds import tiles
from dwmr.worlds.actions import neighbours
from dwmr.worlds.digits import Digits, load_digits
from dwmr.worlds.puzzle import Puzzle
from dwmr.worlds.world import DigitWorld

SIDE = 14

_MAX_SMALL = 4
_TURN = 1.5  # radians at the centre of a twisted picture


@dataclass(frozen=True)
class LightsOut(DigitWorld, Puzzle):
    """Switch off all lights. A state is the number whose bit ``row * size + col`` tells whether that cell is on.

    Labels: off 0, on 1. The action ``row * size + col`` presses that cell. All boards are boards that presses can
    solve. Size 4 has 4,096 of them, size 5 has 8.4 million; tasks are near from size 5 on.

    Args:
        size: rows and columns, 2 to 8.
        style: ``plus`` draws a plus sign where a cell is on; ``digits`` draws a handwritten 1 there, else a 0,
            in fresh handwriting in every frame.
        twisted: twist the picture around its centre.
    """

    size: int = 4
    style: str = "plus"
    twisted: bool = False

    name = "lightsout"
    allowed = {"size": range(2, 9), "style": ("plus", "digits")}  # noqa: RUF012

    @property
    def action_names(self) -> tuple[str, ...]:
        return tuple(f"press-{row}-{col}" for row in range(self.size) for col in range(self.size))

    @property
    def image_shape(self) -> tuple[int, int, int]:
        return 1, self.size * SIDE, self.size * SIDE

    @property
    def small_levels(self) -> bool:
        return self.size <= _MAX_SMALL

    @property
    def many_states(self) -> bool:
        return self.size > _MAX_SMALL

    def random_state(self, generator: np.random.Generator) -> int:
        pressed = np.flatnonzero(below(generator, 2, self.size**2))
        return functools.reduce(self.step, pressed.tolist(), 0)

    def step(self, state: int, action: int) -> int:
        return state ^ _presses(self.size)[action]

    def solved(self, state: int) -> bool:
        return state == 0

    def labels(self, state: int) -> np.ndarray:
        bits = np.unpackbits(np.frombuffer(state.to_bytes(8, "little"), np.uint8), bitorder="little")
        return bits[: self.size**2].reshape(self.size, self.size)

    def state_name(self, state: int) -> str:
        return "/".join("".join(map(str, row)) for row in self.labels(state))

    @property
    def pictures(self) -> np.ndarray:
        """Nothing, and a plus sign."""
        pictures = np.zeros((2, 1, SIDE, SIDE), np.uint8)
        pictures[1, 0, 6:8, 2:12] = pictures[1, 0, 2:12, 6:8] = 255
        return pictures

    def draw(self, labels: np.ndarray, generator: np.random.Generator, split: str = "train") -> np.ndarray:
        if self.style == "plus":
            images = super().draw(labels, generator, split)
        else:
            digits = load_digits(self.digits, split)
            images = tiles.mosaic(digits.pick(labels, generator), _half_size(digits))
        if self.twisted:
            rows, cols = _twist(self.size * SIDE)
            images = images[:, :, rows, cols]
        return images


@functools.cache
def _presses(size: int) -> list[int]:
    """The cells that each action switches, as sets of bits."""
    return [sum(1 << switched for switched in {cell, *ends}) for cell, ends in enumerate(neighbours(size, size))]


@functools.lru_cache(maxsize=4)
def _half_size(digits: Digits) -> np.ndarray:
    """The pictures of zeros and ones, uint8 (P, 1, 14, 14), at half their size."""
    pictures = digits.pictures[: 1 + digits.counts[:2].sum()].reshape(-1, 1, SIDE, 2, SIDE, 2)
    return (pictures.astype(np.uint16).sum((3, 5)) // 4).astype(np.uint8)


@functools.cache
def _twist(side: int) -> tuple[np.ndarray, np.ndarray]:
    """For each pixel of a twisted picture, the row and column of the pixel it shows.

    Circles around the centre are turned, the smaller the further; the corners stay.
    """
    down, right = np.mgrid[:side, :side] - (side - 1) / 2
    radius = np.hypot(down, right)
    angle = np.arctan2(down, right) + _TURN * np.maximum(0, 1 - radius / (side / 2))
    rows, cols = (np.rint(radius * part(angle) + (side - 1) / 2).astype(int) for part in (np.sin, np.cos))
    return rows.clip(0, side - 1), cols.clip(0, side - 1)
