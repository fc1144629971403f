"""How long imagination stays correct: roll-outs along real episodes, from the first frame and the actions alone.

Two references need no imagination: keeping the code of the first frame, and encoding the frame really seen at the end,
which is the best that imagination can reach.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch

from dwmr.data.transitions import Rollouts
from dwmr.evaluation.metrics import confusion, macro_f1
from dwmr.evaluation.probes import Probe
from dwmr.models.world_model import WorldModel


def rollout_scores(
    model: WorldModel, rollouts: Rollouts, probe: Probe | None = None, horizon: int = 1000
) -> dict[str, dict[str, float]]:
    """Scores for each stored horizon up to ``horizon``, in percent:

    bits, exact            imagined bits, and whole codes, that equal those of the frame seen at that step
    copy_bits, copy_exact  the same for the code of the first frame
    f1                     the paper's F1 of the board that the probe reads from the imagined code
    copy_f1, reencode_f1   the same for the code of the first frame, and for that of the frame seen
    """
    first = bits = model.encode(np.asarray(rollouts.obs[:, 0]))
    actions = torch.from_numpy(np.array(rollouts.actions, dtype=np.int64)).to(model.device)
    scores: dict[str, dict[str, float]] = {}
    steps = [h for h in rollouts.horizons if h <= horizon]
    for frame, (before, now) in enumerate(pairwise(steps), start=1):
        bits = model.imagine(bits, actions[:, before:now])[:, -1]
        lasting = np.flatnonzero(rollouts.length >= now)
        if not len(lasting):
            break
        seen = model.encode(np.asarray(rollouts.obs[lasting, frame]))
        kept = torch.from_numpy(lasting).to(bits.device)
        guesses = {"": bits[kept], "copy_": first[kept]}
        entry: dict[str, float] = {}
        for name, codes in guesses.items():
            same = codes == seen
            entry[f"{name}bits"] = 100 * float(same.float().mean())
            entry[f"{name}exact"] = 100 * float(same.all(1).float().mean())
        if probe is not None and rollouts.state is not None:
            true = rollouts.state[lasting, frame].reshape(len(lasting), -1)
            n_classes = max(probe.n_classes, rollouts.n_classes or 0)
            for name, codes in (guesses | {"reencode_": seen}).items():
                entry[f"{name}f1"] = macro_f1(confusion(true, probe.read(codes), n_classes), "union")
        scores[str(now)] = entry
    return scores
