"""Index files read from outside: which there are, how large their tables are, their entries one by one."""

from __future__ import annotations

import mmap
import sys
from array import array
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from mqctl.errors import StoreError
from mqctl.store.index import indexed_keys
from mqctl.store.indexfile import ENTRY, FIRST_ENTRY, HEADER, NAME_DIGITS, SLOT, Geometry, Header
from mqctl.store.keyhash import key_hashes
from mqctl.store.offline.datafiles import DataFile, reading
from mqctl.store.offline.folder import StoreFolder
from mqctl.store.properties import TAGS, get_property
from mqctl.store.record import RecordError

ENTRIES_PER_READ: Final = 32768

_HASH_AND_OFFSET: Final = Struct(">iq")  # how an entry begins


class IndexEntry(NamedTuple):
    file: OfflineIndex
    number: int
    key_hash: int
    phys_offset: int
    seconds: int
    previous: int


class OfflineIndex:
    """One file, as its header was when this was made."""

    def __init__(self, file: DataFile, geometry: Geometry) -> None:
        """Raises StoreError for a header that cannot be one."""
        self._file = file
        self.path = file.path
        self.geometry = geometry
        self.header = header_of(file)
        problem = self.header.problem(geometry)
        if problem is not None:
            raise StoreError(f"{file.path}: {problem}")

    def entries(self) -> Iterator[IndexEntry]:
        for first in range(FIRST_ENTRY, self.header.next_entry, ENTRIES_PER_READ):
            count = min(ENTRIES_PER_READ, self.header.next_entry - first)
            data = self._file.read(self.geometry.entry_at(first), ENTRY.size * count)
            whole = len(data) - len(data) % ENTRY.size
            for number, entry in enumerate(ENTRY.iter_unpack(data[:whole]), first):
                yield IndexEntry(self, number, *entry)

    def slots(self) -> array[int]:
        data = self._file.read(self.geometry.slot_at(0), SLOT.size * self.geometry.hash_slots)
        table = array("i", data.ljust(SLOT.size * self.geometry.hash_slots, b"\0"))
        if sys.byteorder == "little":
            table.byteswap()
        return table


def index_files(store: StoreFolder) -> list[DataFile]:
    """By age: the name is the time of making."""
    directory = store.root / "index"
    with reading(directory):
        if not directory.is_dir():
            return []
        paths = sorted(p for p in directory.iterdir() if p.name.isdecimal() and len(p.name) == NAME_DIGITS)
        return [DataFile(0, path.stat().st_size, path.stat().st_blocks * 512, path) for path in paths if path.is_file()]


def tag_keys(properties: str) -> list[str]:
    """The key under which 5.5 brokers also file a message that has a tag."""
    tags = get_property(properties, TAGS)
    return [f"T#{tags}"] if tags else []


def header_of(file: DataFile) -> Header:
    data = file.read(0, HEADER.size)
    header = Header(*HEADER.unpack(data)) if len(data) == HEADER.size else Header()
    header.next_entry = header.next_entry or FIRST_ENTRY  # Java leaves 0 until the first entry
    return header


def find_geometries(store: StoreFolder) -> dict[int, Geometry]:
    """How many slots and entries files of some size have room for; the size alone does not tell.

    RocketMQ's defaults where the size is theirs. Else the first entry of a file shows where the slots end: it is for
    the record at the begin offset, and the hashes of that one's keys are known.
    """
    found = {Geometry().file_size: Geometry()}
    for file in index_files(store):
        if file.size not in found and (geometry := _geometry(store, file)) is not None:
            found[file.size] = geometry
    return found


def _geometry(store: StoreFolder, file: DataFile) -> Geometry | None:
    try:
        found = store.record_at(header_of(file).begin_phys_offset)
    except RecordError:
        return None
    keys = indexed_keys(found.properties) + tag_keys(found.properties)
    for key_hash in key_hashes([found.topic] * len(keys), keys).tolist():
        at = _find(file.path, _HASH_AND_OFFSET.pack(key_hash, found.phys_offset))
        slots, odd = divmod(at - HEADER.size - ENTRY.size, SLOT.size)
        if at < 0 or odd or slots < 1:
            continue
        geometry = Geometry(slots, (file.size - HEADER.size - SLOT.size * slots) // ENTRY.size)
        if geometry.file_size == file.size:
            return geometry
    return None


def _find(path: Path, data: bytes) -> int:
    with reading(path), path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        return mapped.find(data)
