"""What an ideal observer could read from a frame, beside which the figures of our models stand.

    python -m experiments.ceilings

The file is {benchmark: {observer: figures}}, figures in percent. Noisy IceSlider: the observer knows the tiles and the
noise to the last detail (drawn from `dwmr.worlds.noise.quantiles`, added to a byte, clipped to 0 to 255), so the
probability of every byte under every tile is exact, and it names the most probable label:

    tile, uniform prior  each cell by itself, all labels equally likely beforehand
    tile, label prior    each cell by itself, labels as frequent beforehand as in the training split, in all cells alike
    tile, cell prior     each cell by itself, labels as frequent beforehand as in that cell of the training split
    board                the whole board at once: one agent, one goal that it may hide, rocks as frequent as in training

Other observers of the file, such as a supervised encoder's, are left as they are.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from dwmr.data.collect import make_transitions
from dwmr.data.transitions import Transitions
from dwmr.evaluation.metrics import board_scores
from dwmr.files import atomic_write_json
from dwmr.worlds import tiles
from dwmr.worlds.ice_slider import AGENT, GOAL, ICE, N_CLASSES, ROCK
from dwmr.worlds.noise import quantiles
from dwmr.worlds.registry import NOISE_STD

BENCHMARK = "iceslider-noisy"
CHUNK = 500  # frames


def byte_probabilities(std: float) -> np.ndarray:
    """(256, 256): how probable each noisy byte (axis 1) is where the clean one is known (axis 0)."""
    added = quantiles(std).astype(np.int64)
    seen = np.clip(np.arange(256)[:, None] + added, 0, 255)
    index = np.arange(256)[:, None] * 256 + seen
    return np.bincount(index.ravel(), minlength=256 * 256).reshape(256, 256) / len(added)


def log_likelihoods(frames: np.ndarray, pictures: np.ndarray, std: float) -> np.ndarray:
    """Of each label in each cell, (N, cells, classes), for frames uint8 (N, 3, H, W) of tiles (classes, 8, 8, 3)."""
    logs = np.log(np.maximum(byte_probabilities(std), 1e-300))
    side = tiles.SIDE
    count, channels, height, width = frames.shape
    cut = frames.reshape(count, channels, height // side, side, width // side, side).transpose(0, 2, 4, 3, 5, 1)
    cut = cut.reshape(count, -1, side * side * channels)
    pixels = np.arange(cut.shape[2])
    return np.stack([logs[tile.ravel()][pixels, cut].sum(2) for tile in pictures], axis=2)


def read_tiles(likelihoods: np.ndarray, log_prior: np.ndarray) -> np.ndarray:
    """The most probable label of each cell by itself; the prior is (classes,) or (cells, classes)."""
    return (likelihoods + log_prior).argmax(2)


def read_boards(likelihoods: np.ndarray, rock_share: float) -> np.ndarray:
    """The most probable boards with one agent and one goal, which may be hidden under the agent."""
    free = likelihoods[:, :, [ROCK, ICE]] + np.log([rock_share, 1 - rock_share])
    label, rest = np.array([ROCK, ICE])[free.argmax(2)], free.max(2)
    agent, goal = likelihoods[:, :, AGENT] - rest, likelihoods[:, :, GOAL] - rest
    apart = agent[:, :, None] + goal[:, None, :]
    cells = np.arange(agent.shape[1])
    apart[:, cells, cells] = agent  # the agent stands on the goal
    best = apart.reshape(len(agent), -1).argmax(1)
    frames = np.arange(len(agent))
    label[frames, best % len(cells)] = GOAL
    label[frames, best // len(cells)] = AGENT
    return label


def cell_frequencies(train: Transitions) -> np.ndarray:
    """(cells, classes): how often each label stands in each cell of the training frames."""
    states = np.asarray(train.state).reshape(len(train), -1)
    return np.stack([(states == label).mean(0) for label in range(N_CLASSES)], axis=1)


def iceslider_noisy() -> dict[str, Any]:
    train, test = make_transitions(BENCHMARK, "train"), make_transitions(BENCHMARK, "test")
    frequency = cell_frequencies(train)
    rock_share = float(frequency[:, ROCK].sum() / frequency[:, [ROCK, ICE]].sum())
    with np.errstate(divide="ignore"):
        priors = {
            "tile, uniform prior": np.zeros(N_CLASSES),
            "tile, label prior": np.log(frequency.mean(0)),
            "tile, cell prior": np.log(frequency),
        }
    readings: dict[str, list[np.ndarray]] = {name: [] for name in (*priors, "board")}
    for first in range(0, len(test), CHUNK):
        likelihoods = log_likelihoods(np.asarray(test.obs[first : first + CHUNK]), tiles.ice_slider(), NOISE_STD)
        for name, prior in priors.items():
            readings[name].append(read_tiles(likelihoods, prior))
        readings["board"].append(read_boards(likelihoods, rock_share))
    now, then = (np.asarray(part).reshape(len(test), -1).astype(np.int64) for part in (test.state, test.next_state))
    return {
        name: {"encoding": board_scores(now, np.concatenate(parts), N_CLASSES, now != then), "frames": len(test)}
        for name, parts in readings.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("experiments/results/ceilings.json"),
        help="results file; what others put there stays",
    )
    out = parser.parse_args().out
    results = json.loads(out.read_text()) if out.exists() else {}
    results[BENCHMARK] = results.get(BENCHMARK, {}) | iceslider_noisy()
    atomic_write_json(out, results)


if __name__ == "__main__":
    main()
