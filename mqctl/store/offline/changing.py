"""Changing a store that no broker uses: the right to do so, and a way back for whatever is replaced."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mqctl.errors import StoreError
from mqctl.store.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from mqctl.store.files import NAME_DIGITS
from mqctl.store.lock import StoreLock
from mqctl.store.offline.folder import StoreFolder

COPY_CHUNK: Final = 1024 * 1024


@contextmanager
def writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"cannot change {error.filename or path}: {error.strerror or error}") from error


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Raises StoreError while a broker uses the store."""
    lock = StoreLock(root)
    try:
        lock.acquire()
    except StoreError as error:
        hint = "stop that broker first; info, ls, cat, get, grep, du, verify and export work beside it"
        raise StoreError(error.message, hint=hint if error.hint else None) from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def changing(store: StoreFolder) -> Iterator[None]:
    """Marks the store as not clean meanwhile: if the work breaks off, the next start of a broker trusts nothing
    but the log. The caller holds the lock."""
    abort, checkpoint_file = store.root / "abort", store.root / "checkpoint"
    was_clean = store.clean
    with writing(store.root):
        abort.touch()
        checkpoint = read_checkpoint(checkpoint_file)
        write_checkpoint(checkpoint_file, Checkpoint())
        yield
        _sync(store)
        # Java's part alone: what else is in there told of files that may be other ones now.
        times = checkpoint[:3]
        write_checkpoint(checkpoint_file, Checkpoint(*times) if min(times) >= 0 else Checkpoint())
        if was_clean:
            abort.unlink()


def _sync(store: StoreFolder) -> None:
    """Waits until all that may have been replaced is on disk. What was not costs next to nothing."""
    for folder in (store.log.directory, *(store.root / name for name in ("consumequeue", "index", "config"))):
        for path in [folder, *folder.rglob("*")] if folder.is_dir() else []:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


class Aside:
    """The folder `damaged` of a store: pieces that were replaced, for a human to look at. Nothing there is ever
    overwritten."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def move(self, path: Path) -> None:
        """Files and folders keep their names; a second one of a name gets a number."""
        target = self._free(path.relative_to(self._root))
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)

    def keep(self, source: Path, position: int, size: int, log_offset: int) -> None:
        """A copy of some bytes of the log, named by their log offset."""
        target = self._free(Path(f"{log_offset:0{NAME_DIGITS}d}"))
        target.parent.mkdir(parents=True, exist_ok=True)
        with source.open("rb") as log, target.open("xb") as copy:
            log.seek(position)
            while size > 0 and (piece := log.read(min(COPY_CHUNK, size))):
                copy.write(piece)
                size -= len(piece)

    def _free(self, name: Path) -> Path:
        target = wanted = self._root / "damaged" / name
        number = 1
        while target.exists():
            number += 1
            target = wanted.with_name(f"{wanted.name}.{number}")
        return target
