"""How long imagination stays correct: roll-outs along real episodes, from a first code and the actions alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dwmr.data.transitions import HORIZONS, Rollouts, episode_runs
from dwmr.evaluation.codes import KnownCodes, row_hashes
from dwmr.evaluation.metrics import confusion, macro_f1
from dwmr.evaluation.probes import Probe
from dwmr.models.callables import Encode, Predict, agreement, as_bits, take
from dwmr.models.world_model import WorldModel

MAX_WINDOW = 100  # steps of the roll-outs along episodes of transitions


@dataclass(frozen=True)
class Paths:
    """W paths to imagine along.

    first    their first codes (W, K), as encode returned them
    actions  int (W, T)
    seen     for rising step counts: the numbers of the paths that last this long, and the codes of the frames seen then
    """

    first: Any
    actions: np.ndarray
    seen: dict[int, tuple[np.ndarray, Any]]

    def imagine(self, predict: Predict) -> Iterator[tuple[int, np.ndarray, Any, Any]]:
        """For each step count: it, the numbers of the paths that last this long, their imagined codes, those seen."""
        codes, before = self.first, 0
        for step, (lasting, seen) in self.seen.items():
            for actions in self.actions[:, before:step].T:
                codes = predict(codes, actions)
            before = step
            yield step, lasting, take(codes, lasting), seen


def along_rollouts(encode: Encode, rollouts: Rollouts, horizon: int) -> Paths:
    """Paths along held-out episodes, compared at their stored horizons."""
    seen = {}
    for frame, step in enumerate(rollouts.horizons):
        lasting = np.flatnonzero(rollouts.length >= step)
        if 0 < step <= horizon and len(lasting):
            seen[step] = lasting, encode(np.asarray(rollouts.obs[lasting, frame]))
    return Paths(encode(np.asarray(rollouts.obs[:, 0])), np.asarray(rollouts.actions), seen)


def along_episodes(
    raw: Any, next_codes: np.ndarray, actions: np.ndarray, episode: np.ndarray | None, horizon: int
) -> Paths:
    """Paths of at most 100 steps, one after the other along the episodes of transitions; without episodes every
    transition is a path of one step."""
    count = len(next_codes)
    begins, sizes = episode_runs(np.arange(count) if episode is None else np.asarray(episode))
    begin = np.repeat(begins, sizes)
    starts, lengths = episode_runs(begin + (np.arange(count) - begin) // MAX_WINDOW)
    steps = np.minimum(starts[:, None] + np.arange(lengths.max()), count - 1)
    seen = {}
    for step in HORIZONS[1:]:
        lasting = np.flatnonzero(lengths >= step)
        if step <= horizon and len(lasting):
            seen[step] = lasting, next_codes[starts[lasting] + step - 1]
    return Paths(take(raw, starts), np.asarray(actions)[steps], seen)


def measure_drift(predict: Predict, paths: Paths) -> dict[str, dict[str, float]]:
    """{steps: {bits, exact, episodes}}: bits and whole codes, in percent, that agree with the frame seen after so many
    imagined steps, and the number of paths that last this long."""
    drift = {}
    for step, lasting, imagined, seen in paths.imagine(predict):
        equal = agreement(as_bits(imagined), as_bits(seen))
        drift[str(step)] = {"bits": equal["bits_next"], "exact": equal["exact_next"], "episodes": len(lasting)}
    return drift


def rollout_scores(
    model: WorldModel,
    rollouts: Rollouts,
    probe: Probe | None = None,
    horizon: int = 1000,
    known: KnownCodes | None = None,
) -> dict[str, dict[str, float]]:
    """Scores for each stored horizon up to ``horizon``, in percent:

    bits, exact            imagined bits, and whole codes, that equal those of the frame seen at that step
    copy_bits, copy_exact  the same for the code of the first frame
    f1                     the paper's F1 of the board that the probe reads from the imagined code
    copy_f1, reencode_f1   the same for the code of the first frame, and for that of the frame seen, which is the best
                           that imagination can reach
    exact_unique           imagined codes that are exact and that no other state has among the frames of ``known``
    """
    paths = along_rollouts(model.encode, rollouts, horizon)
    scores: dict[str, dict[str, float]] = {}
    for step, lasting, imagined, seen in paths.imagine(model.predict):
        guesses = {"": imagined, "copy_": take(paths.first, lasting)}
        entry: dict[str, float] = {}
        for name, codes in guesses.items():
            same = codes == seen
            entry[f"{name}bits"] = 100 * float(same.float().mean())
            entry[f"{name}exact"] = 100 * float(same.all(1).float().mean())
        if probe is not None and rollouts.state is not None:
            true = rollouts.state[lasting, rollouts.horizons.index(step)].reshape(len(lasting), -1)
            if known is not None:
                exact = (imagined == seen).all(1).cpu().numpy()
                entry["exact_unique"] = 100 * float((exact & known.unique(as_bits(seen), row_hashes(true))).mean())
            n_classes = max(probe.n_classes, rollouts.n_classes or 0)
            for name, codes in (guesses | {"reencode_": seen}).items():
                entry[f"{name}f1"] = macro_f1(confusion(true, probe.read(codes), n_classes), "union")
        scores[str(step)] = entry
    return scores
