"""One writer at a time in a folder, whatever file system it is on."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final

from mqctl.errors import StoreError
from spark.place import Place

LOCK: Final = "_lock"  # readers of Parquet pass over names that begin so


def only_one(folder: Place) -> AbstractContextManager[None]:
    """Raises StoreError at once if another process is within it for the same folder."""
    path = folder.local_path
    return claimed(folder) if path is None else locked(path)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """On a disk: by a lock that ends with its process, however that ends."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    with path.open("a") as file:
        if not _lock(file, path):
            raise StoreError(f"another export is writing to {folder}", hint="wait until it has ended")
        try:
            yield
        finally:
            path.unlink()


def _lock(file: IO[str], path: Path) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except (BlockingIOError, FileNotFoundError):  # the latter: its owner has removed it at this very moment
        return False


@contextmanager
def claimed(folder: Place) -> Iterator[None]:
    """Elsewhere: by a file that says whose it is, since it stays if its process is killed."""
    file = folder / LOCK
    since = datetime.now(UTC).isoformat(sep=" ", timespec="seconds")
    if not file.write(f"process {os.getpid()} on {socket.gethostname()}, since {since}"):
        raise StoreError(
            f"another export is writing to {folder.text}: {file.read()}",
            hint=f"wait until it has ended; if it was killed, remove {file.text}",
        )
    try:
        yield
    finally:
        file.delete()
