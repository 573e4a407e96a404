"""Where queues begin and end, and when single records were stored: a few reads of a few bytes, however large the store.

Consume queues are searched by halves. What an entry points at is read from the log only where somebody asks for its
time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from mqctl.store.record import TIMESTAMP_HEAD, is_head_at, store_timestamp_of
from mqctl.store.scan.folder import QueueFolder, StoreFolder
from mqctl.store.scan.queuefiles import LOST_SIZE, Queue
from mqctl.store.scan.storage import join


class QueueBounds(NamedTuple):
    """Offsets of the first message that is still there and of the one that will be next."""

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int


class StoredAt(NamedTuple):
    phys_offset: int
    store_ms: int


class Bounds:
    """One store. The files of its log are those that were there when this was made."""

    def __init__(self, folder: StoreFolder) -> None:
        self._folder = folder
        self.log_files = folder.log_files()
        self._starts = [file.start for file in self.log_files]

    @property
    def _log_begin(self) -> int:
        return self._starts[0] if self._starts else 0

    # -- queues -------------------------------------------------------------------------------------

    def queues(self, topics: frozenset[str] = frozenset()) -> Iterator[QueueBounds]:
        """Of these topics, or of all."""
        return map(self._bounds, self._folder.queues(topics))

    def queue(self, topic: str, queue_id: int) -> QueueBounds:
        """0 and 0 if there is no such queue."""
        return self._bounds(self._queue_folder(topic, queue_id))

    def _queue_folder(self, topic: str, queue_id: int) -> QueueFolder:
        return QueueFolder(topic, queue_id, join(self._folder.root, "consumequeue", topic, str(queue_id)))

    def _bounds(self, folder: QueueFolder) -> QueueBounds:
        queue = Queue(self._folder, folder)
        return QueueBounds(folder.topic, folder.queue_id, queue.begin(self._log_begin), queue.stop)

    # -- times, in ms -------------------------------------------------------------------------------

    def message_stored_at(self, topic: str, queue_id: int, queue_offset: int) -> int | None:
        """None if there is no such message any more, or not yet."""
        entry = Queue(self._folder, self._queue_folder(topic, queue_id)).entry(queue_offset)
        return self.stored_at(int(entry["phys_offset"])) if 0 < entry["size"] < LOST_SIZE else None

    def stored_at(self, phys_offset: int) -> int | None:
        """Of the record that begins here; None if none does."""
        number = bisect_right(self._starts, phys_offset) - 1
        if number < 0:
            return None
        file = self.log_files[number]
        head = self._folder.storage.read(file.path, phys_offset - file.start, TIMESTAMP_HEAD)
        return store_timestamp_of(head) if is_head_at(head, phys_offset) else None

    def log_times(self) -> list[StoredAt]:
        """When each file of the log was begun, and when the log came to its end, as far as the queues know."""
        found = [StoredAt(file.start, at) for file in self.log_files if (at := self.stored_at(file.start)) is not None]
        queues = [Queue(self._folder, each) for each in self._folder.queues()]
        entries = [queue.entry(queue.stop - 1) for queue in queues]
        lasts = [(int(entry["phys_offset"]), int(entry["size"])) for entry in entries if 0 < entry["size"] < LOST_SIZE]
        place, size = max(lasts, default=(0, 0))
        if size and (at := self.stored_at(place)) is not None:
            found.append(StoredAt(place + size, at))
        return found
