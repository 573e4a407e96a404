"""Replacing small files, and what a crash at each step leaves to the next start."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from mqctl.errors import StoreError
from mqctl.store.smallfiles import load_file_or_backup, replace_file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config" / "topics.json"


def sibling(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def names(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir())


def digits(data: bytes) -> int:
    return int(data)


def test_first_write_creates_directories_and_no_backup(path: Path) -> None:
    replace_file(path, b"1")
    assert names(path) == ["topics.json"]
    assert load_file_or_backup(path, bytes) == b"1"


def test_the_previous_content_becomes_the_backup(path: Path) -> None:
    for content in (b"1", b"2", b"3"):
        replace_file(path, content)
    assert names(path) == ["topics.json", "topics.json.bak"]
    assert (path.read_bytes(), sibling(path, ".bak").read_bytes()) == (b"3", b"2")


def test_nothing_there_is_none(path: Path) -> None:
    assert load_file_or_backup(path, bytes) is None


def test_crash_before_the_rename_leaves_the_old_content(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_file(path, b"1")

    def crash(*_: object) -> None:
        raise OSError("power lost")

    with monkeypatch.context() as broken:
        broken.setattr(Path, "replace", crash)
        with pytest.raises(StoreError, match="power lost"):
            replace_file(path, b"2")
    assert names(path) == ["topics.json", "topics.json.bak", "topics.json.tmp"]
    assert load_file_or_backup(path, bytes) == b"1"
    replace_file(path, b"3")  # the leftover is no obstacle
    assert load_file_or_backup(path, bytes) == b"3"


def test_half_a_temporary_file_means_nothing(path: Path) -> None:
    replace_file(path, b"1")
    sibling(path, ".tmp").write_bytes(b'{"ha')
    assert load_file_or_backup(path, bytes) == b"1"


@pytest.mark.parametrize("left", [None, b""], ids=["deleted", "empty"])
def test_java_died_between_delete_and_rename(path: Path, left: bytes | None, caplog: pytest.LogCaptureFixture) -> None:
    path.parent.mkdir()
    sibling(path, ".bak").write_bytes(b"1")
    sibling(path, ".tmp").write_bytes(b"2")
    if left is not None:
        path.write_bytes(left)
    with caplog.at_level(logging.WARNING):
        assert load_file_or_backup(path, bytes) == b"1"
    assert "reading topics.json.bak instead" in caplog.text


def test_an_empty_file_alone_is_none(path: Path) -> None:
    path.parent.mkdir()
    path.touch()
    assert load_file_or_backup(path, bytes) is None


def test_unusable_content_is_set_aside_and_never_becomes_the_backup(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"not a number")
    sibling(path, ".bak").write_bytes(b"7")
    assert load_file_or_backup(path, digits) == 7
    assert names(path) == ["topics.json.bad", "topics.json.bak"]
    replace_file(path, b"8")
    assert sibling(path, ".bak").read_bytes() == b"7"
    assert sibling(path, ".bad").read_bytes() == b"not a number"
    assert load_file_or_backup(path, digits) == 8


@pytest.mark.parametrize("backup", [None, b"", b"bad too"])
def test_nothing_usable_is_an_error_and_touches_nothing(path: Path, backup: bytes | None) -> None:
    path.parent.mkdir()
    path.write_bytes(b"bad")
    if backup is not None:
        sibling(path, ".bak").write_bytes(backup)
    before = names(path)
    with pytest.raises(StoreError, match=r"topics\.json cannot be used") as caught:
        load_file_or_backup(path, digits)
    assert caught.value.hint is not None
    assert names(path) == before


def test_unreadable_is_not_unusable(path: Path) -> None:
    path.mkdir(parents=True)  # a directory where the file should be: no reason to take the backup
    sibling(path, ".bak").write_bytes(b"1")
    with pytest.raises(StoreError, match="cannot read"):
        load_file_or_backup(path, bytes)


def test_content_is_synced_before_it_is_renamed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    real_fsync, real_replace = os.fsync, Path.replace

    def fsync(descriptor: int) -> None:
        steps.append("fsync")
        real_fsync(descriptor)

    def replace(self: Path, target: Path) -> Path:
        steps.append("rename")
        return real_replace(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)
    replace_file(path, b"1")
    assert steps == ["fsync", "rename", "fsync", "fsync"]  # the last for the folder, which is new itself
    steps.clear()
    replace_file(path, b"2")
    assert steps == ["fsync", "rename", "fsync"]
