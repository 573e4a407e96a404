"""The file `checkpoint`: up to where everything is known to be on disk.

    physic timestamp   8   store time of the last record synced in the commit log
    logics timestamp   8   the same for the consume queues
    index timestamp    8   end of the last full index file that was synced
    ...                    RocketMQ 5 has two more numbers here; 0
    at SEAL_AT         SEAL  what Java does not know
        mark           8   SEAL_MARK
        timestamps     24  the three again: a Java broker that used the store since has changed the first ones,
                           and what follows is no longer true
        safe offset    8   all records before this log offset, and their queue entries, are on disk
        last record    8   where the last of those begins; -1 = not known
        index file     8   the name of the index file that was the newest then, as a number; 0 = there was none
        index entries  8   how many entries it had, all on disk; -1 = nothing is known of the index
        index offset   8   the keys of all records before this log offset are among those entries
        CRC-32         4   of the seal up to here

The file is 4096 bytes long, the rest zero. A recovery may trust what is older and must look at what is not. With
times alone it begins at the start of a log file of a gigabyte; with the seal, at the very record.

Everything lies within one sector, which a disk writes whole or not at all, so the file is overwritten in place.
That also needs no room, where a new file would: the disk may be full.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from mqctl.errors import StoreError

LAYOUT: Final = Struct(">qqq")
SEAL_AT: Final = 64
SEAL: Final = Struct(
    ">"
    "8s"  # mark
    "qqq"  # timestamps
    "q"  # safe offset
    "q"  # last record
    "q"  # index file
    "q"  # index entries
    "q"  # index offset
)
SEAL_CRC: Final = Struct(">I")
SEAL_MARK: Final = b"mqctl\0\0\1"
FILE_SIZE: Final = 4096

# What Java allows for: a record's time is taken a little before the record is in its place.
TIMESTAMP_SLACK_MS: Final = 3000

# What checks of a store say.
NO_CHECKPOINT: Final = "is missing; a broker then walks the whole log after an unclean end"
NO_TIMES: Final = "holds no times"


class IndexPosition(NamedTuple):
    """A place in the index, and the log offset up to which the keys of all messages are filed before it."""

    file: int
    entries: int
    log_offset: int


class Checkpoint(NamedTuple):
    """`safe_offset` is None where only Java's part can be used."""

    physic_timestamp: int = 0
    logics_timestamp: int = 0
    index_timestamp: int = 0
    safe_offset: int | None = None
    last_record: int = -1
    index_position: IndexPosition | None = None

    @property
    def safe_timestamp(self) -> int:
        """Records and queue entries of before then are on disk, by Java's reckoning."""
        return max(0, min(self.physic_timestamp, self.logics_timestamp) - TIMESTAMP_SLACK_MS)

    def behind(self, last_timestamp: int) -> str | None:
        """What to say of a log whose latest record has that store time, if it once had a later one."""
        reached = max(self.physic_timestamp, self.logics_timestamp, self.index_timestamp)
        if last_timestamp >= reached:
            return None
        what = f"the log once reached {reached} and now ends at {last_timestamp}"
        return f"{what}: messages were lost, or the clock was set back"


def read_checkpoint(path: Path) -> Checkpoint:
    """All zero where there is none, or one without times: then nothing can be trusted."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Checkpoint()
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from error
    return parse_checkpoint(data) or Checkpoint()


def parse_checkpoint(data: bytes) -> Checkpoint | None:
    """None where these are no times."""
    if len(data) < LAYOUT.size or min(LAYOUT.unpack_from(data)) < 0:
        return None
    plain = Checkpoint(*LAYOUT.unpack_from(data))
    return _read_seal(data, plain) or plain


def _read_seal(data: bytes, plain: Checkpoint) -> Checkpoint | None:
    end = SEAL_AT + SEAL.size
    if len(data) < end + SEAL_CRC.size or SEAL_CRC.unpack_from(data, end)[0] != zlib.crc32(data[SEAL_AT:end]):
        return None
    mark, *timestamps, safe_offset, last_record, index_file, index_entries, index_offset = SEAL.unpack_from(
        data, SEAL_AT
    )
    if mark != SEAL_MARK or timestamps != list(plain[:3]):
        return None
    position = IndexPosition(index_file, index_entries, index_offset) if index_entries >= 0 else None
    return plain._replace(safe_offset=safe_offset, last_record=last_record, index_position=position)


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Synced when this returns. Any thread may call it. Raises StoreError."""
    data = bytearray(FILE_SIZE)
    LAYOUT.pack_into(data, 0, *checkpoint[:3])
    if checkpoint.safe_offset is not None:
        index = checkpoint.index_position or IndexPosition(0, -1, 0)
        SEAL.pack_into(data, SEAL_AT, SEAL_MARK, *checkpoint[:5], *index)
        end = SEAL_AT + SEAL.size
        SEAL_CRC.pack_into(data, end, zlib.crc32(data[SEAL_AT:end]))
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.pwrite(descriptor, data, 0)
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}") from error
