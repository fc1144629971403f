"""How long imagination stays right: roll-outs along real episodes, from the first frame and the actions alone."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch

from dwmr.evaluation.metrics import confusion, macro_f1
from dwmr.evaluation.probes import Probe
from dwmr.transitions import Rollouts
from dwmr.world_model import WorldModel


def rollout_scores(
    model: WorldModel, rollouts: Rollouts, probe: Probe | None = None, horizon: int = 1000
) -> dict[str, dict[str, float]]:
    """For each stored horizon up to ``horizon``, in percent: bits and whole codes that agree with the encoded frame,
    and the F1 (the paper's) of the board that the probe reads from the imagined bits."""
    bits = model.encode(np.asarray(rollouts.obs[:, 0]))
    actions = torch.from_numpy(np.array(rollouts.actions, dtype=np.int64)).to(model.device)
    scores: dict[str, dict[str, float]] = {}
    steps = [h for h in rollouts.horizons if h <= horizon]
    for frame, (before, now) in enumerate(pairwise(steps), start=1):
        bits = model.imagine(bits, actions[:, before:now])[:, -1]
        lasting = np.flatnonzero(rollouts.length >= now)
        if not len(lasting):
            break
        seen = model.encode(np.asarray(rollouts.obs[lasting, frame]))
        imagined = bits[torch.from_numpy(lasting).to(bits.device)]
        same = imagined == seen
        entry = {
            "bits": 100 * float(same.float().mean()),
            "exact": 100 * float(same.all(1).float().mean()),
        }
        if probe is not None and rollouts.state is not None:
            true = rollouts.state[lasting, frame].reshape(len(lasting), -1)
            n_classes = max(probe.n_classes, rollouts.n_classes or 0)
            entry["f1"] = macro_f1(confusion(true, probe.read(imagined), n_classes), "union")
        scores[str(now)] = entry
    return scores
