"""The memory of a study: an Optuna journal file or database that several processes and machines may share.

It holds an Optuna study for each stage. A row of a stage (an Optuna trial) is waiting, running or done. A
running row names its worker. A worker holds a file lock as long as it lives, so a row whose worker's lock is free or
missing can be continued by another worker. One process at a time starts or adopts rows.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shutil
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import optuna
from optuna import Study
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.storages import BaseStorage
from optuna.storages.journal import JournalFileBackend, JournalStorage
from optuna.trial import FrozenTrial, TrialState

from dwmr.errors import InputError
from dwmr.tuning.spaces import Choice, Space

FIRST_BYTES = b'{"op_code"'
WORKER, DIVERGED = "worker", "diverged"  # attributes of a row


class Journal:
    """An open journal, with this process as one of its workers. ``storage`` is a file or a URL that Optuna knows."""

    def __init__(self, storage: str | Path) -> None:
        path = place_of(storage)
        database = _open_url(str(storage)) if "://" in str(storage) else None
        if path.is_file() and not FIRST_BYTES.startswith(path.read_bytes()[: len(FIRST_BYTES)]):
            raise InputError(f"{path} is not the journal of a study")
        self.work = path.with_name(path.name + ".work")  # locks and runs in training
        self.work.mkdir(parents=True, exist_ok=True)
        if any(self.work.iterdir()) and not (self.work / ".gitignore").is_file():
            raise InputError(f"{self.work} is not of a study, which would remove it at its end; move it elsewhere")
        (self.work / ".gitignore").write_text("*\n")
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.storage = database or _open_file(path, self.work)
        self._stages: dict[str, Study] = {}
        self.turn = _Lock(self.work / "turn.lock")  # held while rows are started or adopted
        self._token = secrets.token_hex(4)
        self._alive = _Lock(self._lock_of(self._token))
        self._alive.acquire()

    def close(self, *, finished: bool) -> None:
        """Stop being a worker. The last worker of a finished study removes the work folder."""
        self._alive.release()
        self._lock_of(self._token).unlink(missing_ok=True)
        others = [file.name.removeprefix("worker-") for file in self.work.glob("worker-*")]
        if finished and not any(map(self._lives, others)):
            shutil.rmtree(self.work, ignore_errors=True)

    def stage(self, name: str) -> Study:
        """The Optuna study of a stage, created when it is first used."""
        if name not in self._stages:
            # Loading writes nothing; another process may create the study at the same time.
            if name in optuna.get_all_study_names(self.storage):
                found = optuna.load_study(study_name=name, storage=self.storage, sampler=RandomSampler())
            else:
                found = optuna.create_study(
                    study_name=name, storage=self.storage, direction="maximize", load_if_exists=True
                )
            self._stages[name] = found
        return self._stages[name]

    def begin(self, stage: Study, space: dict[str, BaseDistribution]) -> int:
        """Start the next waiting row, or a new one, as this worker; its number."""
        row = stage.ask(space)
        self.storage.set_trial_user_attr(row._trial_id, WORKER, self._token)
        return row.number

    def adopt(self, rows: list[FrozenTrial], most: int) -> list[int]:
        """Take over running rows of dead workers; their numbers. Rows without a worker yet are given up."""
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
        """Store a row's scores, of which ``select`` counts, or why it diverged. The state is written last."""
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


def place_of(storage: str | Path) -> Path:
    """The file of a journal; for a URL a path in the working directory, for what is written beside the storage."""
    if "://" in str(storage):
        return Path(re.sub(r"\W+", "-", str(storage)).strip("-"))
    path = Path(storage)
    if path.suffix == ".json" or path.is_dir() or not path.name:
        raise InputError(f"--storage takes a journal file, such as study.journal, or a URL, got {str(storage)!r}")
    return path


def _open_url(url: str) -> BaseStorage:
    try:
        return optuna.storages.get_storage(url)
    except Exception as error:  # whatever the database's driver raises
        raise InputError(f"Optuna cannot open the storage {url}: {error}") from error


def _open_file(path: Path, work: Path) -> BaseStorage:
    lock = _Lock(work / "journal.lock")
    with lock:
        _drop_cut_off_line(path)
    try:
        return JournalStorage(JournalFileBackend(str(path), lock_obj=lock))  # type: ignore[arg-type]
    except (ValueError, KeyError, TypeError, AssertionError) as error:
        raise InputError(f"{path} is not the journal of a study, or is damaged: {error!r}") from error


def rows_of(stage: Study) -> list[FrozenTrial]:
    """The rows of a stage, without those that were given up."""
    rows = stage.get_trials(deepcopy=False)
    return [row for row in rows if row.state != TrialState.FAIL or DIVERGED in row.user_attrs]


def is_done(row: FrozenTrial) -> bool:
    return row.state in (TrialState.COMPLETE, TrialState.FAIL)


def is_waiting(row: FrozenTrial) -> bool:
    return row.state == TrialState.WAITING


def score_of(row: FrozenTrial) -> float | None:
    """The score that counts; None if the row diverged or is not done."""
    return row.value if row.state == TrialState.COMPLETE else None


def sampler(seed: int, startup: int) -> BaseSampler:
    """Random for the first ``startup`` rows, then a tree-structured Parzen estimator (TPE) over all dimensions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about options that Optuna calls experimental
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


class _Lock(contextlib.AbstractContextManager[object]):
    """A file lock of this process. The operating system releases it however the process ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file: IO[bytes] | None = None

    def acquire(self) -> bool:
        self.file = open(self.path, "ab")  # noqa: SIM115 - held beyond this function
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


def _drop_cut_off_line(path: Path) -> None:
    """Remove a last line that a crash cut off, because the next line would be appended to it."""
    if path.exists():
        with open(path, "rb+") as file:
            content = file.read()
            if not content.endswith(b"\n"):
                file.truncate(content.rfind(b"\n") + 1)
                os.fsync(file.fileno())
