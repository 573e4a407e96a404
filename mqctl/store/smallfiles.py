"""Small files that are replaced whole: kvConfig.json, the broker's config/*.json, properties files.

    name        the current content
    name.bak    the content before that, where RocketMQ looks when the current one is missing or empty
    name.bad    a content that could not be read, kept for a human
    name.tmp    the next content while it is being written; left behind by a crash, it means nothing

At every moment `name` is either the whole old content or the whole new one. (Java deletes it first and
renames after, so a directory it left may hold only the backup: that is why readers know about it.)

Nothing here is for the event loop: these functions wait for the disk.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from mqctl.errors import StoreError

log = logging.getLogger(__name__)

T = TypeVar("T")


def replace_file(path: Path, data: bytes) -> None:
    """Makes `data` the content of `path`, on disk when this returns; the old content becomes the backup.

    Missing directories are created. Raises StoreError; then the old content is still there.
    """
    try:
        is_first = not path.parent.is_dir()
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = _sibling(path, ".tmp")
        _write_through(temporary, data)
        if path.exists():
            # A backup cut short by a crash does no harm: `path` itself is whole at that moment.
            shutil.copyfile(path, _sibling(path, ".bak"))
        temporary.replace(path)
        sync_directory(path.parent)
        if is_first:
            sync_directory(path.parent.parent)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error


def load_file_or_backup(path: Path, parse: Callable[[bytes], T]) -> T | None:
    """What `parse` makes of the content, or of the backup where `path` is missing, empty or does not parse.

    `parse` raises ValueError for bytes it cannot use. A file that does not parse while its backup does is set
    aside as `name.bad`, so that the next replacement does not make it the backup. None when there is nothing
    at all. Raises StoreError when there is something but nothing usable: starting empty would in the end
    overwrite what a human could still have repaired.
    """
    backup = _sibling(path, ".bak")
    complaints: list[str] = []
    try:
        for candidate in (path, backup):
            data = _read(candidate)
            if not data:
                continue
            try:
                loaded = parse(data)
            except ValueError as error:
                complaints.append(f"{candidate} cannot be used: {error}")
                continue
            if candidate is backup:
                _say_backup(path, backup, complaints)
            return loaded
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error
    if complaints:
        hint = f"repair {path}, or move it and its backup away to start without"
        raise StoreError("; ".join(complaints), hint=hint)
    return None


def _read(path: Path) -> bytes:
    """Empty for a missing file: a crash under Java can leave either, and neither holds anything."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _say_backup(path: Path, backup: Path, complaints: list[str]) -> None:
    if complaints:
        bad = _sibling(path, ".bad")
        path.replace(bad)
        log.warning("%s; kept as %s, reading %s instead", complaints[0], bad.name, backup.name)
    else:
        log.warning("%s is missing or empty, reading %s instead", path, backup.name)


def _sibling(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _write_through(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_directory(directory: Path) -> None:
    """Without this the rename itself may be lost with the power, and the old content would come back."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
