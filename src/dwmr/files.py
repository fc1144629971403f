"""Write files completely or not at all, refuse outputs that would destroy something, and find the cache folder.

Everything is written under a temporary name next to its target, flushed to disk and renamed. A full disk, an interrupt
or a crash leaves the old file unchanged.
"""

import contextlib
import errno
import json
import os
import secrets
import shutil
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from dwmr.errors import InputError

RUN_FILES = ("run.json", "checkpoint.safetensors", "metrics.jsonl")  # the files of a run folder
HTML_MARK = '<meta name="generator" content="dwmr">'
PNG_MARK = {"Software": "dwmr"}  # metadata for Matplotlib
# What marks the files that dwmr writes: HTML, PNG, JSON (its version, in the provenance).
_MARKS = ((HTML_MARK.encode(),), (b"tEXtSoftware\0dwmr",), (b'"provenance"', b'"dwmr": "'))
_STORAGE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG, None}  # None comes from NumPy


def cache_folder() -> Path:
    """``$DWMR_CACHE``, else ``$XDG_CACHE_HOME/dwmr``, else ``~/.cache/dwmr``; it need not exist yet."""
    if chosen := os.environ.get("DWMR_CACHE"):
        return Path(chosen).expanduser()
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared).expanduser() / "dwmr"
    return Path.home() / ".cache" / "dwmr"


def check_output(
    path: str | os.PathLike[str],
    *,
    overwrite: bool | None = None,
    inputs: Collection[str | os.PathLike[str] | None] = (),
    written: bool | None = None,
    holds: Collection[str] = (),
) -> None:
    """Refuse, with an InputError, an output path that must not be written. Call this before any work.

    An existing file or folder is replaced only with ``overwrite`` (None if the command has no such option), and only if
    dwmr wrote it: a file with its mark, or one that the caller says is ``written`` by it, or a folder that contains
    only files named in ``holds``. Symbolic links, devices, ``inputs`` of the command and files of a run folder are
    never replaced.
    """
    path = Path(path)
    for source in (Path(name) for name in inputs if name is not None):
        same = path.exists() and source.exists() and path.samefile(source)
        if same or source.resolve() == path.resolve() or (holds and source.resolve().is_relative_to(path.resolve())):
            raise InputError(f"{path} is an input of this command; choose another output")
    needed = path.name in RUN_FILES or (path.suffix == ".safetensors" and written is None)
    if needed and (path.parent / RUN_FILES[0]).exists():
        raise InputError(f"{path} belongs to the run in {path.parent}; choose another output")
    if not os.path.lexists(path):
        parent = next(each for each in path.absolute().parents if os.path.lexists(each))
        if not parent.is_dir():
            raise InputError(f"{path} cannot be written: {parent} is not a folder")
        return
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        raise InputError(f"{path} is a symbolic link, and outputs never replace links; choose another output")
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InputError(f"{path} is not a regular file; choose another output")
    if not overwrite:
        hint = "choose another name" if overwrite is None else "choose another name, or replace it with --overwrite"
        raise InputError(f"{path} exists already; {hint}")
    if stat.S_ISDIR(mode):
        entries = list(path.iterdir())
        if not entries or not all(each.name in holds and stat.S_ISREG(each.lstat().st_mode) for each in entries):
            raise InputError(f"{path} is a folder that holds more than this command writes; choose another output")
    elif not (_marked(path) if written is None else written):
        raise InputError(f"{path} was not written by dwmr, so it is not replaced; remove it or choose another output")


def _marked(path: Path) -> bool:
    content = path.read_bytes()
    return any(all(part in content for part in mark) for mark in _MARKS)


def atomic_write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write ``data`` to ``path``, replacing an existing file; missing parent folders are created.

    If it raises an OSError, ``path`` is unchanged.
    """
    path = Path(path)
    temporary = _temporary_beside(path)
    try:
        with _naming(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
    _sync_folder(path.parent)


def atomic_write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` to ``path`` as UTF-8, like `atomic_write_bytes`."""
    atomic_write_bytes(path, text.encode("utf-8"))


def atomic_write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write ``value`` to ``path`` as indented JSON, like `atomic_write_bytes`."""
    atomic_write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def append_line(path: str | os.PathLike[str], text: str) -> None:
    """Append a line to a file and flush it to disk."""
    with _naming(path, promise=""), open(path, "a", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Path]:
    """Yield an empty temporary folder. It becomes ``path`` if the block succeeds, and is removed if it raises.

    With ``overwrite`` it replaces an existing folder; call `check_output` first. Without, a FileExistsError is raised
    before the block runs. An OSError of the block that is not about storage, such as a missing input, is raised
    unchanged.
    """
    path = Path(path)
    if os.path.lexists(path) and not overwrite:
        raise FileExistsError(errno.EEXIST, f"{path} exists already; remove it or choose another name")
    temporary = _temporary_beside(path)
    with _naming(path):
        temporary.mkdir(parents=True)
    try:
        with _naming(path, _STORAGE_ERRORS):
            yield temporary
        with _naming(path):
            _sync_tree(temporary)
            replaced = _temporary_beside(path)
            if overwrite and os.path.lexists(path):
                os.rename(path, replaced)
            os.rename(temporary, path)
            shutil.rmtree(replaced, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    _sync_folder(path.parent)


@contextlib.contextmanager
def locked(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Keep other processes that call this from writing to a folder until the block or this process ends.

    Raises an InputError if another one is writing to it.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(ImportError, OSError):  # Windows has no such locks, nor have some network file systems
            import fcntl

            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise InputError(f"{folder} is being written by another process; wait for it to end") from error
        yield
    finally:
        os.close(descriptor)


def _temporary_beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")


@contextlib.contextmanager
def _naming(
    path: str | os.PathLike[str],
    errors: Collection[int | None] | None = None,
    promise: str = "; nothing was changed",
) -> Iterator[None]:
    """Let OSErrors, or those with certain numbers, say which path could not be written."""
    try:
        yield
    except OSError as error:
        if errors is not None and error.errno not in errors:
            raise
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise OSError(error.errno or errno.EIO, f"could not write {path}: {reason}{promise}") from error


def _sync_tree(folder: Path) -> None:
    for parent, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(parent, name), "rb+") as file:
                os.fsync(file.fileno())
        _sync_folder(Path(parent))


def _sync_folder(folder: Path) -> None:
    """Make renames in ``folder`` survive a power cut, where the system supports it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
