"""Where queues begin and end, and when single records were stored: a few reads of a few bytes, however large the store.

Consume queues are searched by halves. What an entry points at is read from the log only where somebody asks for its
time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple

from mqctl.store.consumequeue import ENTRY, ENTRY_SIZE, FILLER
from mqctl.store.record import TIMESTAMP_HEAD, is_head_at, store_timestamp_of
from mqctl.store.scan.folder import DataFile, QueueFolder, StoreFolder
from mqctl.store.scan.storage import join

Entry = tuple[int, int, int]  # physical offset, size, tags code


class QueueBounds(NamedTuple):
    """Offsets of the first message that is still there and of the one that will be next."""

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int


class StoredAt(NamedTuple):
    phys_offset: int
    store_ms: int


class Files:
    """The files of a log or a queue as one space of offsets, as they were when this was made."""

    def __init__(self, folder: StoreFolder, path: str) -> None:
        self._storage = folder.storage
        self.files: list[DataFile] = folder.data_files(path)
        self._starts = [file.start for file in self.files]

    @property
    def begin(self) -> int:
        return self._starts[0] if self._starts else 0

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes, none past the end of the file that holds `position`; b"" where there is none."""
        number = bisect_right(self._starts, position) - 1
        if number < 0 or position >= self.files[number].end:
            return b""
        return self._storage.read(self.files[number].path, position - self.files[number].start, size)


class Queue:
    """One consume queue. Offsets count entries."""

    def __init__(self, folder: StoreFolder, path: str, log_begin: int) -> None:
        self._files = Files(folder, path)
        self.max_offset = self._end()
        begin = self._files.begin // ENTRY_SIZE
        # Before the first message there may be entries whose records were deleted, or fillers.
        self.min_offset = self._first(
            begin, self.max_offset, lambda entry: entry[0] >= log_begin and ENTRY.pack(*entry) != FILLER
        )

    def entry(self, queue_offset: int) -> Entry | None:
        data = self._files.read(queue_offset * ENTRY_SIZE, ENTRY_SIZE)
        return ENTRY.unpack(data) if len(data) == ENTRY_SIZE else None

    def _end(self) -> int:
        """The rest of the last file holds zeros; a broker may have made the next one already, all zeros."""
        for file in reversed(self._files.files):
            low = file.start // ENTRY_SIZE
            end = self._first(low, low + file.size // ENTRY_SIZE, lambda entry: entry[1] <= 0)
            if end > low:
                return end
        return self._files.begin // ENTRY_SIZE

    def _first(self, low: int, high: int, wanted: Callable[[Entry], bool]) -> int:
        """Binary search for the first entry in [low, high) that is wanted; `high` if none is."""
        while low < high:
            middle = (low + high) // 2
            entry = self.entry(middle)
            if entry is None or wanted(entry):
                high = middle
            else:
                low = middle + 1
        return low


class Bounds:
    """One store, as it was when this was made."""

    def __init__(self, folder: StoreFolder) -> None:
        self._folder = folder
        self.log = Files(folder, join(folder.root, "commitlog"))

    def queue(self, topic: str, queue_id: int) -> Queue:
        return Queue(self._folder, join(self._folder.root, "consumequeue", topic, str(queue_id)), self.log.begin)

    def queues(self, topics: frozenset[str] = frozenset()) -> Iterator[QueueBounds]:
        """Of these topics, or of all."""
        for each, queue in self._queues(topics):
            yield QueueBounds(each.topic, each.queue_id, queue.min_offset, queue.max_offset)

    def _queues(self, topics: frozenset[str]) -> Iterator[tuple[QueueFolder, Queue]]:
        for each in self._folder.queues(topics):
            yield each, Queue(self._folder, each.path, self.log.begin)

    def stored_at(self, phys_offset: int) -> int | None:
        """The store time, in ms, of the record that begins here; None if none does."""
        head = self.log.read(phys_offset, TIMESTAMP_HEAD)
        return store_timestamp_of(head) if is_head_at(head, phys_offset) else None

    def message_stored_at(self, topic: str, queue_id: int, queue_offset: int) -> int | None:
        """The store time of a message, or of the first one that is left where it was deleted; None if there is none."""
        queue = self.queue(topic, queue_id)
        entry = queue.entry(max(queue_offset, queue.min_offset))
        return self.stored_at(entry[0]) if entry is not None and entry[1] > 0 else None

    def log_times(self) -> list[StoredAt]:
        """When the first record of each file was stored, and that of the last one the queues know of."""
        found = [StoredAt(file.start, at) for file in self.log.files if (at := self.stored_at(file.start)) is not None]
        queues = [queue for _, queue in self._queues(frozenset()) if queue.max_offset > queue.min_offset]
        lasts = [entry for queue in queues if (entry := queue.entry(queue.max_offset - 1)) is not None]
        last = max(lasts, default=None)
        if last is not None and (at := self.stored_at(last[0])) is not None:
            found.append(StoredAt(last[0] + last[1], at))
        return found
