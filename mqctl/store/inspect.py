"""Reading a store folder from outside: Apache's or ours, at rest or beside a broker that runs.

Nothing here writes, creates or locks, and no configuration is needed: what a file holds follows from its name
(the offset of its first byte) and its size. A broker beside us may append and may delete its oldest file at any
moment; a file that is gone reads as empty, and the log counts up to its last whole record.

Files are opened for each read and closed again. Reads are large, so this costs little, and a store may have more
queues than a process may have descriptors.
"""

from __future__ import annotations

import os
import re
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from mqctl.errors import NotFound, StoreError
from mqctl.store import record
from mqctl.store.consumequeue import ENTRY, ENTRY_SIZE, FILLER
from mqctl.store.files import NAME_DIGITS
from mqctl.store.properties import KEY_SEPARATOR, KEYS, UNIQ_KEY, get_property

# How much is read at a time: of the log, and of a queue.
CHUNK: Final = 4 * 1024 * 1024
QUEUE_CHUNK: Final = 10_000 * ENTRY_SIZE

# A broker may be writing the record at the log's end while we read it. It is looked at again after this long.
SECOND_LOOK_S: Final = 0.05

# One of these makes a folder a store. All of them appear when a broker starts for the first time.
_MARKS: Final = ("commitlog", "consumequeue", "checkpoint", "abort", "lock")
_MAGICS: Final = re.compile(b"\xda\xa3\x20[\xa7\xab]")
HEADS: Final = record.HEADS  # the layout stands in `record` only
_HEAD_V4: Final = HEADS[0]
_MAGIC_AT: Final = 4

# Names of this module are found faster than another's, and the scan asks for these once per record.
_MIN_RECORD: Final = record.MIN_RECORD
_MAGIC_V1: Final = record.MAGIC_V1


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error


# -- files ------------------------------------------------------------------------------------------


class DataFile(NamedTuple):
    start: int
    size: int
    on_disk: int
    path: Path

    @property
    def end(self) -> int:
        return self.start + self.size

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; b"" if the file was deleted meanwhile."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise StoreError(f"cannot read {self.path}: {error.strerror}") from error
        with _reading(self.path):
            try:
                return os.pread(descriptor, size, position)
            finally:
                os.close(descriptor)

    def next_data(self, position: int) -> int | None:
        """The first place from `position` on that is not in a hole of a sparse file; None if only a hole is left."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return os.lseek(descriptor, position, os.SEEK_DATA)
        except OSError:
            return None
        finally:
            os.close(descriptor)


class DataFiles:
    """The files of one folder, as they were when this was made, sorted; they form one space of offsets."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.files = list(_data_files(directory))
        self._starts = [file.start for file in self.files]

    @property
    def begin(self) -> int:
        return self._starts[0] if self._starts else 0

    @property
    def end(self) -> int:
        return self.files[-1].end if self.files else 0

    def file_at(self, offset: int) -> DataFile | None:
        number = bisect_right(self._starts, offset) - 1
        return self.files[number] if number >= 0 and offset < self.files[number].end else None

    def file_after(self, offset: int) -> DataFile | None:
        """The first file that begins behind `offset`."""
        number = bisect_right(self._starts, offset)
        return self.files[number] if number < len(self.files) else None

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes, not past the end of the file that holds `offset`; b"" where there is none."""
        file = self.file_at(offset)
        return file.read(offset - file.start, min(size, file.end - offset)) if file is not None else b""

    def read_through(self, offset: int, size: int) -> bytes:
        """Like read, but on into the files that follow."""
        pieces = []
        while size > 0 and (piece := self.read(offset, size)):
            pieces.append(piece)
            offset += len(piece)
            size -= len(piece)
        return b"".join(pieces)


def _data_files(directory: Path) -> Iterator[DataFile]:
    with _reading(directory):
        if not directory.is_dir():
            return
        for path in sorted(directory.iterdir()):
            if not (path.name.isdecimal() and len(path.name) == NAME_DIGITS):
                continue
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            yield DataFile(int(path.name), status.st_size, status.st_blocks * 512, path)


# -- queues -----------------------------------------------------------------------------------------


class QueueFiles:
    """One consume queue. `min_offset` and `max_offset` are what was there when this was made."""

    def __init__(self, directory: Path, topic: str, queue_id: int, log_begin: int) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.files = DataFiles(directory)
        first = self.files.begin // ENTRY_SIZE
        self.max_offset = self._find_end()
        # Before the first entry there may be some whose records were deleted, or fillers.
        self.min_offset = self._first(
            first, self.max_offset, lambda entry: entry[0] >= log_begin and ENTRY.pack(*entry) != FILLER
        )

    def _find_end(self) -> int:
        for file in reversed(self.files.files):
            low = file.start // ENTRY_SIZE
            end = self._first(low, low + file.size // ENTRY_SIZE, lambda entry: entry[1] <= 0)
            if end > low:
                return end
        return self.files.begin // ENTRY_SIZE

    def _first(self, low: int, high: int, wanted: Callable[[tuple[int, int, int]], bool]) -> int:
        """Binary search for the first entry in [low, high) that is wanted; `high` if none is."""
        while low < high:
            middle = (low + high) // 2
            entry = self.entry(middle)
            if entry is None or wanted(entry):
                high = middle
            else:
                low = middle + 1
        return low

    def entry(self, queue_offset: int) -> tuple[int, int, int] | None:
        data = self.files.read(queue_offset * ENTRY_SIZE, ENTRY_SIZE)
        return ENTRY.unpack(data) if len(data) == ENTRY_SIZE else None

    def entries(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """(log offset, size, tags code) from `start` to `stop`; ends early where the files do."""
        while start < stop:
            data = self.files.read(start * ENTRY_SIZE, min(QUEUE_CHUNK, (stop - start) * ENTRY_SIZE))
            whole = len(data) // ENTRY_SIZE
            if not whole:
                return
            yield from ENTRY.iter_unpack(data[: whole * ENTRY_SIZE])
            start += whole

    @property
    def messages(self) -> int:
        return self.max_offset - self.min_offset


class Usage(NamedTuple):
    messages: int
    size_bytes: int


def usage(queue: QueueFiles) -> Usage:
    return Usage(queue.messages, sum(size for _, size, _ in queue.entries(queue.min_offset, queue.max_offset)))


def usage_by_tag(queue: QueueFiles) -> dict[int, Usage]:
    """By tags code, the largest first."""
    messages: Counter[int] = Counter()
    sizes: Counter[int] = Counter()
    for _, size, tags_code in queue.entries(queue.min_offset, queue.max_offset):
        messages[tags_code] += 1
        sizes[tags_code] += size
    return {tags_code: Usage(messages[tags_code], size) for tags_code, size in sizes.most_common()}


# -- the log ----------------------------------------------------------------------------------------


class RawRecord(NamedTuple):
    """A record inside a piece of the log: `fields` are those of its head, in the order of `record`."""

    buffer: bytes
    position: int
    fields: tuple[int, ...]
    body_at: int
    topic: bytes
    properties: bytes


class LogScan:
    """The records of a log from some record's place on.

    The layout of every record is checked, its CRC is not. What does not fit is told to `on_damage` with its log
    offset, and the scan goes on at the next record it can find; `end` is the place behind the last one.
    """

    def __init__(self, log: DataFiles, start: int, on_damage: Callable[[int, str], None]) -> None:
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
            self._on_damage(self.place, str(error))
        self.place = file.end if following is None else following
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


# -- the store --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Info:
    log_files: int
    log_file_size: int | None
    log_begin: int
    log_end: int
    size_bytes: int
    disk_bytes: int
    first_store_timestamp: int | None
    last_store_timestamp: int | None
    clean: bool
    topics: int
    queues: int
    messages: int
    config_files: list[str]


class StoreFolder:
    """A store as it was when this was made."""

    def __init__(self, root: Path) -> None:
        """Raises NotFound if there is no store."""
        self.root = root
        with _reading(root):
            if not root.is_dir():
                raise NotFound(f"{root} is not a folder")
            if not any((root / mark).exists() for mark in _MARKS):
                raise NotFound(
                    f"{root} holds no store: it has none of {', '.join(_MARKS)}",
                    hint="give the folder that storePathRootDir names",
                )
        self.log = DataFiles(root / "commitlog")

    @property
    def clean(self) -> bool:
        """False while a broker runs on it, and after one that did not end well."""
        return not (self.root / "abort").exists()

    @cached_property
    def queues(self) -> list[QueueFiles]:
        """Sorted by topic and number."""
        return [
            QueueFiles(queue_dir, topic_dir.name, int(queue_dir.name), self.log.begin)
            for topic_dir in _folders(self.root / "consumequeue")
            for queue_dir in sorted(
                (each for each in _folders(topic_dir) if each.name.isdecimal()), key=lambda each: int(each.name)
            )
        ]

    def queues_of(self, topic: str | None, queue_id: int | None = None) -> list[QueueFiles]:
        """Raises NotFound if there are none."""
        found = [
            queue
            for queue in self.queues
            if (topic is None or queue.topic == topic) and (queue_id is None or queue.queue_id == queue_id)
        ]
        if not found and topic is not None:
            what = f"topic {topic}" if queue_id is None else f"queue {queue_id} of topic {topic}"
            raise NotFound(f"{self.root} has no {what}")
        return found

    def config_files(self) -> list[Path]:
        config = self.root / "config"
        with _reading(config):
            return sorted(path for path in config.rglob("*.json") if path.is_file()) if config.is_dir() else []

    def record_at(self, phys_offset: int, size: int | None = None) -> record.Record:
        """The record that begins here. `size` spares a read where it is known. Raises RecordError."""
        data = self.log.read(phys_offset, record.MIN_RECORD if size is None else max(size, record.MIN_RECORD))
        if not record.is_head_at(data, phys_offset):
            raise record.RecordError(f"no record at log offset {phys_offset}")
        if record.size_of(data) > len(data):
            data = self.log.read(phys_offset, record.size_of(data))
        return record.parse(data, 0)

    def messages(self, queue: QueueFiles, start: int, stop: int) -> Iterator[record.Record | str]:
        """What a queue's entries lead to; a text says what is there instead of a record."""
        start, stop = max(start, queue.min_offset), min(stop, queue.max_offset)
        for queue_offset, (phys_offset, size, _) in enumerate(queue.entries(start, stop), start):
            try:
                # The size is not believed before the record confirms it: it may be anything after damage.
                yield self.record_at(phys_offset, size if 0 < size < CHUNK else None)
            except record.RecordError as error:
                yield f"{queue.topic}/{queue.queue_id}@{queue_offset}: {error}"

    def scan(self, on_damage: Callable[[int, str], None], start: int | None = None) -> LogScan:
        return LogScan(self.log, self.log.begin if start is None else start, on_damage)

    def file_from(self, timestamp_ms: int) -> int:
        """Where to start looking for records stored at this time or later: the last file that begins earlier."""
        found = self.log.begin
        for file in self.log.files:
            first = self._store_timestamp(file.start)
            if first is None or first >= timestamp_ms:
                break
            found = file.start
        return found

    def _store_timestamp(self, phys_offset: int) -> int | None:
        head = self.log.read(phys_offset, record.TIMESTAMP_HEAD)
        return record.store_timestamp_of(head) if record.is_head_at(head, phys_offset) else None

    def _last_record(self) -> tuple[int, int | None]:
        """(the log's end, store time of the last record), found from the furthest queue entry on."""
        last_file = next((f for f in reversed(self.log.files) if any(f.read(0, record.BLANK.size))), None)
        if last_file is None:
            return self.log.begin, None
        start = last_file.start
        for queue in self.queues:
            entry = queue.entry(queue.max_offset - 1) if queue.messages else None
            if entry is not None and start < entry[0] < last_file.end and self._store_timestamp(entry[0]) is not None:
                start = entry[0]
        scan = self.scan(lambda place, what: None, start)
        last = None
        for found in scan:
            last = found.fields[10]
        return scan.end, last

    def info(self) -> Info:
        end, last = self._last_record()
        files = self.log.files
        return Info(
            log_files=len(files),
            log_file_size=files[0].size if files else None,
            log_begin=self.log.begin,
            log_end=end,
            size_bytes=sum(file.size for file in files),
            disk_bytes=sum(file.on_disk for file in files),
            first_store_timestamp=self._store_timestamp(self.log.begin),
            last_store_timestamp=last,
            clean=self.clean,
            topics=len({queue.topic for queue in self.queues}),
            queues=len(self.queues),
            messages=sum(queue.messages for queue in self.queues),
            config_files=[str(path.relative_to(self.root / "config")) for path in self.config_files()],
        )


def _folders(directory: Path) -> list[Path]:
    with _reading(directory):
        if not directory.is_dir():
            return []
        return sorted(path for path in directory.iterdir() if path.is_dir())


# -- searching --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Query:
    """What a message must have; everything that is given must fit. Times in ms, `until` not included."""

    topic: str | None = None
    key: str | None = None
    properties: Sequence[tuple[str, str]] = ()
    body: re.Pattern[bytes] | None = None
    since: int | None = None
    until: int | None = None

    def needles(self) -> list[bytes]:
        """Bytes that any match contains: looking for them is far cheaper than taking a record apart."""
        texts = [self.topic, self.key, *(f"{name}\x01{value}" for name, value in self.properties)]
        return [text.encode(errors="surrogateescape") for text in texts if text]

    def fits(self, found: record.Record, body_of: Callable[[record.Record], bytes]) -> bool:
        return (
            (self.topic is None or found.topic == self.topic)
            and (self.key is None or self.key in _keys(found.properties))
            and all(get_property(found.properties, name) == value for name, value in self.properties)
            and (self.since is None or found.store_timestamp >= self.since)
            and (self.until is None or found.store_timestamp < self.until)
            and (self.body is None or self.body.search(body_of(found)) is not None)
        )


def _keys(properties: str) -> list[str]:
    unique = get_property(properties, UNIQ_KEY)
    keys = (get_property(properties, KEYS) or "").split(KEY_SEPARATOR)
    return [*keys, unique] if unique else keys


def search(
    store: StoreFolder,
    query: Query,
    body_of: Callable[[record.Record], bytes],
    on_damage: Callable[[int, str], None],
) -> Iterator[record.Record]:
    """All records that fit, in the order of the log; also those whose topic was deleted."""
    needles = query.needles()
    start = None if query.since is None else store.file_from(query.since)
    for raw in store.scan(on_damage, start):
        end = raw.position + raw.fields[0]
        if all(raw.buffer.find(needle, raw.position, end) >= 0 for needle in needles):
            found = record.parse(memoryview(raw.buffer)[raw.position : end], 0)
            if query.fits(found, body_of):
                yield found
