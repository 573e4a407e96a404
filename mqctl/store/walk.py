"""Walking a log from record to record, as recovery, verification and rebuilding do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from mqctl.store import record
from mqctl.store.files import Segments

# How much of the log is read at a time.
CHUNK: Final = 4 * 1024 * 1024

# A topic names a folder of the store. The CRC does not cover it, so damage may have made it anything.
_USABLE_TOPIC: Final = re.compile(r"[^\x00/]{1,255}\Z")

# Entries of 20 bytes up to the end of a file must have places that fit into 63 bits.
MAX_QUEUE_OFFSET: Final = (1 << 63) // 20 - (1 << 31)


class LogWalk:
    """The sound records of a log from some record's place on.

    When the iteration is over, `end` is the place behind the last sound record and `damage` says what is
    there instead of a record; None means that the log simply ends.
    """

    def __init__(self, segments: Segments, start: int) -> None:
        self._segments = segments
        self.end = start
        self.damage: str | None = None
        self._chunk = b""
        self._chunk_start = start
        self._topics: set[str] = set()

    def __iter__(self) -> Iterator[record.Summary]:
        while True:
            found = record.summarize(self._chunk, self.end - self._chunk_start)
            if (
                found is None
                or found.phys_offset != self.end
                or not found.queue_id >= 0 <= found.queue_offset <= MAX_QUEUE_OFFSET
                or found.topic not in self._topics
            ):
                found = self._look_closely()
            if found is None:
                return
            yield found
            self.end += found.size

    def _look_closely(self) -> record.Summary | None:
        """The record at `end`, wherever the next bytes have to come from; None if there is none."""
        if not self._skip_blank():
            return None
        try:
            found = record.parse(self._bytes(self._claimed_size()), 0, check_crc=True)
            self._check(found)
        except record.RecordError as error:
            self.damage = str(error)
            return None
        self._topics.add(found.topic)
        return record.Summary(*(getattr(found, name) for name in record.Summary._fields))

    def _check(self, found: record.Record) -> None:
        if found.phys_offset != self.end:
            raise record.RecordError(f"a record of log offset {found.phys_offset}")
        if found.queue_id < 0 or not 0 <= found.queue_offset <= MAX_QUEUE_OFFSET:
            raise record.RecordError(f"a record of queue {found.queue_id}, offset {found.queue_offset}")
        if found.topic in (".", "..") or not _USABLE_TOPIC.match(found.topic):
            raise record.RecordError(f"a record whose topic {found.topic!r} cannot be one")

    def _skip_blank(self) -> bool:
        """Steps over the blank at a file's end; False where the log ends."""
        head = self._bytes(record.BLANK.size)
        if len(head) < record.BLANK.size or not any(head):
            return False
        if record.BLANK.unpack_from(head)[1] != record.MAGIC_BLANK:
            return True
        following = self._segments.start_of(self.end) + self._segments.file_size
        if not self._segments.has(following):
            return False
        self.end = following
        return self._skip_blank()

    def _claimed_size(self) -> int:
        """What the record says, within what a file can hold: it may be no record at all."""
        claimed = record.size_of(bytes(self._bytes(record.BLANK.size)))
        return max(record.MIN_RECORD, min(claimed, self._segments.file_size))

    def _bytes(self, size: int) -> memoryview:
        """Up to `size` bytes at `end`, read ahead in chunks."""
        position = self.end - self._chunk_start
        if not 0 <= position <= len(self._chunk) - size:
            self._chunk = self._segments.read(self.end, max(size, CHUNK))
            self._chunk_start, position = self.end, 0
        return memoryview(self._chunk)[position : position + size]
