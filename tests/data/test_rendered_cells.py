import numpy as np
import pytest

from dwmr import Transitions
from dwmr.data.rendered_cells import find_named_cells, find_rendered_grid, merged

ROWS, COLS, PIXELS, SYMBOLS = 4, 3, 8, 3
MARGIN = 2  # blank pixels around what a cell shows


def rendered(count: int = 1200, seed: int = 0, *, whole: bool = False) -> tuple[Transitions, np.ndarray]:
    """Boards of which each action changes one cell, or the whole, in episodes of 20 steps, with fresh noise in every
    frame; and the symbols of the next boards."""
    generator = np.random.default_rng(seed)
    pictures = np.random.default_rng(7).integers(0, 2, (SYMBOLS, PIXELS - 2 * MARGIN, PIXELS - 2 * MARGIN)) * 150
    tiles = np.pad(pictures, ((0, 0), (MARGIN, MARGIN), (MARGIN, MARGIN)))
    boards = np.empty((count, 2, ROWS, COLS), int)
    for step in range(count):
        boards[step] = generator.integers(0, SYMBOLS, (ROWS, COLS)) if step % 20 == 0 else boards[step - 1, 1]
        place = slice(None) if whole else (generator.integers(ROWS), generator.integers(COLS))
        boards[step, 1][place] = generator.integers(SYMBOLS, size=boards[step, 1][place].shape)
    frames = tiles[boards].transpose(1, 0, 2, 4, 3, 5).reshape(2, count, 1, ROWS * PIXELS, COLS * PIXELS)
    now, then = np.clip(frames + generator.integers(0, 60, frames.shape), 0, 255).astype(np.uint8)
    actions = generator.integers(0, 2, count)
    transitions = Transitions(now, actions, then, n_actions=2, episode=np.arange(count) // 20)
    return transitions, boards[:, 1].reshape(count, -1)


@pytest.mark.parametrize("whole", [False, True])
def test_the_grid_is_found_under_noise_and_stays_inside_of_the_image(whole: bool) -> None:
    """Blank margins would allow cells that begin up to two pixels earlier or later."""
    grid = find_rendered_grid(rendered(whole=whole)[0])
    assert grid is not None
    assert (grid.rows, grid.cols, grid.height, grid.width, grid.top, grid.left) == (ROWS, COLS, PIXELS, PIXELS, 0, 0)


def test_every_symbol_gets_one_name() -> None:
    transitions, symbols = rendered()
    named = find_named_cells(transitions)
    assert named is not None
    assert len(named) == SYMBOLS
    seen = np.stack([named.names[0].ravel(), symbols[named.first].ravel()])
    counts = np.zeros((SYMBOLS, SYMBOLS))
    np.add.at(counts, tuple(seen), 1)
    assert counts.max(1).sum() / counts.sum() > 0.99
    assert len(set(counts.argmax(1))) == SYMBOLS


def test_without_two_frames_of_a_state_there_are_no_names() -> None:
    transitions, _ = rendered(400)
    single = Transitions(transitions.obs, transitions.actions, transitions.next_obs, n_actions=2)
    assert find_named_cells(single) is None


def test_a_noisy_frame_that_is_stored_twice_is_not_two_frames() -> None:
    transitions, _ = rendered(400)
    following = np.roll(transitions.obs, -1, axis=0)  # the frame after a transition is the first of the next one
    twice = Transitions(transitions.obs, transitions.actions, following, n_actions=2, episode=transitions.episode)
    assert find_named_cells(twice) is None


def test_noise_alone_has_no_grid() -> None:
    now, then = np.random.default_rng(0).integers(0, 256, (2, 400, 1, 24, 24), dtype=np.uint8)
    noise = Transitions(now, np.arange(400) % 2, then, n_actions=2, episode=np.arange(400) // 20)
    assert find_named_cells(noise) is None


@pytest.mark.parametrize(
    ("together", "symbols"),
    [
        ([[90, 85, 0], [85, 90, 0], [0, 0, 100]], [0, 0, 1]),  # two drawings of one symbol, and another symbol
        ([[90, 2, 0], [2, 90, 0], [0, 0, 100]], [0, 1, 2]),  # frames agree in each
    ],
)
def test_clusters_that_frames_of_a_state_do_not_tell_apart_are_one_symbol(
    together: list[list[int]], symbols: list[int]
) -> None:
    found = merged(np.array(together))
    assert (found[:, None] == found).tolist() == (np.array(symbols)[:, None] == np.array(symbols)).tolist()
