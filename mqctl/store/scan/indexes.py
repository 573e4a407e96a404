"""The index as a table: which key hashes lead to which records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mqctl.errors import StoreError
from mqctl.store.indexfile import FIRST_ENTRY, HEADER, SLOT, Geometry, Header
from mqctl.store.keyhash import key_hashes
from mqctl.store.properties import KEY_SEPARATOR, KEYS, TAGS, UNIQ_KEY, parse_properties
from mqctl.store.record import Record, parse
from mqctl.store.scan.folder import StoreFolder
from mqctl.store.scan.logreader import read_places
from mqctl.store.scan.schema import TABLES, TIMESTAMP, narrowed
from mqctl.store.scan.storage import Entry

ENTRY: Final = np.dtype([("key_hash", ">i4"), ("phys_offset", ">i8"), ("seconds", ">i4"), ("previous", ">i4")])

# A record is never larger; how large this one is, its head says.
MAX_RECORD: Final = 16 * 1024 * 1024

PART_ENTRIES: Final = 2_000_000
BATCH_ENTRIES: Final = 200_000

_HASH_AND_OFFSET: Final = Struct(">iq")  # how an entry begins


@dataclass(frozen=True, slots=True)
class IndexPart:
    """Entries [first, stop) of an index file whose entries begin at byte `entries_at`."""

    store: StoreFolder
    path: str
    entries_at: int
    begin_ms: int
    first: int
    stop: int

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        schema = narrowed(TABLES["index"], columns)
        for first in range(self.first, self.stop, BATCH_ENTRIES):
            size = ENTRY.itemsize * (min(first + BATCH_ENTRIES, self.stop) - first)
            data = self.store.storage.window(self.path, self.entries_at + ENTRY.itemsize * first, size, whole=True)
            entries = data[: len(data) // ENTRY.itemsize * ENTRY.itemsize].view(ENTRY)
            made = self._columns(first, entries)
            yield pa.RecordBatch.from_arrays([made[name] for name in columns], schema=schema)

    def _columns(self, first: int, entries: NDArray[Any]) -> dict[str, pa.Array]:
        count = len(entries)
        milliseconds = self.begin_ms + entries["seconds"].astype(np.int64) * 1000
        return {
            "store": pa.repeat(pa.scalar(self.store.name, pa.string()), count),
            "file": pa.repeat(pa.scalar(self.path.rpartition("/")[2], pa.string()), count),
            "entry": pa.array(np.arange(first, first + count, dtype=np.int32)),
            "key_hash": pa.array(entries["key_hash"].astype(np.int32)),
            "phys_offset": pa.array(entries["phys_offset"].astype(np.int64)),
            "store_time": pa.array(milliseconds * 1000).view(TIMESTAMP),
        }


def index_parts(store: StoreFolder) -> list[IndexPart]:
    """Raises StoreError for a file whose size is not RocketMQ's default and whose entries cannot be found."""
    parts: list[IndexPart] = []
    for file in store.index_files():
        data = store.storage.read(file.path, 0, HEADER.size)
        if len(data) < HEADER.size or Header(*HEADER.unpack(data)).next_entry <= FIRST_ENTRY:
            continue
        header = Header(*HEADER.unpack(data))
        entries_at = _entries_at(store, file, header)
        parts += [
            IndexPart(
                store,
                file.path,
                entries_at,
                header.begin_timestamp,
                first,
                min(first + PART_ENTRIES, header.next_entry),
            )
            for first in range(FIRST_ENTRY, header.next_entry, PART_ENTRIES)
        ]
    return parts


def _entries_at(store: StoreFolder, file: Entry, header: Header) -> int:
    """Where the slots end; the size of the file alone does not tell. Its first entry is for the record at the begin
    offset, though, and the hashes of that one's keys are known."""
    if file.size == Geometry().file_size:
        return Geometry().entry_at(0)
    for found in _record_at(store, header.begin_phys_offset):
        text = parse_properties(found.properties)
        keys = [text.get(UNIQ_KEY, ""), *text.get(KEYS, "").split(KEY_SEPARATOR), f"T#{text.get(TAGS, '')}"]
        for key_hash in key_hashes([found.topic] * len(keys), keys).tolist():
            entry = _HASH_AND_OFFSET.pack(key_hash, found.phys_offset)
            at = store.storage.window(file.path, 0, file.size, whole=False).tobytes().find(entry, HEADER.size)
            if at >= 0 and (at - HEADER.size - ENTRY.itemsize) % SLOT.size == 0:
                return at - ENTRY.itemsize
    raise StoreError(f"{file.path}: where its entries begin cannot be told, as the record of the first one is gone")


def _record_at(store: StoreFolder, place: int) -> Iterator[Record]:
    for _, records in read_places(store, np.array([place]), np.array([MAX_RECORD])):
        yield parse(records.data.data, int(records.at[0]))
