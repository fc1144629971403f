"""Codes laid out on a grid of cells: a cell's bits as one symbol, and conditions on a cell and its board.

A condition (`Atom`) is relative to a cell, so rules made of atoms are shared by all cells and boards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np

from dwmr.models.world_model import WorldModel

DIRECTIONS = {"up": (-1, 0), "right": (0, 1), "left": (0, -1), "down": (1, 0)}
PLACES = {"up": "above", "right": "to the right", "left": "to the left", "down": "below"}
MAX_SYMBOLS = 16
ALL_SETS, PAIRS = 5, 8  # with more symbols than these, atoms name at most two symbols, or one
MIN_SHARE = 1e-3  # of all cells must show a pattern of bits for it to be a symbol


@dataclass(frozen=True)
class Layout:
    """K bits as (depth, rows, cols), flattened."""

    depth: int
    rows: int
    cols: int

    def patterns(self, codes: np.ndarray) -> np.ndarray:
        """bool (N, K) as integers (N, rows, cols); the first bit of a cell counts most."""
        grid = codes.reshape(-1, self.depth, self.rows, self.cols).astype(np.int64)
        return (grid << np.arange(self.depth - 1, -1, -1)[:, None, None]).sum(1)

    def codes(self, patterns: np.ndarray) -> np.ndarray:
        """The inverse of `patterns`."""
        bits = patterns[:, None] >> np.arange(self.depth - 1, -1, -1)[:, None, None] & 1
        return bits.astype(bool).reshape(len(patterns), -1)


def layout_of(model: WorldModel) -> Layout | None:
    """The layout of a model's code, if its encoder has one: an attribute ``layout`` of (depth, rows, cols)."""
    layout = getattr(model.encoder, "layout", None)
    return None if layout is None else Layout(*layout)


@dataclass(frozen=True)
class Symbols:
    """The patterns of bits that cells commonly show.

    A cell's symbol is a number. Two more numbers stand for any other pattern, and for what lies beyond the edge.
    """

    layout: Layout
    patterns: tuple[int, ...]

    @staticmethod
    def found_in(codes: np.ndarray, layout: Layout) -> Symbols | None:
        """The common patterns of codes bool (N, K), the most frequent first; None if there are too many."""
        values, counts = np.unique(layout.patterns(codes), return_counts=True)
        order = np.argsort(-counts, kind="stable")
        common = [int(values[index]) for index in order if counts[index] >= MIN_SHARE * counts.sum()]
        return Symbols(layout, tuple(common)) if len(common) <= MAX_SYMBOLS else None

    @property
    def count(self) -> int:
        return len(self.patterns)

    @property
    def other(self) -> int:
        return self.count

    @property
    def edge(self) -> int:
        return self.count + 1

    def name(self, symbol: int) -> str:
        return "outside the board" if symbol == self.edge else f"{self.patterns[symbol]:0{self.layout.depth}b}"

    def read(self, codes: np.ndarray) -> np.ndarray:
        """bool (N, K) as symbols, int8 (N, rows, cols)."""
        patterns = self.layout.patterns(codes)
        symbols = np.full(patterns.shape, self.other, np.int8)
        for number, pattern in enumerate(self.patterns):
            symbols[patterns == pattern] = number
        return symbols

    def write(self, symbols: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Codes (N, K) with each cell's bits replaced by its symbol's; cells of no symbol keep theirs."""
        known = np.array([*self.patterns, 0])[symbols]
        return self.layout.codes(np.where(symbols < self.count, known, self.layout.patterns(codes)))


@dataclass(frozen=True, order=True)
class Atom:
    """A condition on a cell. ``shows`` are symbols, of which one may be the edge.

    at        the cell ``distance`` steps in ``direction`` is one of ``shows``
    nearest   the first cell in ``direction`` that is one of ``among`` is one of ``shows``; the edge: there is none
    anywhere  some cell of the board is one of ``shows``
    """

    kind: str
    shows: tuple[int, ...]
    direction: str = ""
    distance: int = 0
    among: tuple[int, ...] = ()

    def text(self, symbols: Symbols, sign: bool = True) -> str:
        shown, sought = (" or ".join(map(symbols.name, each)) for each in (self.shows, self.among))
        place = PLACES.get(self.direction, "")
        verb = "is" if sign else "is not"
        if self.kind == "anywhere":
            return f"{'some' if sign else 'no'} cell is {shown}"
        if self.kind == "at":
            steps = "" if self.distance == 1 else f"{self.distance} steps "
            return f"the cell {steps}{place} {verb} {shown}"
        if self.shows == (symbols.edge,) or len(self.among) == 1:
            some = sign == (self.shows != (symbols.edge,))
            return f"{'some' if some else 'no'} cell {place} is {sought}"
        has = "has" if sign else "is missing or does not have"
        return f"the nearest cell {place} with {sought} {has} {shown}"


def all_atoms(symbols: Symbols) -> list[Atom]:
    """All conditions, simple ones first."""
    shown, with_edge = range(symbols.count), (*range(symbols.count), symbols.edge)
    atoms = [Atom("anywhere", (symbol,)) for symbol in shown]
    for shows in _sets(with_edge, most=len(with_edge) // 2):
        atoms += [Atom("at", shows, way, 1) for way in DIRECTIONS]
    for among in _sets(shown, most=len(shown)):
        ends = among if len(among) == 1 else (*among, symbols.edge)
        atoms += [Atom("nearest", (symbol,), way, among=among) for way in DIRECTIONS for symbol in ends]
    for distance in range(2, max(symbols.layout.rows, symbols.layout.cols)):
        atoms += [Atom("at", (symbol,), way, distance) for way in DIRECTIONS for symbol in with_edge]
    return atoms


def evaluate(atoms: list[Atom], grids: np.ndarray, symbols: Symbols) -> np.ndarray:
    """Where each atom holds: symbols (N, rows, cols) to bool (N, rows, cols, atoms)."""

    @cache
    def seen(direction: str, distance: int, among: tuple[int, ...]) -> np.ndarray:
        """The symbol seen from each cell: at a distance, or the nearest one of a set."""
        if distance:
            return _shifted(grids, symbols.edge, direction, distance)
        stops = np.isin(grids, among)
        nearest = np.full_like(grids, symbols.edge)
        for _ in range(max(grids.shape[1:]) - 1):
            nearest = _shifted(np.where(stops, grids, nearest), symbols.edge, direction, 1)
        return nearest

    found = np.empty((*grids.shape, len(atoms)), bool)
    for index, atom in enumerate(atoms):
        if atom.kind == "anywhere":
            found[..., index] = np.isin(grids, atom.shows).any((1, 2), keepdims=True)
        else:
            found[..., index] = np.isin(seen(atom.direction, atom.distance, atom.among), atom.shows)
    return found


def _shifted(grids: np.ndarray, edge: int, direction: str, distance: int) -> np.ndarray:
    """The symbol ``distance`` cells away from each cell."""
    top, left = (distance * (1 + step) for step in DIRECTIONS[direction])
    padded = np.pad(grids, ((0, 0), (distance, distance), (distance, distance)), constant_values=edge)
    return padded[:, top : top + grids.shape[1], left : left + grids.shape[2]]


def _sets(symbols: Sequence[int], most: int) -> list[tuple[int, ...]]:
    """The sets of symbols that atoms may name, small ones first."""
    largest = len(symbols) if len(symbols) <= ALL_SETS + 1 else 2 if len(symbols) <= PAIRS + 1 else 1
    return [among for size in range(1, min(most, largest) + 1) for among in combinations(symbols, size)]
