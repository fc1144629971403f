"""The memory of a study: an Optuna study in a journal file or a database, which several processes may share.

The scores of a row (an Optuna trial) are its intermediate values, by epoch; a row that does not continue is pruned, and
one that diverged has failed. The scores of a confirmation are an attribute of the study.
"""

import os
import re
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
import torch
from optuna import Study
from optuna.storages import BaseStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock, JournalStorage
from optuna.storages.journal._file import get_lock_file
from optuna.trial import FrozenTrial

from dwmr.config import Config
from dwmr.errors import InputError
from dwmr.evaluation.codes import shared_dimensions
from dwmr.evaluation.evaluate import Evaluation
from dwmr.provenance import describe_code, describe_machine
from dwmr.seeding import below, rng
from dwmr.tuning.spaces import Space, as_data, options, options_of

STUDY = "dwmr"
START, DIVERGED = "start", "diverged"  # attributes of a row
SCORES = {"imagination": "validation imagination F1", "shared": "dimensions shared by predicted and encoded codes"}


@dataclass(frozen=True)
class Plan:
    """What a study searches. Two calls that share a storage must agree on all of it."""

    base: Config
    space: Space
    trials: int
    seed: int
    data: str  # fingerprints of the training and validation splits
    select: str

    def rungs(self) -> list[int]:
        """The epochs at which trials are compared: about a fifth, a half and all (8, 20, 40 or 4, 10, 20)."""
        return sorted({-(-self.base.epochs // 5), max(1, self.base.epochs // 2), self.base.epochs})

    def seed_of(self, use: str, number: int) -> int:
        """Seeds that nobody would choose by hand, so that reported runs are not those that were selected."""
        return 1000 + int(below(rng(self.seed, "tuning", use, number), 10**9, 1)[0])

    def fresh_seeds(self) -> list[int]:
        """Of each trial that is confirmed."""
        return [self.seed_of("confirmation", number) for number in range(3)]

    def score(self, evaluation: Evaluation) -> float:
        if self.select == "imagination":
            return float(evaluation.figures["imagination"]["f1"])
        return shared_dimensions(evaluation.predicted, evaluation.next_codes)

    def agree(self, study: Study, storage: str | Path) -> None:
        """Store what the study is, or check that it is the same."""
        ranges = {f"the range of {name}": dimension for name, dimension in as_data(self.space).items()}
        asked = {"preset": self.base.name, "trials": self.trials, "seed": self.seed, "data": self.data}
        asked |= {"select": self.select, **self.base.flat(), **ranges}
        if "about" not in study.user_attrs:
            study.set_user_attr("about", asked)
        stored = Config().flat() | study.user_attrs["about"]  # a study may be older than an option
        searched = {option for name in self.space for option in options_of(name)}  # their first values are in a row
        for name in dict.fromkeys([*asked, *(name for name in stored if name.startswith("the range of "))]):
            if name not in searched and stored.get(name) != asked.get(name):
                raise InputError(
                    f"{storage} holds another study, with {name} {stored.get(name)} instead of {asked.get(name)}"
                )


def place_of(storage: str | Path) -> Path:
    """The file of a journal; for a URL a path in the working directory, for what is written beside the storage."""
    if "://" in str(storage):
        return Path(re.sub(r"\W+", "-", str(storage)).strip("-"))
    path = Path(storage)
    if path.suffix == ".json" or path.is_dir() or not path.name:
        raise InputError(f"--storage takes a journal file, such as study.journal, or a URL, got {str(storage)!r}")
    return path


def open_study(storage: str | Path) -> Study:
    """The study in a storage, created when it is first used; opening it again writes nothing."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    opened = _open_url(str(storage)) if "://" in str(storage) else _open_file(place_of(storage))
    names = optuna.get_all_study_names(opened)
    if "search" in names:
        raise InputError(
            f"{storage} was begun with dwmr 0.1, which searched in other stages; finish it with that version, "
            f"whose result `dwmr train --config` reads, or begin a new study in another file"
        )
    if STUDY in names:
        return optuna.load_study(study_name=STUDY, storage=opened)
    return optuna.create_study(study_name=STUDY, storage=opened, direction="maximize", load_if_exists=True)


def _open_url(url: str) -> BaseStorage:
    try:
        return optuna.storages.get_storage(url)
    except Exception as error:  # whatever the database's driver raises
        raise InputError(f"Optuna cannot open the storage {url}: {error}") from error


class _Lock(JournalFileSymlinkLock):
    """Optuna's lock, released in one step: of its two, a process that is killed between them leaves a file behind."""

    def release(self) -> None:
        try:
            os.unlink(self._lock_file)
        except OSError as error:
            raise RuntimeError("the lock is not held") from error


def _open_file(path: Path) -> BaseStorage:
    if path.exists():
        content = path.read_bytes()
        if not content.startswith(b'{"op_code"'[: len(content)]):
            raise InputError(f"{path} is not the journal of a study")
        if not content.endswith(b"\n"):  # a crash cut off the last line, and the next would be appended to it
            with get_lock_file(_Lock(str(path))):
                os.truncate(path, path.read_bytes().rfind(b"\n") + 1)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        return JournalStorage(JournalFileBackend(str(path), _Lock(str(path))))
    except (ValueError, KeyError, TypeError, AssertionError) as error:
        raise InputError(f"{path} is not the journal of a study, or is damaged: {error!r}") from error


def rows_of(study: Study) -> list[FrozenTrial]:
    """The rows that have ended. What was interrupted runs for ever, and does not count."""
    return [row for row in study.get_trials(deepcopy=False) if row.state.is_finished()]


def summarize(study: Study, plan: Plan, device: str) -> dict[str, Any]:
    """All trials with their scores, the confirmations with the best first, what was chosen, and its provenance."""
    trials = {row.number: _trial(row, plan) for row in rows_of(study)}
    confirmations = []
    for number in trials:
        if (scores := study.user_attrs.get(f"confirmation {number}")) is not None:
            counted = [score or 0.0 for score in scores]  # a seed that diverged counts as 0
            entry = {"trial": number, "start": trials[number]["start"], "seeds": plan.fresh_seeds(), "scores": scores}
            confirmations.append(entry | {"mean": statistics.mean(counted), "std": statistics.stdev(counted)})
    confirmations.sort(key=lambda entry: (-entry["mean"], entry["trial"]))
    chosen = None
    if confirmations:
        best = {name: confirmations[0][name] for name in ("trial", "mean", "std")}
        chosen = best | {"values": options(trials[best["trial"]]["values"])}
    provenance = {
        "trials": len(trials),
        "study_seed": plan.seed,
        "confirmed_with_seeds": plan.fresh_seeds(),
        "start_values": next((entry["mean"] for entry in confirmations if entry["start"]), None),
        "score": f"{SCORES[plan.select]} at the last epoch, mean over the seeds",
        "data": plan.data,
        **describe_code(),
        "machine": describe_machine(torch.device(device)),
    }
    return {
        "preset": plan.base.name,
        "rungs": plan.rungs(),
        "space": as_data(plan.space),
        "chosen": chosen,
        "confirmations": confirmations,
        "trials": list(trials.values()),
        "provenance": provenance,
    }


def _trial(row: FrozenTrial, plan: Plan) -> dict[str, Any]:
    return {
        "trial": row.number,
        "start": START in row.user_attrs,
        "values": row.params,
        "seed": plan.seed_of("trial", row.number),
        "state": row.user_attrs.get(DIVERGED, row.state.name.lower()),
        "scores": {str(epochs): round(score, 4) for epochs, score in sorted(row.intermediate_values.items())},
    }
