"""The records of a log one after the other, over damage and beside a broker that appends."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from mqctl.store import record
from mqctl.store.offline.datafiles import DataFile, DataFiles

# How much of the log is read at a time.
CHUNK: Final = 4 * 1024 * 1024

# How much of the log is worked through between two reports of the progress.
STEP: Final = CHUNK

# A broker may be writing the record at the log's end while we read it. It is looked at again after this long.
SECOND_LOOK_S: Final = 0.05

_MAGICS: Final = re.compile(b"\xda\xa3\x20[\xa7\xab]")
HEADS: Final = record.HEADS  # the layout stands in `record` only
_HEAD_V4: Final = HEADS[0]
_MAGIC_AT: Final = 4

# Names of this module are found faster than another's, and the scan asks for these once per record.
_MIN_RECORD: Final = record.MIN_RECORD
_MAGIC_V1: Final = record.MAGIC_V1


# Hears of damage: the log offsets where it begins and where sound data (or the file's end) follows, and what is wrong.
OnDamage = Callable[[int, int, str], None]

# Hears how many bytes of how many are done.
OnProgress = Callable[[int, int], None]


def no_progress(done: int, total: int) -> None:
    """For those whom nobody watches."""


class RawRecord(NamedTuple):
    """A record inside a piece of the log: `fields` are those of its head, in the order of `record`; the two hosts
    are bytes, all others numbers."""

    buffer: bytes
    position: int
    fields: tuple[Any, ...]
    body_at: int
    topic: bytes
    properties: bytes


class LogScan:
    """The records of a log from some record's place on.

    The layout of every record is checked, its CRC is not. What does not fit is told to `on_damage`, and the scan
    goes on at the next record it can find; `end` is the place behind the last one.
    """

    def __init__(self, log: DataFiles, start: int, on_damage: OnDamage) -> None:
        self._log = log
        self._on_damage = on_damage
        self._chunk = b""
        self._chunk_start = 0
        self.place = self.end = start

    def __iter__(self) -> Iterator[RawRecord]:
        while (file := self._file()) is not None:
            file_end = file.end
            while self.place < file_end:
                position = self.place - self._chunk_start
                if position < 0 or position + _MIN_RECORD > len(self._chunk):
                    position = self._load(file, _MIN_RECORD)
                try:
                    found = self._decode(file, file_end, position)
                except record.RecordError:
                    found = self._look_again(file)
                if found is not None:
                    self.place += found[2][0]
                    self.end = self.place
                    yield found

    def _file(self) -> DataFile | None:
        """The file that holds `place`, which moves to the next file where one is over; None at the log's end."""
        file = self._log.file_at(self.place)
        if file is None:
            file = self._log.file_after(self.place)
            if file is not None:
                self.place = file.start
        return file

    def _load(self, file: DataFile, size: int) -> int:
        """Makes `size` bytes at `place` available, if the file has them; their position in the chunk."""
        self._chunk = file.read(self.place - file.start, max(size, CHUNK))
        self._chunk_start = self.place
        return 0

    def _decode(self, file: DataFile, file_end: int, position: int) -> RawRecord | None:
        """None where `place` was moved to the next file instead."""
        chunk = self._chunk
        if len(chunk) - position < _MIN_RECORD:
            self._pass_end(file, position)
            return None
        fields = _HEAD_V4.unpack_from(chunk, position)
        size, magic = fields[0], fields[1]
        if magic != _MAGIC_V1 and magic != record.MAGIC_V2:
            self._pass_end(file, position)
            return None
        if size < _MIN_RECORD or self.place + size > file_end:
            raise record.RecordError(f"a record size of {size}")
        if fields[6] != self.place:
            raise record.RecordError(f"a record of log offset {fields[6]}")
        if position + size > len(chunk):
            position = self._load(file, size)
            chunk = self._chunk
        head = _HEAD_V4
        if fields[7] & 0x30:
            head = HEADS[fields[7] >> 4 & 3]
            fields = head.unpack_from(chunk, position)
        end = position + size
        body_at = position + head.size
        cursor = body_at + fields[-1]
        if fields[-1] < 0 or cursor >= end or end > len(chunk):
            raise record.RecordError(f"a record of {size} bytes with a body of {fields[-1]}")
        if magic == _MAGIC_V1:
            topic_at = cursor + 1
            properties_at = topic_at + chunk[cursor] + 2
        else:
            topic_at = cursor + 2
            properties_at = topic_at + int.from_bytes(chunk[cursor:topic_at], "big") + 2
        if properties_at > end or properties_at + (chunk[properties_at - 2] << 8 | chunk[properties_at - 1]) != end:
            raise record.RecordError("a record whose parts do not add up to its size")
        return RawRecord(
            chunk, position, fields, body_at, chunk[topic_at : properties_at - 2], chunk[properties_at:end]
        )

    def _pass_end(self, file: DataFile, position: int) -> None:
        """Moves `place` over what is no record: a blank, or the log's end. Raises RecordError for damage."""
        head = self._chunk[position : position + record.BLANK.size]
        if len(head) < record.BLANK.size:  # the file is over, or was deleted while we read
            self.place = file.end
            return
        size, magic = record.BLANK.unpack(head)
        if magic == record.MAGIC_BLANK and size == file.end - self.place:
            self.place = file.end
            return
        if any(head):
            raise record.RecordError("no record, nor a blank up to the file's end")
        following = self._log.file_after(self.place)
        if self._find(file, self.place) is not None or (following is not None and any(following.read(0, 8))):
            raise record.RecordError("zeros, with records behind them")
        self.place = self._log.end

    def _look_again(self, file: DataFile) -> RawRecord | None:
        """A broken record: unless it was just being written, tells and moves to the next one."""
        following = self._find(file, self.place + 1)
        if following is None:
            time.sleep(SECOND_LOOK_S)
        try:
            return self._decode(file, file.end, self._load(file, _MIN_RECORD))
        except record.RecordError as error:
            damaged, self.place = self.place, file.end if following is None else following
            self._on_damage(damaged, self.place, str(error))
        return None

    def _find(self, file: DataFile, start: int) -> int | None:
        """The next place in this file where a record says that it belongs there."""
        lowest = start
        while (data := file.next_data(start - file.start)) is not None:
            start = file.start + data
            piece = file.read(data, CHUNK)
            for match in _MAGICS.finditer(piece):
                place = start + match.start() - _MAGIC_AT
                head = file.read(place - file.start, record.TIMESTAMP_HEAD) if place >= lowest else b""
                if record.is_head_at(head, place):
                    return place
            if len(piece) < CHUNK:
                return None
            start += CHUNK - record.MIN_RECORD  # a head may lie across two pieces
        return None
