"""Finds the parts of images whose pixels change together: each part has a place and a shape of its own.

This serves images that are not a grid of equal cells but always show the same places: a cube in perspective, a board
that is warped, a grid that was rescaled, so that the pixels of its cells differ. Two pixels belong to one part if each
of them says what the other one shows. Pixels where parts meet may mix them; they are drawn, but not read.

Nothing but frames is used.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dwmr.errors import InputError
from dwmr.seeding import rng

FRAMES = 2000  # in which pixels are compared, evenly over the data
MAX_ATOMS = 3000  # kinds of pixels
MAX_VALUES = 64  # that a part may show; with more, something moves through it, or it is drawn anew each time
NEAR = 2  # pixels between a mixture and what it mixes
REPEATED = 4  # frames for each combination of parts, on average, without which nothing follows from them
TOLD = 0.02  # share of the information of a part that a mixture has, at least
MIXED = 12  # parts that a mixture may be made of, those that have most in common with it
INDEPENDENT = 0.3  # share of its information that a part may have in common with another, if both are mixed
SAME_PART = 0.5  # share of its information that a pixel has in common with another of the same part
UNCLEAR = 0.05  # share of the changing pixels that may be no part, if they show more than `MAX_VALUES`
MAX_NEW = 0.01  # share of the frames in the second half of the data that may show a value the first half does not
REGULAR = 0.2  # of the distance between two rows or columns, by which parts may be out of line,
OFF_PIXELS = 1.5  # or this many pixels, where rows and columns are narrow,
MAX_OFF = 0.35  # but at most this share of the distance
CHUNK = 1024


@dataclass(frozen=True)
class PartLayout:
    """``rows`` × ``cols`` parts of at most ``pixels`` pixels each."""

    rows: int
    cols: int
    pixels: int

    def __str__(self) -> str:
        return f"{self.rows}x{self.cols}:{self.pixels}"

    @staticmethod
    def parse(text: str) -> PartLayout:
        """The inverse of ``str``: ``1x21:83`` is 21 parts of up to 83 pixels."""
        found = re.fullmatch(r"(\d+)x(\d+):(\d+)", text)
        if found is None:
            raise InputError(f"expected parts such as 1x21:83 (rows, columns: pixels), got {text!r}")
        return PartLayout(*map(int, found.groups()))

    @property
    def count(self) -> int:
        return self.rows * self.cols


@dataclass(frozen=True)
class Parts:
    """The T = rows · cols parts of images, and what they show. Some may have no pixels, to fill a grid.

    places  int (T, P), the places of a part's pixels in a flattened channel
    read    bool (T, P), the pixels that say what a part shows
    drawn   bool (T, P), these and the mixtures that are drawn with it; what is left has place 0 and means nothing
    looks   uint8 (T, S, C, P), what a part looks like if it shows a symbol
    known   bool (T, S), the symbols that a part shows in the data
    """

    grid: PartLayout
    places: np.ndarray
    read: np.ndarray
    drawn: np.ndarray
    looks: np.ndarray
    known: np.ndarray

    def __len__(self) -> int:
        return self.known.shape[1]


@dataclass(frozen=True)
class _Atom:
    """Pixels that are functions of each other: their places, and what they show in each frame, as a number."""

    pixels: np.ndarray
    shown: np.ndarray
    entropy: float


def find_parts(obs: np.ndarray, next_obs: np.ndarray) -> Parts | None:
    """The parts of the images; None if there are too many, or if what they show keeps being new."""
    chosen = np.linspace(0, len(obs) - 1, min(FRAMES, len(obs))).astype(int)
    frames = np.ascontiguousarray(obs[chosen])
    atoms = _atoms(frames)
    if not 2 <= len(atoms) <= MAX_ATOMS:
        return None
    kept, mixtures = _without_mixtures(atoms, frames.shape[2:])
    groups = _same_part(kept, frames.shape[2:])
    unclear = [group for group in groups if _count(*(atom.shown for atom in group)) > MAX_VALUES]
    changing = sum(len(atom.pixels) for atom in atoms)
    if sum(len(atom.pixels) for group in unclear for atom in group) > UNCLEAR * changing:
        return None
    groups = [group for group in groups if all(group is not other for other in unclear)]
    mixtures += itertools.chain.from_iterable(unclear)
    return _read_all(groups, mixtures, obs, next_obs)


def _atoms(frames: np.ndarray) -> list[_Atom]:
    count, channels, height, width = frames.shape
    colours = np.zeros((height * width, count), np.int64)
    for channel in range(channels):
        colours = 256 * colours + frames[:, channel].reshape(count, -1).T
    found: dict[bytes, list[int]] = {}
    for place, series in enumerate(colours):
        found.setdefault(_numbered(series).tobytes(), []).append(place)
        if len(found) > MAX_ATOMS + 1:
            break
    shown = [np.frombuffer(each, np.int32) for each in found]
    atoms = [_Atom(np.array(pixels), each, _entropy(each)) for each, pixels in zip(shown, found.values(), strict=True)]
    return [atom for atom in atoms if atom.entropy > 0]


def _numbered(series: np.ndarray) -> np.ndarray:
    """The values of a series (F,), numbered in the order in which they first appear."""
    _, first, inverse = np.unique(series, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int32)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]


def _together(*series: np.ndarray) -> np.ndarray:
    """What several parts show together, as numbers (F,)."""
    joint = series[0].astype(np.int64)
    for each in series[1:]:
        joint = np.unique(joint * (int(each.max()) + 1) + each, return_inverse=True)[1]
    return joint


def _count(*series: np.ndarray) -> int:
    return len(np.unique(_together(*series)))


def _entropy(series: np.ndarray) -> float:
    shares = np.unique(series, return_counts=True)[1] / len(series)
    return float(-(shares * np.log2(shares)).sum())


def _in_common(first: _Atom, second: _Atom) -> float:
    """Mutual information in bits, less what chance gives."""
    joint = _together(first.shown, second.shown)
    chance = (first.shown.max() * second.shown.max()) / (2 * np.log(2) * len(joint))
    return first.entropy + second.entropy - _entropy(joint) - float(chance)


def _neighbours(groups: Sequence[np.ndarray], shape: tuple[int, ...], distance: int) -> list[set[int]]:
    """For each group of pixels, the other groups that have a pixel within a distance."""
    height, width = shape
    owner = np.full((height + 2 * distance, width + 2 * distance), -1)
    for number, pixels in enumerate(groups):
        owner[pixels // width + distance, pixels % width + distance] = number
    inner = owner[distance : distance + height, distance : distance + width]
    near: list[set[int]] = [set() for _ in groups]
    for down, right in itertools.product(range(2 * distance + 1), repeat=2):
        other = owner[down : down + height, right : right + width]
        both = np.unique(np.stack([inner, other])[:, (inner >= 0) & (other >= 0) & (inner != other)], axis=1)
        for one, two in both.T.tolist():
            near[one].add(two)
    return near


def _without_mixtures(atoms: list[_Atom], shape: tuple[int, ...]) -> tuple[list[_Atom], list[_Atom]]:
    """The atoms that are no mixtures of others, and the mixtures."""
    near = _neighbours([atom.pixels for atom in atoms], shape, NEAR)
    mixed: set[int] = set()
    for number in sorted(range(len(atoms)), key=lambda each: -atoms[each].entropy):
        if _is_mixture(atoms[number], [atoms[other] for other in near[number] - mixed]):
            mixed.add(number)
    kept = [atom for number, atom in enumerate(atoms) if number not in mixed]
    return kept, [atoms[number] for number in sorted(mixed)]


def _is_mixture(whole: _Atom, near: list[_Atom]) -> bool:
    """Whether independent parts, each of which says less, say together what the whole shows."""
    told = {
        place: common
        for place, part in enumerate(near)
        if _may_mix(whole, part) and (common := _in_common(whole, part)) >= TOLD * part.entropy
    }
    parts = [near[place] for place in sorted(told, key=lambda place: -told[place])[:MIXED]]
    alone = {pair: _independent(*(parts[i] for i in pair)) for pair in itertools.combinations(range(len(parts)), 2)}
    return any(
        all(alone[pair] for pair in itertools.combinations(some, 2)) and _says(whole, [parts[i] for i in some])
        for count in (2, 3, 4)
        for some in itertools.combinations(range(len(parts)), count)
    )


def _may_mix(whole: _Atom, part: _Atom) -> bool:
    """Whether a mixture may be made of this part, as it says less. The third side of a cube's corner follows from the
    two others and is no mixture of them: it says no more than they, and is as large."""
    fewer, small = part.shown.max() < whole.shown.max(), 2 * len(whole.pixels) <= len(part.pixels)
    return bool((fewer or small) and part.entropy < whole.entropy)


def _independent(first: _Atom, second: _Atom) -> bool:
    return _in_common(first, second) <= INDEPENDENT * min(first.entropy, second.entropy)


def _says(whole: _Atom, parts: list[_Atom]) -> bool:
    together = _together(*(part.shown for part in parts))
    combinations = len(np.unique(together))
    return REPEATED * combinations <= len(together) and _count(together, whole.shown) == combinations


def _same_part(atoms: list[_Atom], shape: tuple[int, ...]) -> list[list[_Atom]]:
    """Near atoms that have much in common, as groups."""
    near = _neighbours([atom.pixels for atom in atoms], shape, NEAR)
    group_of = list(range(len(atoms)))
    for one, others in enumerate(near):
        for other in others:
            least = min(atoms[one].entropy, atoms[other].entropy)
            if group_of[one] != group_of[other] and _in_common(atoms[one], atoms[other]) >= SAME_PART * least:
                group_of = [group_of[one] if each == group_of[other] else each for each in group_of]
    groups: dict[int, list[_Atom]] = {}
    for atom, group in zip(atoms, group_of, strict=True):
        groups.setdefault(group, []).append(atom)
    return list(groups.values())


def _read_all(groups: list[list[_Atom]], mixtures: list[_Atom], obs: np.ndarray, next_obs: np.ndarray) -> Parts | None:
    """What each part shows in all frames; None if it keeps being new."""
    channels, height, width = obs.shape[1:]
    pixels = [np.sort(np.concatenate([atom.pixels for atom in group])) for group in groups]
    borders = _borders(groups, mixtures, width)
    weights = rng(0, "hashes of parts").integers(1, 2**63, (channels, height * width), dtype=np.uint64)
    found: list[dict[int, np.ndarray]] = [{} for _ in groups]
    sums: list[dict[int, np.ndarray]] = [{} for _ in groups]
    new = later = 0
    for start, frames in _chunks(obs, next_obs):
        flat = frames.reshape(len(frames), channels, -1)
        unseen = np.zeros(len(frames), bool)
        for part, places in enumerate(pixels):
            cut = flat[:, :, places]
            hashes = ((cut.astype(np.uint64) + 1) * weights[:, places]).sum((1, 2), dtype=np.uint64)
            names, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
            for number, (name, at) in enumerate(zip(names.tolist(), first.tolist(), strict=True)):
                if name not in found[part]:
                    found[part][name] = cut[at]
                    unseen[at] = True
                    where = np.flatnonzero(inverse == number)
                    sums[part][name] = flat[where][:, :, borders[part]].mean(0)
            if len(found[part]) > MAX_VALUES:
                return None
        if start >= len(obs) // 2:
            later, new = later + len(frames), new + int(unseen.sum())
    if new > MAX_NEW * later:
        return None
    return _laid_out(
        [np.concatenate([read, border]) for read, border in zip(pixels, borders, strict=True)],
        [len(read) for read in pixels],
        [
            np.stack([np.concatenate([look, sums[part][name]], axis=1) for name, look in found[part].items()])
            for part in range(len(groups))
        ],
        width,
    )


def _chunks(obs: np.ndarray, next_obs: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    size = min(CHUNK, -(-len(obs) // 2))
    for start in range(0, len(obs), size):
        for part in (obs, next_obs):
            yield start, np.ascontiguousarray(part[start : start + size])


def _borders(groups: list[list[_Atom]], mixtures: list[_Atom], width: int) -> list[np.ndarray]:
    """For each part the mixtures that are drawn with it: those that have most in common with it."""
    borders: list[list[int]] = [[] for _ in groups]
    centres = np.array([_centre(np.concatenate([atom.pixels for atom in group]), width) for group in groups])
    largest = [max(group, key=lambda atom: atom.entropy) for group in groups]
    for mixture in mixtures:
        distance = np.linalg.norm(centres - _centre(mixture.pixels, width), axis=1)
        nearest = np.argsort(distance)[:9].tolist()
        borders[max(nearest, key=lambda part: _in_common(mixture, largest[part]))].extend(mixture.pixels.tolist())
    return [np.array(each, int) for each in borders]


def _centre(pixels: np.ndarray, width: int) -> np.ndarray:
    """The mean row and column of some pixels."""
    return np.array([(pixels // width).mean(), (pixels % width).mean()])


def _laid_out(pixels: list[np.ndarray], read: list[int], looks: list[np.ndarray], width: int) -> Parts:
    """Parts in the order of their rows and columns, their symbols numbered alike."""
    centres = np.array([_centre(each[:count], width) for each, count in zip(pixels, read, strict=True)])
    rows, cols, order = _lattice(centres)
    numbers = _numbers([look[:, :, :count].mean(2) for look, count in zip(looks, read, strict=True)])
    symbols = 1 + max(int(each.max()) for each in numbers)
    most, channels = max(map(len, pixels)), looks[0].shape[1]
    size = rows * cols
    places, known = np.zeros((size, most), int), np.zeros((size, symbols), bool)
    reads, drawn = np.zeros((2, size, most), bool)
    shown = np.zeros((size, symbols, channels, most), np.uint8)
    for part, at in enumerate(order):
        count = len(pixels[part])
        places[at, :count] = pixels[part]
        reads[at, : read[part]], drawn[at, :count] = True, True
        known[at, numbers[part]] = True
        shown[at, numbers[part], :, :count] = np.rint(looks[part])
    known[~reads.any(1), 0] = True
    return Parts(PartLayout(rows, cols, most), places, reads, drawn, shown, known)


def _lattice(centres: np.ndarray) -> tuple[int, int, np.ndarray]:
    """Rows, columns and each part's place in them, row by row: a grid if the parts lie on one, else a single row."""
    lines = [_lines(along) for along in centres.T]
    rows, cols = (int(each.max()) + 1 for each in lines)
    order = lines[0] * cols + lines[1]
    if rows * cols <= 4 * len(centres) and len(np.unique(order)) == len(order):
        return rows, cols, order
    order = np.empty(len(centres), int)
    order[np.lexsort((centres[:, 1], centres[:, 0]))] = np.arange(len(centres))
    return 1, len(centres), order


def _lines(along: np.ndarray) -> np.ndarray:
    """The number of the row or column of each part, from its position; different for all if they are out of line."""
    ordered = np.sort(along)
    gaps = np.diff(ordered)
    levels = [each.mean() for each in np.split(ordered, np.flatnonzero(gaps > gaps.max(initial=0) / 2) + 1)]
    if len(levels) == 1:
        return np.zeros(len(along), int)
    pitch = float(np.median(np.diff(levels)))
    places = (along - levels[0]) / pitch
    if np.abs(places - np.rint(places)).max() > min(MAX_OFF, max(REGULAR, OFF_PIXELS / pitch)):
        return np.arange(len(along))
    return np.rint(places).astype(int)


def _numbers(colours: list[np.ndarray]) -> list[np.ndarray]:
    """Numbers for what the parts show, given the mean colours (S, C) of each. Equal colours get equal numbers if few
    numbers are enough; else each part's are in the order of brightness."""
    apart = [float(np.linalg.norm(one - other)) for each in colours for one, other in itertools.combinations(each, 2)]
    reach = min(apart) if apart else 0.0
    centres: list[np.ndarray] = []
    numbers: list[np.ndarray] = [np.array([])] * len(colours)
    for part in sorted(range(len(colours)), key=lambda part: -len(colours[part])):
        each = colours[part]
        given = np.full(len(each), -1)
        distances = np.array([[np.linalg.norm(colour - centre) for centre in centres] for colour in each])
        for place in np.argsort(distances, axis=None) if centres else []:
            value, centre = divmod(int(place), len(centres))
            if distances[value, centre] <= reach and given[value] < 0 and centre not in given:
                given[value] = centre
        for value in np.flatnonzero(given < 0):
            given[value] = len(centres)
            centres.append(each[value])
        numbers[part] = given
    if len(centres) <= 2 * max(map(len, colours)):
        return numbers
    return [np.argsort(np.argsort(each.sum(1), kind="stable"), kind="stable") for each in colours]
