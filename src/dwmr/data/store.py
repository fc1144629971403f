"""Arrays on disk: a folder with one ``.npy`` file per array and a JSON header, read through memory maps.

The header lists every array with its shape and type, so that truncated, missing or foreign files are found at once.
Nothing is ever unpickled.
"""

import json
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dwmr.errors import InputError
from dwmr.files import atomic_folder, atomic_write_json

FORMAT = "dwmr-arrays"
VERSION = 1
HEADER = "header.json"

# What NumPy raises on truncated or damaged files, by experiment.
_UNREADABLE = (ValueError, EOFError, OSError, tokenize.TokenError)


def is_store(path: str | Path) -> bool:
    return (Path(path) / HEADER).is_file()


def save(path: str | Path, kind: str, parts: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    """Write a new store of arrays and plain values by name, and how they were made; it appears whole or not at all."""
    arrays = {name: part for name, part in parts.items() if isinstance(part, np.ndarray)}
    header = {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "values": {name: part for name, part in parts.items() if name not in arrays},
        "about": dict(about),
        "arrays": {name: {"shape": list(array.shape), "dtype": array.dtype.str} for name, array in arrays.items()},
    }
    with atomic_folder(path) as folder:
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array, allow_pickle=False)
        atomic_write_json(folder / HEADER, header)


def load(path: str | Path, kind: str) -> dict[str, Any]:
    """What is in a store, by name, with ``about``; the arrays are read-only memory maps."""
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path} does not exist")
    if not is_store(path):
        raise InputError(f"{path} is not a dwmr store: it has no {HEADER}")
    place = path / HEADER
    try:
        header = json.loads(place.read_text())
        if (found := header.get("format")) != FORMAT:
            raise InputError(f"{place} is not a dwmr store: its format is {found!r}")
        if (found := header.get("version")) != VERSION:
            raise InputError(f"{path} was written in store version {found!r}; this dwmr reads version {VERSION}")
        if (found := header.get("kind")) != kind:
            raise InputError(f"{path} holds {found!r}, expected {kind!r}")
        arrays = {name: _open_array(path / f"{name}.npy", entry) for name, entry in header["arrays"].items()}
        return {**arrays, **header["values"], "about": dict(header.get("about", {}))}
    except InputError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as error:  # also of its text and its JSON
        raise InputError(f"{place} is damaged: {error!r}") from error


def load_npz(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays of an ``.npz`` archive."""
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path} is not an .npz archive; write one with numpy.savez")
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (*_UNREADABLE, KeyError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{path} is not a readable .npz archive: {error}") from error


def _open_array(path: Path, entry: Mapping[str, Any]) -> np.ndarray:
    if not path.is_file():
        raise InputError(f"{path} is missing, but the header lists it")
    try:
        array = np.lib.format.open_memmap(path, mode="r")  # np.load would suggest to unpickle other files
    except _UNREADABLE as error:
        raise InputError(f"{path} is truncated or not an array file: {error}") from error
    if list(array.shape) != list(entry["shape"]) or array.dtype.str != entry["dtype"]:
        raise InputError(
            f"{path} holds {array.dtype.str} {list(array.shape)}; "
            f"the header says {entry['dtype']} {list(entry['shape'])}"
        )
    return array
