"""Finds the grid and the symbols of images whose cells are drawn anew each time: handwriting, noise, a shaking camera.

Nothing but two frames of the same state is used. What they have in common is the state; the way it was drawn is not.
Two pixels of one cell vary together from state to state more than two pixels of different cells do, which gives the
grid. Two drawings that the same cell shows in the two frames are drawings of one symbol, which gives the symbols.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dwmr.data.cell_grid import CellGrid, axis_divisions
from dwmr.data.transitions import Transitions
from dwmr.seeding import rng

GRID_FRAMES = 5000  # pairs of frames of one state from which the grid is found, evenly over the data
GRID_PRODUCTS = 2e11  # multiplications that finding it may take; fewer transitions are used for large images
APART = (0, 4, 8)  # rows between the pixels that are compared along a row, and columns likewise
SURE = 5.0  # standard deviations by which a pixel's variance from state to state must exceed chance
AS_GOOD = 2e-3  # difference of scores that says nothing
ALIGNED = 0.01  # difference of variation between cells that says nothing
EMPTY = 1e-4  # a cell at the border with less of the variance than this, mostly outside of the image, is dropped

PAIRS_LOOKED_AT = 100  # to see whether frames of one state differ
MAX_CELLS = 4_000_000  # cells that are named
DIRECTIONS = 32  # numbers that describe a cell
CLUSTERS = 512
SAMPLE = 60_000  # cells that the clusters are made from
ROUNDS = 12
APART_KAPPA = 0.25  # agreement of two frames, as Cohen's κ, from which two clusters are different symbols
APART_EVIDENCE = 30.0  # and how much evidence there must be for it
MAX_SYMBOLS = 64
DRAWINGS = 2000  # that a symbol's mean drawing is taken over, at most
MAX_PIXELS = 1024  # values in a cell; larger cells are looked at with less resolution
CHUNK = 1000


@dataclass(frozen=True)
class NamedCells:
    """The symbol that each cell of some frames shows, as far as it can be told from single cells; some are wrong.

    first, second  transitions (P,): the next frame of the first and the frame of the second show the same state
    names          uint8 (2, P, cells): the symbols in each of these frames, 0 the most frequent
    """

    grid: CellGrid
    first: np.ndarray
    second: np.ndarray
    names: np.ndarray

    def __len__(self) -> int:
        return int(self.names.max()) + 1


def find_named_cells(transitions: Transitions) -> NamedCells | None:
    """The grid of the images and the symbols of their cells; None if no symbols are found, or if there are no two
    frames of a state that differ."""
    if transitions.episode is None or not _drawn_anew(transitions):
        return None
    grid = find_rendered_grid(transitions)
    return None if grid is None else name_cells(transitions, grid)


def _drawn_anew(transitions: Transitions) -> bool:
    """Whether most frames of one state differ, of some pairs of them."""
    first, second = transitions.same_state_pairs()
    some = np.linspace(0, len(first) - 1, min(PAIRS_LOOKED_AT, len(first))).astype(int)
    equal = [np.array_equal(transitions.next_obs[first[at]], transitions.obs[second[at]]) for at in some]
    return len(equal) > 1 and sum(equal) < len(equal) / 2


def find_rendered_grid(transitions: Transitions) -> CellGrid | None:
    """The grid within whose cells pixels vary together; None if no pixel varies from state to state."""
    channels, height, width = transitions.image_shape
    most = GRID_PRODUCTS / (2 * len(APART) * channels * height * width * (height + width))
    first, second = transitions.same_state_pairs()
    count = min(GRID_FRAMES, len(first), max(500, int(most)))
    chosen = np.linspace(0, len(first) - 1, count).astype(int)
    pairs = transitions.next_obs[first[chosen]], transitions.obs[second[chosen]]
    now, then = (frames.astype(np.float32) / 255 for frames in pairs)
    now, then = now - now.mean(0), then - then.mean(0)
    variance = (now * then).mean(0)
    variance = np.where(variance > SURE * np.sqrt(now.var(0) * then.var(0) / count), variance, 0)
    if not variance.any():
        return None
    rows = _best_division(_together(now, then, variance), variance.sum((0, 2)))
    now_across, then_across = (part.transpose(0, 1, 3, 2) for part in (now, then))
    across = _together(now_across, then_across, variance.transpose(0, 2, 1))
    cols = _best_division(across, variance.sum((0, 1)))
    return CellGrid(rows[0], cols[0], rows[1], cols[1], rows[2], cols[2])


def _together(now: np.ndarray, then: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """How much more two rows of pixels vary together than if all pixels varied alike, (H, H); its sum is 0.

    Squared covariances between two frames of a state, less what chance gives, as shares of their sum; less the same
    shares if every pair of pixels were fully correlated.
    """
    count = len(now)
    now_rows, then_rows = (np.ascontiguousarray(part.transpose(1, 3, 2, 0)) for part in (now, then))  # (C, W, H, N)
    spread = [part.var(0).transpose(0, 2, 1) for part in (now, then)]
    variance = variance.transpose(0, 2, 1)
    height, width = variance.shape[2], variance.shape[1]
    shared, expected = np.zeros((height, height)), np.zeros((height, height))
    for apart in APART:
        end = width - apart
        if end <= 0:
            continue
        ways = ((now_rows, then_rows, *spread), (then_rows, now_rows, *reversed(spread)))
        for first, second, first_spread, second_spread in ways:
            covariance = first[:, :end] @ second[:, apart:].transpose(0, 1, 3, 2) / count
            chance = first_spread[:, :end, :, None] * second_spread[:, apart:, None, :] / count
            shared += (covariance**2 - chance).sum((0, 1))
            expected += (variance[:, :end, :, None] * variance[:, apart:, None, :]).sum((0, 1))
    difference = shared / shared.sum() - expected / expected.sum()
    return (difference + difference.T) / 2


def _best_division(together: np.ndarray, profile: np.ndarray) -> tuple[int, float, int]:
    """Number, pitch and start of the cells along a side, from how much more its lines vary together than apart.

    A division's score is what lies within its cells. Where the cells have blank margins several are as good; then the
    one is taken whose cells have the most similar variance (``profile``) line by line, with the fewest cells.
    """
    size = len(together)
    sums = np.zeros((size + 1, size + 1))
    sums[1:, 1:] = together.cumsum(0).cumsum(1)

    def score(number: int, pitch: float, start: int) -> float:
        bounds = np.clip(np.rint(start + pitch * np.arange(number + 1)).astype(int), 0, size)
        low, high = bounds[:-1], np.r_[bounds[1:-1], size]
        return float((sums[high, high] - sums[low, high] - sums[high, low] + sums[low, low]).sum())

    scores = {division: score(*division) for division in axis_divisions(size)}
    best = max(scores.values())
    equal = [_fitted(profile, *division) for division, value in scores.items() if value >= best - AS_GOOD]
    least = min(variation for variation, *_ in equal)
    fits = [fit for fit in equal if fit[0] <= least + ALIGNED]
    _, number, pitch, start = min(fits, key=lambda fit: (fit[1], _outside(size, *fit[1:]), fit[0]))
    return number, pitch, start


def _outside(size: int, number: int, pitch: float, start: int) -> float:
    """How many lines of the cells lie outside of the image."""
    return max(0, -start) + max(0, start + number * pitch - size)


def _fitted(profile: np.ndarray, number: int, pitch: float, start: int) -> tuple[float, int, float, int]:
    """How much the cells' profiles of variance differ; and the division without empty cells beyond the border."""
    lines = np.rint(start + pitch * np.arange(number)).astype(int)[:, None] + np.arange(math.ceil(pitch))
    inside = (lines >= 0) & (lines < len(profile))
    cells = np.where(inside, profile[np.clip(lines, 0, len(profile) - 1)], 0)
    sums = cells.sum(1)
    kept = np.flatnonzero((sums > EMPTY * sums.max()) | (inside.mean(1) > 0.5))
    cells = cells[kept[0] : kept[-1] + 1]
    variation = float(((cells - cells.mean(0)) ** 2).sum() / (cells**2).sum())
    return variation, len(cells), pitch, round(start + pitch * kept[0])


def name_cells(transitions: Transitions, grid: CellGrid) -> NamedCells | None:
    """The symbols that the cells of a grid show, found from pairs of frames of the same state."""
    first, second = transitions.same_state_pairs()
    most = max(2, MAX_CELLS // (2 * grid.count))
    first, second = first[:most], second[:most]
    cells = _described(transitions, grid, first, second)
    flat = cells.reshape(-1, cells.shape[-1])
    generator = rng(0, "clusters of cells")
    sample = generator.choice(len(flat), min(SAMPLE, len(flat)), replace=False)
    clusters = _nearest(flat, _clusters(flat[sample], generator)).reshape(cells.shape[:-1])
    together = np.zeros((CLUSTERS, CLUSTERS))
    np.add.at(together, (clusters[0].ravel(), clusters[1].ravel()), 1)
    symbol_of = merged(together + together.T)
    names = symbol_of[clusters]
    counts = np.bincount(names.ravel())
    order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    if not 2 <= len(order) <= MAX_SYMBOLS:
        return None
    rank = np.zeros(len(counts), np.uint8)
    rank[order] = np.arange(len(order))
    names = rank[names]
    return NamedCells(grid, first, second, names)


def _cut(grid: CellGrid, images: np.ndarray) -> np.ndarray:
    """The cells of images (N, C, H, W) as numbers (N, cells, D) in [0, 1]; large cells with less resolution."""
    patches = grid.cut(images).astype(np.float32) / 255
    while math.prod(patches.shape[3:]) > MAX_PIXELS and min(patches.shape[4:]) > 1:
        height, width = (side // 2 * 2 for side in patches.shape[4:])
        halves = [patches[..., i:height:2, j:width:2] for i in (0, 1) for j in (0, 1)]
        patches = sum(halves[1:], halves[0]) / 4
    return patches.reshape(len(images), grid.count, -1)


def _chunks(*indices: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
    for start in range(0, len(indices[0]), CHUNK):
        yield tuple(index[start : start + CHUNK] for index in indices)


def _described(transitions: Transitions, grid: CellGrid, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Every cell of the two frames of each pair as a few numbers (2, P, cells, D): its parts along the directions in
    which the two frames vary together."""
    looked = np.linspace(0, len(first) - 1, min(len(first), 4 * CHUNK)).astype(int)
    total, products, count = 0.0, 0.0, 0
    for one, other in _chunks(first[looked], second[looked]):
        now = _cut(grid, transitions.next_obs[one]).reshape(len(one) * grid.count, -1)
        then = _cut(grid, transitions.obs[other]).reshape(len(one) * grid.count, -1)
        total, products, count = total + now.sum(0) + then.sum(0), products + now.T @ then, count + len(now)
    mean = total / (2 * count)
    covariance = (products + np.transpose(products)) / (2 * count) - np.outer(mean, mean)
    _, directions = np.linalg.eigh(covariance)
    basis = directions[:, ::-1][:, :DIRECTIONS].astype(np.float32)
    centre = (mean @ basis).astype(np.float32)
    cells = np.empty((2, len(first), grid.count, basis.shape[1]), np.float32)
    done = 0
    for one, other in _chunks(first, second):
        end = done + len(one)
        cells[0, done:end] = _cut(grid, transitions.next_obs[one]) @ basis - centre
        cells[1, done:end] = _cut(grid, transitions.obs[other]) @ basis - centre
        done = end
    return cells


def _clusters(points: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """k-means of points (N, D): centres (k, D), first drawn far from each other, then moved to their points' mean."""
    chosen = [points[generator.integers(len(points))]]
    distance = ((points - chosen[0]) ** 2).sum(1)
    while len(chosen) < min(CLUSTERS, len(points)) and distance.sum() > 0:
        place = np.searchsorted(distance.cumsum(), generator.random() * distance.sum())
        chosen.append(points[min(place, len(points) - 1)])
        distance = np.minimum(distance, ((points - chosen[-1]) ** 2).sum(1))
    centres = np.stack(chosen)
    for _ in range(ROUNDS):
        nearest = _nearest(points, centres)
        counts = np.bincount(nearest, minlength=len(centres))[:, None]
        sums = np.stack([np.bincount(nearest, part, len(centres)) for part in points.T], axis=1)
        centres = np.where(counts > 0, sums / np.maximum(counts, 1), centres).astype(np.float32)
    return centres


def _nearest(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """The centre that is nearest to each point."""
    half = (centres**2).sum(1) / 2
    chunks = range(0, len(points), 100 * CHUNK)
    return np.concatenate([(points[start : start + 100 * CHUNK] @ centres.T - half).argmax(1) for start in chunks])


def merged(together: np.ndarray) -> np.ndarray:
    """Clusters of drawings become symbols: for each of K clusters the number of its symbol.

    The clusters that lose the least information about what the other frame shows are merged first. Two are never merged
    if the two frames agree in which of them they show, since then they are different things.

    Args:
        together: symmetric counts (K, K) of what two frames of the same state show in a cell.
    """
    rows, both = together.astype(float), together.astype(float)
    sizes = rows.sum(1)
    symbol_of, alive = np.arange(len(rows)), sizes > 0
    own = _x_log_x(rows).sum(1) - _x_log_x(sizes)

    def losses(row: int) -> np.ndarray:
        merged_rows = rows[row] + rows
        loss = own[row] + own - _x_log_x(merged_rows).sum(1) + _x_log_x(sizes[row] + sizes)
        loss[~alive] = loss[row] = np.inf
        return loss

    loss = np.stack([losses(row) if alive[row] else np.full(len(rows), np.inf) for row in range(len(rows))])
    while np.isfinite(least := loss.min()):
        one, other = (int(place) for place in np.argwhere(loss == least)[0])
        if _are_different(both[one, one], both[other, other], both[one, other]):
            loss[one, other] = loss[other, one] = np.inf
            continue
        rows[one] += rows[other]
        sizes[one] += sizes[other]
        both[one] += both[other]
        both[:, one] += both[:, other]
        alive[other] = False
        symbol_of[symbol_of == other] = one
        own[one] = _x_log_x(rows[one]).sum() - _x_log_x(sizes[one])
        loss[other] = loss[:, other] = np.inf
        loss[one] = loss[:, one] = losses(one)
    return symbol_of


def _are_different(both_first: float, both_second: float, mixed: float) -> bool:
    """Whether two frames agree on which of two clusters a cell shows, by Cohen's κ and the evidence for it."""
    pairs = both_first + both_second + 2 * mixed
    if not pairs:
        return False
    share = (both_first + mixed) / pairs
    by_chance = share**2 + (1 - share) ** 2
    kappa = ((both_first + both_second) / pairs - by_chance) / (1 - by_chance) if by_chance < 1 else 0.0
    return kappa > APART_KAPPA and pairs / 2 * kappa**2 > APART_EVIDENCE


def _x_log_x(values: np.ndarray) -> np.ndarray:
    return values * np.log(np.maximum(values, 1e-300))


def mean_drawings(
    transitions: Transitions, grid: CellGrid, chosen: np.ndarray, names: np.ndarray, symbols: int
) -> np.ndarray:
    """The mean drawing of each symbol, uint8 (S, C, height, width), in the next frames of the ``chosen`` transitions
    (P,), whose cells are named in ``names`` (P, cells)."""
    means = []
    for symbol in range(symbols):
        frame, cell = np.nonzero(names == symbol)
        few = np.linspace(0, len(frame) - 1, min(DRAWINGS, len(frame))).astype(int)
        total = np.zeros((transitions.image_shape[0], *grid.patch))
        for frames, cells in _chunks(frame[few], cell[few]):
            row, col = np.divmod(cells, grid.cols)
            patches = grid.cut(transitions.next_obs[chosen[frames]])
            total += patches[np.arange(len(cells)), row, col].sum(0, dtype=float)
        means.append(np.rint(total / max(1, len(few))))
    return np.stack(means).astype(np.uint8)
