"""The file `checkpoint`: up to when everything is known to be on disk.

    physic timestamp   8   store time of the last record synced in the commit log
    logics timestamp   8   the same for the consume queues
    index timestamp    8   end of the last full index file that was synced

The file is 4096 bytes long, the rest zero. A recovery may trust what is older and must look at what is not.
"""

from __future__ import annotations

import os
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from mqctl.errors import StoreError

LAYOUT: Final = Struct(">qqq")
FILE_SIZE: Final = 4096


class Checkpoint(NamedTuple):
    physic_timestamp: int = 0
    logics_timestamp: int = 0
    index_timestamp: int = 0


def read_checkpoint(path: Path) -> Checkpoint:
    """All zero where there is none: then nothing can be trusted."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Checkpoint()
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from error
    return Checkpoint(*LAYOUT.unpack_from(data)) if len(data) >= LAYOUT.size else Checkpoint()


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Synced when this returns. Raises StoreError."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.ftruncate(descriptor, FILE_SIZE)
            os.pwrite(descriptor, LAYOUT.pack(*checkpoint), 0)
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}") from error
