"""Consume queues: entries of 20 bytes, thousands at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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
            end = self._first(low, high, lambda entry: bool(entry["size"] <= 0))
            if end > low:
                return end
        return self._files[0].start // ENTRY_SIZE if self._files else 0

    def begin(self, log_begin: int) -> int:
        """The first entry whose record is still in the log: before it are those of deleted ones, or fillers."""
        low = self._files[0].start // ENTRY_SIZE if self._files else 0
        return self._first(
            low, self.stop, lambda entry: bool(entry["phys_offset"] >= log_begin and entry["size"] != LOST_SIZE)
        )

    def _first(self, low: int, high: int, wanted: Callable[[np.void], bool]) -> int:
        """Binary search for the first entry in [low, high) that is wanted; `high` if none is."""
        while low < high:
            middle = (low + high) // 2
            if wanted(self.entry(middle)):
                high = middle
            else:
                low = middle + 1
        return low

    def entry(self, number: int) -> np.void:
        """Zeros where there is none."""
        at = number * ENTRY_SIZE
        file = next((each for each in reversed(self._files) if each.start <= at < each.end), None)
        data = self._store.storage.read(file.path, at - file.start, ENTRY_SIZE) if file is not None else b""
        found: np.void = np.frombuffer(data.ljust(ENTRY_SIZE, b"\0")[:ENTRY_SIZE], ENTRY)[0]
        return found

    def last_place(self) -> int | None:
        """Of the record that the last entry leads to."""
        entry = self.entry(self.stop - 1)
        return int(entry["phys_offset"]) if 0 < entry["size"] < LOST_SIZE else None

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
