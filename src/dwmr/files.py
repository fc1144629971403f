"""Files that are either written whole or not at all, and the folder for what can be fetched again.

Everything is written under a temporary name beside its target, flushed to the disk and renamed. A full disk,
an interrupt or a crash leaves the old file as it was.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_STORAGE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG}


def cache_folder() -> Path:
    """``$DWMR_CACHE``, else ``$XDG_CACHE_HOME/dwmr``, else ``~/.cache/dwmr``; it need not exist yet."""
    if own := os.environ.get("DWMR_CACHE"):
        return Path(own).expanduser()
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared).expanduser() / "dwmr"
    return Path.home() / ".cache" / "dwmr"


def atomic_write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write ``data`` to ``path``, replacing what was there; missing parent folders are made.

    Raises:
        OSError: the file could not be written; ``path`` is as it was before.
    """
    path = Path(path)
    temporary = _temporary_beside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _could_not_write(path, error) from error
        raise
    _sync_folder(path.parent)


def atomic_write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` to ``path`` as UTF-8, like `atomic_write_bytes`."""
    atomic_write_bytes(path, text.encode("utf-8"))


def atomic_write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write ``value`` to ``path`` as indented JSON, like `atomic_write_bytes`."""
    atomic_write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def append_line(path: str | os.PathLike[str], text: str) -> None:
    """Add a line to a file and see it onto the disk."""
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise OSError(error.errno or errno.EIO, f"could not add to {path}: {reason}") from error


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield an empty temporary folder that becomes ``path`` when the block ends well, and vanishes otherwise.

    An OSError of the block that has nothing to do with storage, such as a missing input, passes unchanged.

    Raises:
        FileExistsError: ``path`` exists already; raised before the block runs.
        OSError: the folder could not be written; there is still no ``path``.
    """
    path = Path(path)
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, f"{path} exists already; remove it or choose another name")
    temporary = _temporary_beside(path)
    try:
        temporary.mkdir(parents=True)
    except OSError as error:
        raise _could_not_write(path, error) from error
    try:
        try:
            yield temporary
        except OSError as error:
            if error.errno is None or error.errno in _STORAGE_ERRORS:  # NumPy reports a short write without a number
                raise _could_not_write(path, error) from error
            raise
        try:
            _sync_tree(temporary)
            os.rename(temporary, path)
        except OSError as error:
            raise _could_not_write(path, error) from error
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    _sync_folder(path.parent)


def _temporary_beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")


def _could_not_write(path: Path, error: OSError) -> OSError:
    reason = os.strerror(error.errno) if error.errno else str(error)
    return OSError(error.errno or errno.EIO, f"could not write {path}: {reason}; nothing was changed")


def _sync_tree(folder: Path) -> None:
    for parent, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(parent, name), "rb+") as file:
                os.fsync(file.fileno())
        _sync_folder(Path(parent))


def _sync_folder(folder: Path) -> None:
    """Make renames in ``folder`` last through a power cut, where the system can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
