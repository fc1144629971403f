"""The memory of a tuning campaign: one Optuna journal file that processes and machines may share.

The journal holds a study for each stage of the campaign. A row of a stage (an Optuna trial) is waiting, running or
told. A running row names its worker; a worker holds a lock for as long as it lives, which the system takes from it
however it ends, so a row whose worker's lock can be had, or is not there, is free to be continued by another. Rows are
asked for and claimed by one process at a time.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from dwmr.errors import InputError
from dwmr.tuning.spaces import Choice, Space

try:
    import optuna
    from optuna import Study
    from optuna.distributions import (
        BaseDistribution,
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )
    from optuna.samplers import BaseSampler, RandomSampler, TPESampler
    from optuna.storages.journal import JournalFileBackend, JournalStorage
    from optuna.trial import FrozenTrial, TrialState
except ImportError as missing:
    raise InputError("tuning needs Optuna; pip install 'dwmr[tune]'") from missing

__all__ = [
    "DIVERGED",
    "FrozenTrial",
    "Journal",
    "Study",
    "distributions",
    "is_told",
    "is_waiting",
    "rows_of",
    "sampler",
    "score_of",
]

FIRST_OF_A_JOURNAL = b'{"op_code"'
WORKER, DIVERGED = "worker", "diverged"  # attributes of a row


class Journal:
    """An open journal, and this process as one of its workers."""

    def __init__(self, path: Path) -> None:
        _refuse_other_files(path)
        self.work = path.with_name(path.name + ".work")  # locks, and by default the runs in training
        self.work.mkdir(parents=True, exist_ok=True)
        if any(self.work.iterdir()) and not (self.work / ".gitignore").is_file():
            raise InputError(f"{self.work} is not of a study, which would remove it at its end; move it elsewhere")
        (self.work / ".gitignore").write_text("*\n")
        lock = _Lock(self.work / "journal.lock")
        with lock:
            _mend(path)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        try:
            backend = JournalFileBackend(str(path), lock_obj=lock)  # type: ignore[arg-type]
            self.storage = JournalStorage(backend)
        except (ValueError, KeyError, TypeError, AssertionError) as error:
            raise InputError(f"{path} is not the journal of a study, or is damaged: {error!r}") from error
        self._stages: dict[str, Study] = {}
        self._turn = _Lock(self.work / "turn.lock")
        self._token = secrets.token_hex(4)
        self._alive = _Lock(self._lock_of(self._token))
        self._alive.acquire()

    def close(self, *, finished: bool) -> None:
        """Stop being a worker. What a finished campaign needed while it ran is removed with the last of them."""
        self._alive.release()
        self._lock_of(self._token).unlink(missing_ok=True)
        others = [file.name.removeprefix("worker-") for file in self.work.glob("worker-*")]
        if finished and not any(self._lives(token) for token in others):
            shutil.rmtree(self.work, ignore_errors=True)

    def turn(self) -> contextlib.AbstractContextManager[object]:
        """While it is held, no other process asks for rows or claims them."""
        return self._turn

    def stage(self, name: str) -> Study:
        """The study of a stage, made when it is first asked for."""
        if name not in self._stages:
            # Loading writes nothing; making may meet a study that another process has just made.
            if name in optuna.get_all_study_names(self.storage):
                found = optuna.load_study(study_name=name, storage=self.storage, sampler=RandomSampler())
            else:
                found = optuna.create_study(
                    study_name=name, storage=self.storage, direction="maximize", load_if_exists=True
                )
            self._stages[name] = found
        return self._stages[name]

    def begin(self, stage: Study, space: dict[str, BaseDistribution]) -> int:
        """The next row that waits, or a new one, as this worker's own; its number."""
        row = stage.ask(space)
        self.storage.set_trial_user_attr(row._trial_id, WORKER, self._token)
        return row.number

    def adopt(self, rows: list[FrozenTrial], most: int) -> list[int]:
        """Make running rows whose worker is dead this worker's own; their numbers. Rows that died while they were
        asked for are given up."""
        found: list[int] = []
        for row in rows:
            if row.state != TrialState.RUNNING:
                continue
            if WORKER not in row.user_attrs:
                self.storage.set_trial_state_values(row._trial_id, state=TrialState.FAIL)
            elif len(found) < most and not self._lives(row.user_attrs[WORKER]):
                self.storage.set_trial_user_attr(row._trial_id, WORKER, self._token)
                found.append(row.number)
        return found

    def tell(
        self, stage: Study, row: FrozenTrial, result: Mapping[str, float] | str, seconds: float, select: str
    ) -> None:
        """A row's scores, one of which counts, or why it diverged; the state is written last."""
        self.storage.set_trial_user_attr(row._trial_id, "seconds", round(seconds, 2))
        if isinstance(result, str):
            self.storage.set_trial_user_attr(row._trial_id, DIVERGED, result)
            stage.tell(row.number, state=TrialState.FAIL)
        else:
            rounded = {name: round(value, 4) for name, value in result.items()}
            self.storage.set_trial_user_attr(row._trial_id, "scores", rounded)
            stage.tell(row.number, result[select])

    def _lock_of(self, token: str) -> Path:
        return self.work / f"worker-{token}"

    def _lives(self, token: str) -> bool:
        try:
            with open(self._lock_of(token), "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False


def rows_of(stage: Study) -> list[FrozenTrial]:
    """The rows of a stage, without those that died while they were asked for."""
    rows = stage.get_trials(deepcopy=False)
    return [row for row in rows if row.state != TrialState.FAIL or DIVERGED in row.user_attrs]


def is_told(row: FrozenTrial) -> bool:
    return row.state in (TrialState.COMPLETE, TrialState.FAIL)


def is_waiting(row: FrozenTrial) -> bool:
    return row.state == TrialState.WAITING


def score_of(row: FrozenTrial) -> float | None:
    """The score that counts, or None of a row that diverged or is not told yet."""
    return row.value if row.state == TrialState.COMPLETE else None


def sampler(seed: int, startup: int) -> BaseSampler:
    """Random until so many rows are told, then a tree-structured Parzen estimator over all dimensions at once that
    keeps away from the rows still running."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of options that Optuna calls experimental
        return TPESampler(n_startup_trials=startup, multivariate=True, constant_liar=True, seed=seed)


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """The space in Optuna's terms."""
    found: dict[str, BaseDistribution] = {}
    for name, dimension in space.items():
        if isinstance(dimension, Choice):
            found[name] = CategoricalDistribution(dimension.values)
        elif dimension.whole:
            found[name] = IntDistribution(int(dimension.low), int(dimension.high))
        else:
            found[name] = FloatDistribution(dimension.low, dimension.high, log=dimension.log)
    return found


class _Lock:
    """A file held by one process; the system lets go of it when the process ends, however it ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file: IO[bytes] | None = None

    def acquire(self) -> bool:
        self.file = open(self.path, "ab")  # noqa: SIM115 — held beyond this function
        fcntl.flock(self.file, fcntl.LOCK_EX)
        return True

    def release(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()


def _refuse_other_files(path: Path) -> None:
    if path.exists():
        with open(path, "rb") as file:
            start = file.read(len(FIRST_OF_A_JOURNAL))
        if not FIRST_OF_A_JOURNAL.startswith(start):
            raise InputError(f"{path} is not the journal of a study")


def _mend(path: Path) -> None:
    """Drop a last line that a crash cut off, since whatever is added would be joined to it."""
    if path.exists():
        with open(path, "rb+") as file:
            content = file.read()
            if not content.endswith(b"\n"):
                file.truncate(content.rfind(b"\n") + 1)
                os.fsync(file.fileno())
