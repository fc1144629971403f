"""The tables in miniature: presets of one short epoch, and a command line that uses them in a process of its own."""

from __future__ import annotations

import sys
from dataclasses import replace

from dwmr.config import NO_CHANGE, Config
from dwmr.evaluation import probes
from dwmr.presets import PRESETS

PROBE_UPDATES = 20


def small_presets() -> dict[str, Config]:
    """Every preset of the tables, with one epoch of two updates; whatever tuning finds, they stay as they are."""
    shorter = {"epochs": 1, "batch_size": 32, "lr": 1e-3, "lr_factor": 0.9}
    return {
        name: replace(start, factors=NO_CHANGE).replace(**shorter)
        for name, start in PRESETS.items()
        if not name.startswith("generic")
    }


if __name__ == "__main__":
    import torch

    from dwmr.cli import main

    torch.set_num_threads(1)
    PRESETS.update(small_presets())
    probes.MIN_UPDATES = PROBE_UPDATES
    sys.argv[0] = "dwmr"
    main()
