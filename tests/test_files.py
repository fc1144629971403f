"""Files are written completely or not at all."""

import errno
import json
import os
from pathlib import Path

import pytest

from dwmr.files import atomic_folder, atomic_write_bytes, atomic_write_json, atomic_write_text, cache_folder


@pytest.fixture
def full_disk(monkeypatch):
    def fsync(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_write_and_replace(tmp_path):
    path = tmp_path / "deep" / "notes.txt"
    atomic_write_text(path, "τ = 0.99")
    assert path.read_bytes() == "τ = 0.99".encode()
    atomic_write_bytes(path, b"\x00\x01")
    assert path.read_bytes() == b"\x00\x01"
    assert names(path.parent) == ["notes.txt"]


def test_new_files_have_the_usual_permissions(tmp_path):
    (tmp_path / "plain").write_text("")
    atomic_write_text(tmp_path / "atomic", "")
    assert (tmp_path / "atomic").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_json_reads_back(tmp_path):
    value = {"f1": 99.5, "name": "Pfützner", "horizons": [1, 2, 5]}
    atomic_write_json(tmp_path / "a.json", value)
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == value


def test_a_value_that_json_cannot_hold_changes_nothing(tmp_path):
    atomic_write_json(tmp_path / "a.json", 1)
    with pytest.raises(TypeError):
        atomic_write_json(tmp_path / "a.json", {"set": {1, 2}})
    assert json.loads((tmp_path / "a.json").read_text()) == 1


def test_a_full_disk_keeps_the_old_file(tmp_path, full_disk):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(OSError, match=r"could not write .*a\.txt: No space left.*nothing was changed") as raised:
        atomic_write_text(path, "new")
    assert raised.value.errno == errno.ENOSPC
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_an_interrupt_keeps_the_old_file(tmp_path, monkeypatch):
    def fsync(descriptor):
        raise KeyboardInterrupt

    path = tmp_path / "a.txt"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(KeyboardInterrupt):
        atomic_write_text(path, "new")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_target_that_is_a_folder_is_named(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match=r"could not write .*taken"):
        atomic_write_text(tmp_path / "taken", "text")
    assert names(tmp_path) == ["taken"]


def test_a_folder_appears_complete(tmp_path):
    path = tmp_path / "runs" / "a"
    with atomic_folder(path) as temporary:
        assert not path.exists()
        (temporary / "inner").mkdir()
        (temporary / "inner" / "b.txt").write_text("b")
        (temporary / "c.txt").write_text("c")
    assert names(path) == ["c.txt", "inner"]
    assert (path / "inner" / "b.txt").read_text() == "b"
    assert names(path.parent) == ["a"]


def test_an_existing_folder_is_refused_before_any_work(tmp_path):
    (tmp_path / "a").mkdir()
    worked = False
    with pytest.raises(FileExistsError, match="a exists already"), atomic_folder(tmp_path / "a"):
        worked = True
    assert not worked
    assert names(tmp_path) == ["a"]


def test_a_failed_block_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError), atomic_folder(tmp_path / "a") as temporary:
        (temporary / "b.txt").write_text(str(1 / 0))
    assert names(tmp_path) == []


def test_a_full_disk_leaves_no_folder(tmp_path, full_disk):
    with (
        pytest.raises(OSError, match=r"could not write .*/a: No space left.*nothing was changed"),
        atomic_folder(tmp_path / "a") as temporary,
    ):
        (temporary / "b.txt").write_text("b")
    assert names(tmp_path) == []


def test_a_full_disk_inside_the_block_names_the_folder(tmp_path, full_disk):
    with (
        pytest.raises(OSError, match=r"could not write [^ ]*/a: No space left[^;]*; nothing was changed$"),
        atomic_folder(tmp_path / "a") as temporary,
    ):
        atomic_write_text(temporary / "b.txt", "b")
    assert names(tmp_path) == []


def test_a_missing_input_is_not_taken_for_a_failed_write(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"input\.txt"), atomic_folder(tmp_path / "a"):
        (tmp_path / "input.txt").read_text()
    assert names(tmp_path) == []


def test_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("DWMR_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "shared"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("DWMR_CACHE")
    assert cache_folder() == tmp_path / "shared" / "dwmr"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert cache_folder() == tmp_path / "home" / ".cache" / "dwmr"
