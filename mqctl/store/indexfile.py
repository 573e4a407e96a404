"""One index file: where the messages with a key lie in the commit log.

    header                          HEADER
        begin timestamp   8         store time of the first entry's message, ms
        end timestamp     8         of the last one's
        begin offset      8         log offset of the first entry's message
        end offset        8         of the last one's
        used slots        4         how many slots are not empty
        next entry        4         the number the next entry gets; the first is 1, none is 0
    slots                           SLOT each, at `Geometry.slot_at`
        newest entry      4         number of the newest entry filed here, 0 = none
    entries                         ENTRY each, at `Geometry.entry_at`; number 0 is never used
        key hash          4         abs(Java hash of topic#key)
        log offset        8
        seconds           4         store time - begin timestamp, rounded down
        previous entry    4         number of the entry that was the slot's newest before, 0 = none

The file is named by the local time of its making, yyyyMMddHHmmssSSS, and has its full size from the start
(sparse). All integers are big-endian. A new file's header holds the end of the file before it until its first
entry comes: the first entry's seconds are counted from there, though the begin timestamp is then its own.

Bytes go through pread and pwrite, for the reasons given in `files`. This module moves single parts of a file;
`indextail` adds entries in large batches, `indexrepair` checks a file that a crash has left behind.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass
from itertools import groupby
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from mqctl.errors import StoreError

log = logging.getLogger(__name__)

HEADER: Final = Struct(
    ">"
    "q"  # begin timestamp
    "q"  # end timestamp
    "q"  # begin offset
    "q"  # end offset
    "i"  # used slots
    "i"  # next entry
)
SLOT: Final = Struct(">i")
ENTRY: Final = Struct(
    ">"
    "i"  # key hash
    "q"  # log offset
    "i"  # seconds
    "i"  # previous entry
)

Entry = tuple[int, int, int, int]

FIRST_ENTRY: Final = 1
NAME_DIGITS: Final = 17
MAX_SECONDS: Final = 0x7FFFFFFF

# Slots this close together (16 KB) are read and written with one call. For the batches that `indextail` makes
# one call per slot takes twice as long; groups twice or four times as wide gain nothing.
SLOTS_PER_CALL: Final = 4096

# Entries of one slot that lie this close together are read with one call: those of a key that many messages
# share usually do.
ENTRIES_PER_CALL: Final = 64

# How many entries of one slot a lookup looks at in a file. A file may hold 20 million, and if one key is on
# all messages a lookup far in the past would keep its caller waiting for many seconds. This many take one.
MAX_CHAIN: Final = 1_000_000


class Geometry(NamedTuple):
    """RocketMQ's maxHashSlotNum and maxIndexNum. A file is full with one entry less than the latter."""

    hash_slots: int = 5_000_000
    max_entries: int = 20_000_000

    @property
    def file_size(self) -> int:
        return self.entry_at(self.max_entries)

    def slot_at(self, slot: int) -> int:
        return HEADER.size + SLOT.size * slot

    def entry_at(self, number: int) -> int:
        return HEADER.size + SLOT.size * self.hash_slots + ENTRY.size * number


@dataclass(slots=True)
class Header:
    begin_timestamp: int = 0
    end_timestamp: int = 0
    begin_phys_offset: int = 0
    end_phys_offset: int = 0
    used_slots: int = 0
    next_entry: int = FIRST_ENTRY

    @classmethod
    def following(cls, before: Header | None) -> Header:
        """That of an empty file after the one whose header is `before`."""
        if before is None:
            return cls()
        return cls(before.end_timestamp, before.end_timestamp, before.end_phys_offset, before.end_phys_offset)

    @property
    def is_empty(self) -> bool:
        return self.next_entry == FIRST_ENTRY

    def overlaps(self, begin_ms: int, end_ms: int) -> bool:
        """Whether the file can hold something of that time. A clock set back leaves end before begin."""
        first, last = sorted((self.begin_timestamp, self.end_timestamp))
        return begin_ms <= last and end_ms >= first

    def problem(self, geometry: Geometry) -> str | None:
        """Why this cannot be the header of a sound file, None if it can."""
        if not FIRST_ENTRY <= self.next_entry <= geometry.max_entries:
            return f"next entry {self.next_entry} is not within 1 and {geometry.max_entries}"
        if not 0 <= self.begin_phys_offset <= self.end_phys_offset:
            return f"offsets {self.begin_phys_offset} to {self.end_phys_offset} are no range"
        if min(self.begin_timestamp, self.end_timestamp, self.used_slots) < 0:
            return "a negative number where there can be none"
        return None


class DamagedIndex(ValueError):
    """A file that is not an index file of this geometry."""


class IndexFile:
    """Owned by one thread, except `sync`. `header` is what the file holds, also while more is being added."""

    def __init__(self, path: Path, geometry: Geometry, descriptor: int, header: Header) -> None:
        self.path = path
        self.geometry = geometry
        self.header = header
        self.is_dirty = True
        self._descriptor = descriptor

    # -- life ---------------------------------------------------------------------------------------

    @classmethod
    def create(cls, path: Path, geometry: Geometry, before: Header | None) -> IndexFile:
        """A new file after the one whose header is `before`. Raises StoreError; then there is no file."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise _failure("create", path, error) from error
        file = cls(path, geometry, descriptor, Header())
        try:
            file._make_full_size()
            file.write_header(Header.following(before))
        except StoreError:
            file.close()
            path.unlink()
            raise
        return file

    def _make_full_size(self) -> None:
        try:
            os.ftruncate(self._descriptor, self.geometry.file_size)
        except OSError as error:
            raise _failure("create", self.path, error) from error

    @classmethod
    def open(cls, path: Path, geometry: Geometry) -> IndexFile:
        """Raises DamagedIndex for a file that cannot be used, StoreError when the disk fails."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise _failure("open", path, error) from error
        file = cls(path, geometry, descriptor, Header())
        try:
            file._load_header()
        except (DamagedIndex, StoreError):
            file.close()
            raise
        return file

    def _load_header(self) -> None:
        size = os.fstat(self._descriptor).st_size
        if size != self.geometry.file_size:
            raise DamagedIndex(f"it has {size} bytes where the configuration says {self.geometry.file_size}")
        self.header = Header(*HEADER.unpack(self.read(0, HEADER.size)))
        # Java counts from 1 in memory and leaves 0 in the file until the first entry.
        self.header.next_entry = self.header.next_entry or FIRST_ENTRY
        problem = self.header.problem(self.geometry)
        if problem is not None:
            raise DamagedIndex(problem)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    @property
    def number(self) -> int:
        """The name as a number: a later file has a larger one."""
        return int(self.path.name)

    @property
    def entry_count(self) -> int:
        return self.header.next_entry - FIRST_ENTRY

    @property
    def is_full(self) -> bool:
        return self.header.next_entry >= self.geometry.max_entries

    def sync(self) -> None:
        """Waits until all that is written is on disk. Any thread may call this at any time: the file is
        opened anew, so that it matters to nobody when its owner closes or deletes it meanwhile."""
        self.is_dirty = False
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
            try:
                os.fdatasync(descriptor)
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            return
        except OSError as error:
            self.is_dirty = True
            raise _failure("sync", self.path, error) from error

    # -- bytes --------------------------------------------------------------------------------------

    def read(self, position: int, size: int) -> bytes:
        try:
            data = os.pread(self._descriptor, size, position)
        except OSError as error:
            raise _failure("read", self.path, error) from error
        if len(data) != size:
            raise StoreError(f"cannot read {self.path}: it ends before {position + size}")
        return data

    def write(self, position: int, data: bytes | bytearray) -> None:
        """On StoreError any part of `data` may have been written."""
        try:
            written = os.pwrite(self._descriptor, data, position)
            while written < len(data):
                written += os.pwrite(self._descriptor, memoryview(data)[written:], position + written)
        except OSError as error:
            raise _failure("write", self.path, error) from error
        finally:
            # After the write: a sync that runs now has cleared it before, and may have missed these bytes.
            self.is_dirty = True

    def write_header(self, header: Header) -> None:
        self.write(0, HEADER.pack(*astuple(header)))
        self.header = header

    # -- slots --------------------------------------------------------------------------------------

    def newest(self, slot: int) -> int:
        """The number of the newest entry of a slot, 0 where there is none. The table may be damaged."""
        (number,) = SLOT.unpack(self.read(self.geometry.slot_at(slot), SLOT.size))
        return number if FIRST_ENTRY <= number < self.header.next_entry else 0

    def newest_of(self, slots: list[int]) -> Iterator[tuple[int, int]]:
        """(slot, `newest` of it) for slots in ascending order that lie close together."""
        first = slots[0]
        data = self.read(self.geometry.slot_at(first), SLOT.size * (slots[-1] - first + 1))
        for slot in slots:
            (number,) = SLOT.unpack_from(data, SLOT.size * (slot - first))
            yield slot, number if FIRST_ENTRY <= number < self.header.next_entry else 0

    def set_newest(self, slots: list[int], numbers: Mapping[int, int]) -> None:
        """Writes the slots, which are in ascending order and lie close together."""
        first = slots[0]
        span = slots[-1] - first + 1
        position = self.geometry.slot_at(first)
        data = bytearray(self.read(position, SLOT.size * span) if span > len(slots) else SLOT.size * span)
        for slot in slots:
            SLOT.pack_into(data, SLOT.size * (slot - first), numbers[slot])
        self.write(position, data)

    # -- entries ------------------------------------------------------------------------------------

    def chain(self, number: int) -> Iterator[tuple[int, Entry]]:
        """The entry of that number and those before it in its slot, each with its number. A link that does
        not point backwards ends the chain: in a damaged file it might lead around in a circle."""
        low = high = 0
        data = b""
        for _ in range(MAX_CHAIN):
            if not number >= FIRST_ENTRY:
                return
            if not low <= number < high:
                low, high = max(FIRST_ENTRY, number - ENTRIES_PER_CALL + 1), number + 1
                data = self.read(self.geometry.entry_at(low), ENTRY.size * (high - low))
            entry = ENTRY.unpack_from(data, ENTRY.size * (number - low))
            yield number, entry
            number = entry[3] if entry[3] < number else 0
        log.warning("%s: a slot has more than %d entries, older ones are not looked at", self.path, MAX_CHAIN)

    def entries(self, chunk: int = 32768, first_entry: int = FIRST_ENTRY) -> Iterator[Entry]:
        """All entries, or those from a number on, in the order of their numbers."""
        for first in range(first_entry, self.header.next_entry, chunk):
            count = min(chunk, self.header.next_entry - first)
            yield from ENTRY.iter_unpack(self.read(self.geometry.entry_at(first), ENTRY.size * count))


def near_slots(slots: Iterable[int]) -> list[list[int]]:
    """The slots in ascending order, in groups that one call reads or writes."""
    return [list(group) for _, group in groupby(sorted(slots), lambda slot: slot // SLOTS_PER_CALL)]


def seconds_since(begin_timestamp: int, timestamp: int) -> int:
    """An entry's time as the file keeps it; 0 while there is no begin."""
    if begin_timestamp <= 0:
        return 0
    return min(max(0, (timestamp - begin_timestamp) // 1000), MAX_SECONDS)


def entry_timestamp(header: Header, number: int, seconds: int) -> int:
    """When an entry's message was stored, rounded down. The first entry is the one that set the begin, but
    its seconds count from the end of the file before: Java takes such a message for a later one."""
    return header.begin_timestamp + (1000 * seconds if number > FIRST_ENTRY else 0)


def matching_offsets(
    header: Header,
    chain: Iterable[tuple[int, Entry]],
    key_hash: int,
    begin_ms: int,
    end_ms: int,
) -> Iterator[int]:
    """The log offsets of a slot's entries that have this hash and lie within the time, newest first. Times
    are whole seconds after the file's begin. The chain is left at the first entry before `begin_ms`: the
    rest of it is older."""
    for number, (entry_hash, phys_offset, seconds, _) in chain:
        if seconds < 0:
            return
        timestamp = entry_timestamp(header, number, seconds)
        if entry_hash == key_hash and begin_ms <= timestamp <= end_ms:
            yield phys_offset
        if timestamp < begin_ms:
            return


def dump(path: Path, geometry: Geometry) -> Iterator[str]:
    """An index file as text for a human or a comparison: the header, every entry, every slot in use."""
    file = IndexFile.open(path, geometry)
    try:
        yield f"{file.header}"
        for number, (key_hash, phys_offset, seconds, previous) in enumerate(file.entries(), FIRST_ENTRY):
            slot = key_hash % geometry.hash_slots
            yield f"entry {number}: hash={key_hash} slot={slot} offset={phys_offset} +{seconds}s previous={previous}"
        for first in range(0, geometry.hash_slots, SLOTS_PER_CALL):
            group = list(range(first, min(first + SLOTS_PER_CALL, geometry.hash_slots)))
            yield from (f"slot {slot}: newest={number}" for slot, number in file.newest_of(group) if number)
    finally:
        file.close()


def _failure(doing: str, path: Path, error: OSError) -> StoreError:
    return StoreError(f"cannot {doing} {path}: {error.strerror}")
