"""Files here and behind URIs: what may not be read, and how often a file system is opened."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyarrow import fs

from mqctl.errors import StoreError
from mqctl.store.scan.storage import LOCAL, storage


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The URIs that were opened. As in S3 there is a bucket before each path, which is `tmp_path` whatever its name is.
    Its folder `closed` is open to nobody."""
    opened: list[str] = []

    def from_uri(uri: str) -> tuple[Any, str]:
        opened.append(uri)
        return SimpleNamespace(open_input_file=open_file, get_file_info=files.get_file_info), f"{tmp_path}/"

    def open_file(path: str) -> Any:
        if "/closed/" in path:
            raise OSError(
                f"When reading {path}: AWS Error ACCESS_DENIED during HeadObject operation: No response body."
            )
        return files.open_input_file(path)

    files = fs.LocalFileSystem()
    system = SimpleNamespace(from_uri=from_uri)
    monkeypatch.setattr(
        "mqctl.store.scan.storage.fs",
        SimpleNamespace(FileSystem=system, FileSelector=fs.FileSelector, FileType=fs.FileType),
    )
    return opened


def test_a_file_system_is_opened_once(shelf: list[str], tmp_path: Path) -> None:
    (tmp_path / "a" / "%RETRY%g").mkdir(parents=True)
    (tmp_path / "a" / "%RETRY%g" / "0").write_bytes(b"0123")
    (folder,) = storage("shelf://one/a").entries("shelf://one/a")
    assert (folder.name, folder.path) == ("%RETRY%g", "shelf://one/a/%RETRY%g")
    (file,) = storage(folder.path).entries(folder.path)
    assert storage(file.path).read(file.path, 1, 2) == b"12"
    assert storage("shelf://one").entries("shelf://one")[0].name == "a"
    assert shelf == ["shelf://one/"]


def test_a_refusal_behind_a_uri(shelf: list[str]) -> None:
    path = "shelf://two/closed/0"
    with pytest.raises(PermissionError, match=f"Permission denied: '{path}'"):
        storage(path).read(path, 0, 1)


READS = (
    lambda files, path: files.entries(path),
    lambda files, path: files.read(path, 0, 1),
    lambda files, path: files.window(path, 0, 1, whole=True),
)


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize(
    ("error", "raised"), [(PermissionError(13, "x"), PermissionError), (OSError(5, "x"), StoreError)]
)
def test_what_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, read: Any, error: OSError, raised: type[Exception]
) -> None:
    """Root may read everything, so it is the system that is told to refuse."""

    def refuse(*args: Any) -> None:
        raise error

    for owner, name in ((os, "scandir"), (os, "open"), (Path, "open")):
        monkeypatch.setattr(owner, name, refuse)
    with pytest.raises(raised, match="/data/log"):
        read(LOCAL, "/data/log")
