"""Consume queues: entries of 20 bytes, thousands at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mqctl.store.scan.folder import DataFile, QueueFolder, StoreFolder

# As in `consumequeue`: where the record is, its size, and the hash of its tags.
ENTRY: Final = np.dtype([("phys_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
ENTRY_SIZE: Final = ENTRY.itemsize

LOST_SIZE: Final = 0x7FFFFFFF  # stands for an entry whose record is gone

Entries = NDArray[Any]


class QueueSlice(NamedTuple):
    """Entries [first, stop) of a queue; they are in one file."""

    topic: str
    queue_id: int
    file: DataFile
    first: int
    stop: int


class Queue:
    """One queue as it was when this was made."""

    def __init__(self, store: StoreFolder, folder: QueueFolder) -> None:
        self._store = store
        self.topic, self.queue_id, path = folder
        self._files = store.data_files(path)
        self.stop = self._find_end()

    def _find_end(self) -> int:
        """Behind the last entry that was written; what follows in a file is zero."""
        for file in reversed(self._files):
            low, high = file.start // ENTRY_SIZE, file.end // ENTRY_SIZE
            begin = low
            while low < high:
                middle = (low + high) // 2
                if self._entry(file, middle)["size"] > 0:
                    low = middle + 1
                else:
                    high = middle
            if low > begin:
                return low
        return self._files[0].start // ENTRY_SIZE if self._files else 0

    def _entry(self, file: DataFile, number: int) -> np.void:
        data = self._store.storage.read(file.path, number * ENTRY_SIZE - file.start, ENTRY_SIZE)
        found: np.void = np.frombuffer(data.ljust(ENTRY_SIZE, b"\0")[:ENTRY_SIZE], ENTRY)[0]
        return found

    def last_place(self) -> int | None:
        """Of the record that the last entry leads to."""
        for file in self._files:
            if file.start // ENTRY_SIZE < self.stop <= file.end // ENTRY_SIZE:
                entry = self._entry(file, self.stop - 1)
                return int(entry["phys_offset"]) if entry["size"] != LOST_SIZE else None
        return None

    def slices(self, entries: int) -> list[QueueSlice]:
        """All of it, in slices of so many entries at most."""
        return [
            QueueSlice(self.topic, self.queue_id, file, first, min(first + entries, file.end // ENTRY_SIZE, self.stop))
            for file in self._files
            for first in range(file.start // ENTRY_SIZE, min(file.end // ENTRY_SIZE, self.stop), entries)
        ]


def read_slice(store: StoreFolder, part: QueueSlice, log_begin: int) -> tuple[NDArray[np.int64], Entries]:
    """(queue offsets, entries) of those whose record is still in the log."""
    at, size = part.first * ENTRY_SIZE - part.file.start, (part.stop - part.first) * ENTRY_SIZE
    data = store.storage.window(part.file.path, at, size, whole=True)
    entries = data[: len(data) // ENTRY_SIZE * ENTRY_SIZE].view(ENTRY)
    there = (entries["size"] > 0) & (entries["size"] != LOST_SIZE) & (entries["phys_offset"] >= log_begin)
    return part.first + np.flatnonzero(there), entries[there]


def together(slices: Iterable[QueueSlice], entries: int) -> Iterator[tuple[QueueSlice, ...]]:
    """Slices in groups of about so many entries: most queues are short, and a task should have something to do."""
    group: list[QueueSlice] = []
    count = 0
    for each in slices:
        group.append(each)
        count += each.stop - each.first
        if count >= entries:
            yield tuple(group)
            group, count = [], 0
    if group:
        yield tuple(group)
