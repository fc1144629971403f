"""The 2×2×2 and the 3×3×3 cube, as nets or in two views.

The axes point right, up and towards the viewer. The coordinates of a piece lie between ``1 - size`` and ``size - 1``,
in steps of 2. The position of a sticker is that of its piece, with ``±size`` along the axis that it faces.
"""

import functools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dwmr.seeding import below, shuffled
from dwmr.worlds.puzzle import Puzzle, odd
from dwmr.worlds.tiles import colours

SIDE = 8  # pixels of a sticker in the net
VIEW = 48  # pixels of each of the two views
BLANK = 6

_FACES = ("up", "left", "front", "right", "back", "down")
_NORMAL = ((0, 1, 0), (-1, 0, 0), (0, 0, 1), (1, 0, 0), (0, 0, -1), (0, -1, 0))
_RIGHTWARD = ((1, 0, 0), (0, 0, 1), (1, 0, 0), (0, 0, -1), (-1, 0, 0), (1, 0, 0))  # along the rows of a face
_DOWNWARD = ((0, 0, 1), (0, -1, 0), (0, -1, 0), (0, -1, 0), (0, -1, 0), (0, 0, -1))  # along its columns
_NET = ((0, 1), (1, 0), (1, 1), (1, 2), (1, 3), (2, 1))  # row and column of each face
_COLOURS = colours("f5f5f5 fa7d14 14a046 c81e28 1e46c8 fadc28 1e1e22").astype(int)
_GAP = 0.15  # at the edge of a sticker in a view, where its side is 2


@dataclass(frozen=True)
class Cube(Puzzle):
    """Turn faces by a quarter until every face has one colour. A state holds the colour of every sticker.

    Labels: the net, with the faces left, front, right and back in a row, up above front and down below it. Colours are
    those of the solved cube: up 0, left 1, front 2, right 3, back 4, down 5; 6 where the net is blank. An action turns
    a face clockwise, seen from outside, or counterclockwise if its name ends in ``-inverse``.

    Args:
        style: ``net``, or ``views``: the cube as seen from the corner between up, front and right and from the opposite
            corner.
        jitter: each colour channel of each sticker changes by up to this much in every frame, 0 to 45.
    """

    style: str = "net"
    jitter: int = 0

    allowed = {"style": ("net", "views"), "jitter": range(46)}  # noqa: RUF012  # up to 45 colours stay apart
    size: ClassVar[int]
    faces: ClassVar[tuple[str, ...]]
    n_classes = BLANK + 1

    @property
    def action_names(self) -> tuple[str, ...]:
        return tuple(f"{face}{way}" for face in self.faces for way in ("", "-inverse"))

    @property
    def image_shape(self) -> tuple[int, int, int]:
        return (3, VIEW, 2 * VIEW) if self.style == "views" else (3, 3 * self.size * SIDE, 4 * self.size * SIDE)

    def random_state(self, generator: np.random.Generator) -> bytes:
        origins = random_origins(generator, self.size)
        return bytes(map(solved_state(self.size).__getitem__, origins))

    def step(self, state: bytes, action: int) -> bytes:
        return bytes(map(state.__getitem__, _turns(self.size, self.faces)[action]))

    def solved(self, state: bytes) -> bool:
        return state == solved_state(self.size)

    def labels(self, state: bytes) -> np.ndarray:
        grid = np.full((3 * self.size, 4 * self.size), BLANK, np.uint8)
        grid.flat[_net_cells(self.size)] = np.frombuffer(state, np.uint8)
        return grid

    def draw(self, labels: np.ndarray, generator: np.random.Generator, split: str = "train") -> np.ndarray:
        stickers = labels.reshape(len(labels), -1)[:, _net_cells(self.size)]
        drawn = _COLOURS[np.pad(stickers, ((0, 0), (0, 1)), constant_values=BLANK)]
        if self.jitter:
            drawn[:, :-1] += below(generator, 2 * self.jitter + 1, (*stickers.shape, 3)) - self.jitter
        pixels = _net_pixels(self.size) if self.style == "net" else _view_pixels(self.size)
        return drawn.clip(0, 255).astype(np.uint8).transpose(0, 2, 1)[:, :, pixels]


@dataclass(frozen=True)
class PocketCube(Cube):
    """The 2×2×2 cube. The corner between left, back and down never moves."""

    name = "cube2"
    size = 2
    faces = ("up", "front", "right")


@dataclass(frozen=True)
class RubiksCube(Cube):
    """The 3×3×3 cube. The centres never move."""

    name = "cube3"
    size = 3
    faces = _FACES
    many_states = True


@functools.cache
def solved_state(size: int) -> bytes:
    """Stickers are numbered by face, and row by row on each face."""
    return bytes(face for face in range(len(_FACES)) for _ in range(size**2))


def random_origins(generator: np.random.Generator, size: int) -> list[int]:
    """For each place, the number of the sticker of the solved cube that is there; every cube is equally likely.

    Pieces are put into random places and turned in ways that moves can reach: on the 3×3×3 cube corners and edges are
    both in even order or both in odd order; the turns of all corners add up to whole ones, like those of all edges.
    """
    corners, edges = _pieces(size)
    corner_order = shuffled(generator, len(corners)).tolist()
    edge_order = shuffled(generator, len(edges)).tolist()
    if edges and odd(corner_order) != odd(edge_order):
        edge_order[:2] = edge_order[1::-1]
    origins = list(range(6 * size**2))
    for pieces, order, stickers in ((corners, corner_order, 3), (edges, edge_order, 2)):
        turns = below(generator, stickers, len(pieces)).tolist()
        if pieces:
            turns[-1] -= sum(turns)
        for place, origin, turn in zip(pieces, order, turns, strict=True):
            for index, sticker in enumerate(pieces[origin]):
                origins[place[(index + turn) % stickers]] = sticker
    return origins


@functools.cache
def _positions(size: int) -> np.ndarray:
    """int (stickers, 3)."""
    steps = np.arange(1 - size, size, 2)
    normal, rightward, downward = (np.array(part)[:, None, None] for part in (_NORMAL, _RIGHTWARD, _DOWNWARD))
    return (size * normal + steps[:, None, None] * downward + steps[:, None] * rightward).reshape(-1, 3)


def _numbers(size: int, positions: np.ndarray) -> np.ndarray:
    """The sticker at each of the positions (…, 3), one more than the last where there is none."""
    found = (positions[..., None, :] == _positions(size)).all(-1)
    return np.where(found.any(-1), found.argmax(-1), 6 * size**2)


@functools.cache
def _turns(size: int, faces: tuple[str, ...]) -> list[list[int]]:
    """For each action, the place where the sticker comes from that is at each place afterwards."""
    positions, turns = _positions(size), []
    for face in faces:
        normal = np.array(_NORMAL[_FACES.index(face)])
        height = (positions @ normal)[:, None]
        quarter = height * normal - np.cross(normal, positions)  # clockwise, seen from where the normal points to
        ends = _numbers(size, np.where(height >= size - 1, quarter, positions))
        turns += [ends.argsort().tolist(), ends.tolist()]
    return turns


@functools.cache
def _pieces(size: int) -> tuple[list[list[int]], list[list[int]]]:
    """The stickers of each corner that can move, always in the same sense of rotation, and of each edge."""
    stickers: dict[tuple[int, ...], list[int]] = {}
    for number, piece in enumerate(_positions(size).clip(1 - size, size - 1).tolist()):
        stickers.setdefault(tuple(piece), []).append(number)
    corners = []
    for piece, (one, *others) in stickers.items():
        if len(others) == 2 and (size > 2 or piece != (-1, -1, -1)):
            mirrored = np.linalg.det(_positions(size)[[one, *others]]) < 0
            corners.append([one, *(others[::-1] if mirrored else others)])
    return corners, [numbers for numbers in stickers.values() if len(numbers) == 2]


@functools.cache
def _net_cells(size: int) -> np.ndarray:
    """The cell of each sticker in the net, row by row."""
    cells = np.arange(12 * size**2).reshape(3, size, 4, size)
    return np.concatenate([cells[row, :, col].ravel() for row, col in _NET])


@functools.cache
def _net_pixels(size: int) -> np.ndarray:
    """The sticker that each pixel of the net shows; one more than the last where there is none."""
    cells = np.full(12 * size**2, 6 * size**2)
    cells[_net_cells(size)] = np.arange(6 * size**2)
    return cells.reshape(3 * size, 4 * size).repeat(SIDE, 0).repeat(SIDE, 1)


@functools.cache
def _view_pixels(size: int) -> np.ndarray:
    """The sticker that each pixel of the two views shows; one more than the last where there is none."""
    return np.concatenate([_one_view(size, np.array(corner)) for corner in ((1, 1, 1), (-1, -1, -1))], axis=1)


def _one_view(size: int, corner: np.ndarray) -> np.ndarray:
    """The parallel projection along the line from a corner to the centre of the cube."""
    sight = corner / 3**0.5
    upward = np.array([0, 1, 0]) - sight[1] * sight
    upward /= np.linalg.norm(upward)
    scale = 2 * size * 1.7 / VIEW  # a corner at the rim is 1.63 sizes from the middle
    across = scale * (np.arange(VIEW) - (VIEW - 1) / 2)
    plane = across[:, None] * np.cross(upward, sight) - across[:, None, None] * upward
    pixels = np.full((VIEW, VIEW), 6 * size**2)
    for normal in np.array(_NORMAL)[np.array(_NORMAL) @ corner > 0]:
        depth = (size - plane @ normal) / (sight @ normal)
        points = plane + depth[..., None] * sight
        nearest = np.where(normal == 0, 2 * np.floor((points + size) / 2) + 1 - size, size * normal)
        inside = np.abs(points - nearest).max(-1) < 1 - _GAP
        pixels[inside] = np.minimum(pixels[inside], _numbers(size, nearest[inside]))
    return pixels
