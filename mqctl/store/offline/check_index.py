"""The key index against itself and against the log.

Within a file every entry must link to the one that was its slot's newest before it, so links never lead around in a
circle, and the slots must hold the newest entries of all. Entries lie in the order of the log: one pass over both
at once shows entries that lead to no record with such a key, and keys that cannot be found.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mqctl.errors import StoreError
from mqctl.store.index import indexed_keys
from mqctl.store.indexfile import FIRST_ENTRY, HEADER, SLOT, seconds_since
from mqctl.store.keyhash import key_hashes
from mqctl.store.offline.datafiles import DataFile
from mqctl.store.offline.findings import Report
from mqctl.store.offline.indexes import IndexEntry, OfflineIndex, find_geometries, header_of, index_files, tag_keys
from mqctl.store.offline.logscan import RawRecord
from mqctl.store.record import SYS_TRANSACTION_MASK, SYS_TRANSACTION_ROLLBACK, RecordError

# How many keys are hashed at once.
BATCH: Final = 1024


@dataclass(slots=True)
class _Missing:
    """Keys that should stand before some entry of the index, or behind the last one."""

    keys: int = 0
    first_phys_offset: int = -1

    def add(self, keys: int, phys_offset: int) -> None:
        if not self.keys:
            self.first_phys_offset = phys_offset
        self.keys += keys


class _Filed(NamedTuple):
    """A record that the index should know, and how many of the batch's keys are its own."""

    phys_offset: int
    store_timestamp: int
    keys: int


@dataclass(slots=True)
class _Batch:
    """Keys on their way to be hashed."""

    topics: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    records: list[_Filed] = field(default_factory=list)


class IndexCheck:
    """`add` every record in the order of the log, then `finish`."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._clean = report.clean
        self._log_begin = report.store.log.begin
        self._geometries = find_geometries(report.store)
        self._is_complete = True  # no file is left out
        self._files = list(self._open_all())
        self._entries = self._all_entries()
        self._head = next(self._entries, None)
        self._first_phys_offset = None if self._head is None else self._head.phys_offset
        self._missing: dict[OfflineIndex | None, _Missing] = {}
        self._before = _Missing()
        self._batch = _Batch()

    def _open_all(self) -> Iterator[OfflineIndex]:
        for file in index_files(self._report.store):
            opened = self._open(file)
            if opened is not None:
                yield opened

    def _open(self, file: DataFile) -> OfflineIndex | None:
        if file.size >= HEADER.size and header_of(file).is_empty:
            return None  # made, but without an entry so far
        geometry = self._geometries.get(file.size)
        if geometry is None and header_of(file).begin_phys_offset < self._log_begin:
            self._is_complete = False
            self._report.note(file.path, None, "not checked: its layout shows in messages that were deleted")
            return None
        if geometry is None:
            self._damage(file, None, f"has {file.size} bytes, and no entry that tells how its tables are laid out")
            return None
        try:
            return OfflineIndex(file, geometry)
        except StoreError as error:
            self._damage(file, 0, f"is no index file: {error.message.partition(': ')[2]}")
            return None

    def _damage(self, file: DataFile | OfflineIndex, position: int | None, what: str) -> None:
        self._report.index = True
        self._report.damage(file.path, position, what)

    def _damage_unless_used(self, file: OfflineIndex, position: int | None, what: str) -> None:
        """What a broker that runs, or one that was killed, may leave; its next start puts it right."""
        if self._clean:
            self._damage(file, position, what)
        else:
            self._report.note(file.path, position, f"{what}: the store is in use or was not closed")

    # -- files --------------------------------------------------------------------------------------

    def _all_entries(self) -> Iterator[IndexEntry]:
        """Those of sound links, in the order of the log. The slots of a file are compared when it is over."""
        for file in self._files:
            table = array("i", bytes(SLOT.size * file.geometry.hash_slots))
            least, first, last = 0, None, None
            for entry in file.entries():
                slot = entry.key_hash % file.geometry.hash_slots
                problem = _problem(entry, least, table[slot])
                if problem is not None:
                    self._damage(file, file.geometry.entry_at(entry.number), f"entry {entry.number}: {problem}")
                    break  # nothing behind it can be told right from wrong
                table[slot] = entry.number
                least, first, last = entry.phys_offset, first or entry, entry
                yield entry
            else:
                if first is not None and last is not None:
                    self._compare_header(file, first, last)
                self._compare_slots(file, table)

    def _compare_header(self, file: OfflineIndex, first: IndexEntry, last: IndexEntry) -> None:
        says = file.header.begin_phys_offset, file.header.end_phys_offset
        if says != (first.phys_offset, last.phys_offset):
            what = f"the header says log offsets {says[0]} to {says[1]}"
            self._damage_unless_used(file, 0, f"{what}, the entries have {first.phys_offset} to {last.phys_offset}")

    def _compare_slots(self, file: OfflineIndex, table: array[int]) -> None:
        used = len(table) - table.count(0)
        if file.header.used_slots != used:
            what = f"the header says {file.header.used_slots} used slots, there are {used}"
            self._damage_unless_used(file, 0, what)
        slots = file.slots()
        if slots == table:
            return
        for slot, (have, wanted) in enumerate(zip(slots, table, strict=True)):
            if have != wanted:
                at, what = file.geometry.slot_at(slot), f"slot {slot} names entry {have}, its newest is {wanted}"
                self._damage_unless_used(file, at, what)

    # -- the log ------------------------------------------------------------------------------------

    def add(self, raw: RawRecord) -> None:
        if raw.fields[7] & SYS_TRANSACTION_MASK == SYS_TRANSACTION_ROLLBACK:
            return
        keys = indexed_keys(raw.properties.decode(errors="replace"))
        if not keys:
            return
        batch = self._batch
        batch.topics += [raw.topic.decode(errors="replace")] * len(keys)
        batch.keys += keys
        batch.records.append(_Filed(raw.fields[6], raw.fields[10], len(keys)))
        if len(batch.keys) >= BATCH:
            self._compare_batch()

    def _compare_batch(self) -> None:
        batch, self._batch = self._batch, _Batch()
        hashes = key_hashes(batch.topics, batch.keys).tolist()
        at = 0
        for filed in batch.records:
            self._compare_record(filed, hashes[at : at + filed.keys])
            at += filed.keys
        self._report.keys += len(hashes)

    def _compare_record(self, filed: _Filed, hashes: list[int]) -> None:
        self._pass(filed.phys_offset)
        missing = set(hashes)
        while (entry := self._head) is not None and entry.phys_offset == filed.phys_offset:
            complaint = _wrong(entry, filed.store_timestamp, hashes)
            if complaint is not None and not self._is_tag(entry):
                self._entry_damage(entry, complaint)
            missing.discard(entry.key_hash)
            self._head = next(self._entries, None)
        if missing:
            self._note_missing(len(missing), filed.phys_offset)

    def _pass(self, phys_offset: int | None) -> None:
        """Entries before this offset lead to no record with keys; that is right for deleted log files only."""
        while (entry := self._head) is not None and (phys_offset is None or entry.phys_offset < phys_offset):
            if entry.phys_offset >= self._log_begin and not self._is_tag(entry):
                self._entry_damage(entry, f"leads to log offset {entry.phys_offset}, where no message with keys is")
            self._head = next(self._entries, None)

    def _is_tag(self, entry: IndexEntry) -> bool:
        """Whether it files a message under its tag, as 5.5 brokers do besides."""
        try:
            found = self._report.store.record_at(entry.phys_offset)
        except RecordError:
            return False
        keys = tag_keys(found.properties)
        return entry.key_hash in key_hashes([found.topic] * len(keys), keys).tolist()

    def _note_missing(self, keys: int, phys_offset: int) -> None:
        head = self._head
        if self._first_phys_offset is not None and phys_offset <= self._first_phys_offset:
            self._before.add(keys, phys_offset)
        elif self._is_complete:
            self._missing.setdefault(head.file if head else None, _Missing()).add(keys, phys_offset)

    def _entry_damage(self, entry: IndexEntry, what: str) -> None:
        self._damage(entry.file, entry.file.geometry.entry_at(entry.number), f"entry {entry.number}: {what}")

    # -- the end ------------------------------------------------------------------------------------

    def finish(self) -> None:
        self._compare_batch()
        self._pass(None)
        directory = self._report.store.root / "index"
        if self._before.keys:
            what = (
                f"{self._before.keys} keys of older messages are not filed, as Apache's broker leaves it after a kill"
            )
            self._report.note(directory, None, what)
        for file, missing in self._missing.items():
            what = f"{missing.keys} keys are not filed, from the message at {missing.first_phys_offset} on"
            if file is not None:
                self._damage(file, None, what)
            elif self._first_phys_offset is None and not self._report.index:
                self._report.note(directory, None, f"there is no index; {missing.keys} keys are in the log")
            elif self._clean:
                self._report.index = True
                self._report.damage(directory, None, what)
            else:
                self._report.note(directory, None, f"{what}: the store is in use or was not closed, a start adds them")


def _problem(entry: IndexEntry, least: int, newest: int) -> str | None:
    if entry.key_hash < 0 or entry.seconds < 0:
        return "a negative number where there can be none"
    if entry.phys_offset < least:
        return f"goes back in the log, to {entry.phys_offset} from {least}"
    if entry.previous != newest:
        return f"links to entry {entry.previous}, the one before it in its slot is {newest}"
    return None


def _wrong(entry: IndexEntry, store_timestamp: int, hashes: list[int]) -> str | None:
    """What is wrong with an entry that leads to a record with keys of these hashes. One that was filed before is
    not: the newest message is filed again after a restart."""
    if entry.key_hash not in hashes:
        return f"the message at {entry.phys_offset} has no such key"
    seconds = seconds_since(entry.file.header.begin_timestamp, store_timestamp)
    # The first entry of a file counts from the end of the file before.
    if entry.number > FIRST_ENTRY and entry.seconds != seconds:
        return (
            f"says {entry.seconds} s after the file's begin, the message at {entry.phys_offset} came after {seconds} s"
        )
    return None
