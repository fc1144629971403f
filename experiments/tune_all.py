"""Tune presets one after another, in pieces of time.

    python experiments/tune_all.py --presets 8puzzle/dwmr,iceslider/dwmr --budget 540

Every preset has its own journal, ``STORAGE_FOLDER/benchmark/model.journal``, and the same number of trials. A call ends
in order before ``--budget`` seconds; the next goes on where it was, with the presets that are not finished, in the
order given. With ``--write-presets`` what a finished study chose becomes the package's preset.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from pathlib import Path
from typing import Any

import dwmr
from dwmr.cli.tables import tuning_line
from dwmr.data.collect import cached_benchmark
from dwmr.errors import InputError
from dwmr.tuning import prepare, save, tune, write_preset
from dwmr.tuning.campaign import AT_ONCE, TRIALS
from experiments.reproduce.catalog import find_table

LEAST = 60.0  # seconds that must be left for another study to be begun


def known(journal: Path) -> dict[str, Any]:
    """The summary beside a journal, if there is one."""
    path = journal.with_suffix(".json")
    return json.loads(path.read_text()) if journal.exists() and path.exists() else {"finished": False}


def main() -> None:
    tunable = [f"{cell.benchmark}/{cell.row.preset}" for cell in find_table("table1").cells()]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--presets", default=",".join(tunable), help="names, separated by commas; those of Table 1 by default"
    )
    parser.add_argument("--storage-folder", type=Path, default=Path("experiments/studies"))
    parser.add_argument("--scratch", type=Path, help="where runs in training are kept; by default beside the journals")
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--at-once", type=int, default=AT_ONCE)
    parser.add_argument("--budget", type=float, help="seconds for this call")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--write-presets", action="store_true")
    chosen = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)

    deadline = time.monotonic() + chosen.budget if chosen.budget else float("inf")
    journals = {name: chosen.storage_folder / f"{name}.journal" for name in chosen.presets.split(",")}
    try:
        for name, journal in journals.items():
            prepare(name, {}, journal, trials=chosen.trials, at_once=chosen.at_once, budget=chosen.budget)
        for name, journal in journals.items():
            found = known(journal)
            if not found["finished"]:
                data = dwmr.load_splits(cached_benchmark(name.split("/")[0]))
                left = deadline - time.monotonic()
                if left < LEAST:
                    print(f"{name}: no time left; the same command goes on", flush=True)
                    return
                found = tune(
                    name,
                    data,
                    journal,
                    trials=chosen.trials,
                    seed=chosen.seed,
                    device=chosen.device,
                    at_once=chosen.at_once,
                    budget=left if chosen.budget else None,
                    scratch=chosen.scratch,
                )
                save(found, journal)
            if chosen.write_presets and found["chosen"]:
                write_preset(found)
            print(tuning_line(found), flush=True)
    except InputError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
