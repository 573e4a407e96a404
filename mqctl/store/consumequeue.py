"""A consume queue: for one queue of one topic, where each message lies in the commit log.

    log offset   8   where the record is
    record size  4
    tags code    8   Java hash of the tag (sign-extended), or a delivery time in the schedule topic

Entry n is at byte 20 * n of the sequence of files. The queue is derived data: the log alone can rebuild it.
New entries therefore stay in memory for a while (the tail) and reach the file in larger pieces.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from struct import Struct
from typing import Final

from mqctl.store.files import FileHandles, Segments

ENTRY: Final = Struct(">qiq")
ENTRY_SIZE: Final = ENTRY.size

# Stands before the first entry of a queue that does not begin at 0; Java writes the same.
LOST_SIZE: Final = 0x7FFFFFFF
FILLER: Final = ENTRY.pack(0, LOST_SIZE, 0)

# The tail goes to the file when it has this many entries: often enough that a crash leaves little to
# rebuild, rarely enough that a busy queue costs one system call per hundred messages.
TAIL_ENTRIES: Final = 128


class ConsumeQueue:
    """Owned by one thread. Offsets count entries.

    `next_offset` is what the next append to the log will get; `max_offset` is the end of what is written
    there, so of what consumers may see. They differ only between append and write. `arrived` counts what was
    published since `take_arrived`, for statistics.
    """

    __slots__ = (
        "_segments",
        "_tail",
        "_tail_start",
        "arrived",
        "arrived_bytes",
        "dropped",
        "max_offset",
        "min_offset",
        "next_offset",
        "queue_id",
        "topic",
        "topic_bytes",
    )

    def __init__(self, root: Path, topic: str, queue_id: int, file_size: int, handles: FileHandles) -> None:
        self.topic = topic
        self.topic_bytes = topic.encode()
        self.queue_id = queue_id
        self._segments = Segments(root / topic / str(queue_id), file_size, handles)
        self._tail = bytearray()
        self._tail_start = 0
        self.dropped = False  # its topic was deleted: what is still on its way here goes nowhere
        self.min_offset = 0
        self.max_offset = 0
        self.next_offset = 0
        self.arrived = 0
        self.arrived_bytes = 0

    # -- writing ------------------------------------------------------------------------------------

    def append(self, phys_offset: int, size: int, tags_code: int) -> None:
        self._tail += ENTRY.pack(phys_offset, size, tags_code)
        self.max_offset += 1

    def take_arrived(self) -> tuple[int, int]:
        """How many messages of how many bytes came since the last time."""
        taken = self.arrived, self.arrived_bytes
        self.arrived = self.arrived_bytes = 0
        return taken

    @property
    def wants_flush(self) -> bool:
        return len(self._tail) >= TAIL_ENTRIES * ENTRY_SIZE

    @property
    def is_dirty(self) -> bool:
        return bool(self._tail)

    def flush(self) -> None:
        """Writes the tail to its file. On StoreError the tail stays, and nothing is lost."""
        file_entries = self._segments.file_size // ENTRY_SIZE
        while self._tail:
            room = file_entries - self._tail_start % file_entries
            piece = self._tail[: room * ENTRY_SIZE]
            self._segments.write(self._tail_start * ENTRY_SIZE, piece)
            del self._tail[: len(piece)]
            self._tail_start += len(piece) // ENTRY_SIZE

    def truncate(self, max_offset: int) -> None:
        """Forgets entries from `max_offset` on, in memory and on disk."""
        self._forget_tail(max_offset)
        position, segments = max_offset * ENTRY_SIZE, self._segments
        for start in [start for start in segments.starts if start > position or start == position > segments.begin]:
            segments.remove(start)
        segments.erase(position, segments.end)  # zeros mark the end for whoever reads the file next
        self._set_max(max_offset)
        self.min_offset = min(self.min_offset, max_offset)

    def _forget_tail(self, max_offset: int) -> None:
        del self._tail[max(0, max_offset - self._tail_start) * ENTRY_SIZE :]
        self._tail_start = min(self._tail_start, max_offset)

    def keep_before(self, log_offset: int) -> None:
        """Forgets the entries in the files for records at or behind `log_offset`, and holes. Those before it are
        known to be whole; what follows them may be anything that a crash leaves."""
        files_end = self._segments.end // ENTRY_SIZE
        self._set_end(files_end)
        begin = self._segments.begin // ENTRY_SIZE
        self.truncate(self._first(begin, files_end, lambda entry: entry[0] >= log_offset or entry[1] <= 0))

    def start_at(self, queue_offset: int) -> None:
        """The queue begins anew at a later offset, since what was before it was deleted with the log. Entries
        before it in the same file are marked as Java marks them."""
        self.destroy()
        file_entries = self._segments.file_size // ENTRY_SIZE
        self._tail_start = queue_offset - queue_offset % file_entries
        self._tail += FILLER * (queue_offset - self._tail_start)
        self.min_offset = queue_offset
        self._set_max(queue_offset)

    def skip_to(self, queue_offset: int, phys_offset: int, size: int, tags_code: int) -> None:
        """Closes the gap before `queue_offset`, whose entry is the one given: it stands in the place of each lost
        message too, and consumers may get that message more than once. Apache's broker has no mark for a place
        without a message: it adds up position and size as ints, and with LOST_SIZE every pull there fails."""
        self._tail += ENTRY.pack(phys_offset, size, tags_code) * (queue_offset - self.max_offset)
        self._set_max(queue_offset)

    def follow_log_begin(self, log_begin: int) -> None:
        """What was before `log_begin` in the log is gone: entries about it are not offered any more, and files
        that hold no others are deleted. The last file stays, since it tells the next start where the queue
        ends. Raises StoreError when the disk refuses; then some files are left, oldest first, for the next time."""
        self.min_offset = self._first(self.min_offset, self.max_offset, lambda entry: entry[0] >= log_begin)
        segments = self._segments
        keep = self.min_offset * ENTRY_SIZE
        for start in [start for start in segments.starts[:-1] if start + segments.file_size <= keep]:
            segments.remove(start)

    def _set_end(self, max_offset: int) -> None:
        self._set_max(max_offset)
        self._tail_start = max_offset

    def _set_max(self, max_offset: int) -> None:
        self.max_offset = self.next_offset = max_offset

    def destroy(self) -> None:
        """Deletes the files and forgets what is not in them yet."""
        self._tail.clear()
        for start in list(self._segments.starts):
            self._segments.remove(start)

    # -- reading ------------------------------------------------------------------------------------

    def read(self, queue_offset: int, count: int) -> bytes:
        """Up to `count` entries from `queue_offset`, back to back: fewer at a file's end, none past the
        queue's end."""
        count = min(count, self.max_offset - queue_offset)
        if count <= 0:
            return b""
        if queue_offset >= self._tail_start:
            begin = (queue_offset - self._tail_start) * ENTRY_SIZE
            return bytes(self._tail[begin : begin + count * ENTRY_SIZE])
        count = min(count, self._tail_start - queue_offset)
        return self._segments.read(queue_offset * ENTRY_SIZE, count * ENTRY_SIZE)

    def entry(self, queue_offset: int) -> tuple[int, int, int] | None:
        """(log offset, size, tags code), None where there is no such entry."""
        data = self.read(queue_offset, 1) if queue_offset >= self.min_offset else b""
        return ENTRY.unpack(data) if len(data) == ENTRY_SIZE else None

    def next_file_offset(self, queue_offset: int) -> int:
        """The first entry of the file after the one that should hold `queue_offset`."""
        file_entries = self._segments.file_size // ENTRY_SIZE
        return queue_offset - queue_offset % file_entries + file_entries

    # -- loading ------------------------------------------------------------------------------------

    def load(self, log_begin: int) -> None:
        """Finds the end in the last file and the first entry whose record still exists."""
        self._segments.load()
        if not self._segments.starts:
            return
        last = self._segments.starts[-1] // ENTRY_SIZE
        self._set_end(last + self._segments.file_size // ENTRY_SIZE)
        self._set_end(self._first(last, self.max_offset, lambda entry: entry[1] <= 0))
        first = self._segments.begin // ENTRY_SIZE
        self.min_offset = self._first(first, self.max_offset, lambda entry: entry[0] >= log_begin)
        self._skip_filler()

    def _first(self, low: int, high: int, wanted: Callable[[tuple[int, int, int]], bool]) -> int:
        """Binary search for the first entry in [low, high) that is wanted; `high` if none is."""
        while low < high:
            middle = (low + high) // 2
            data = self.read(middle, 1)
            if len(data) < ENTRY_SIZE or wanted(ENTRY.unpack(data)):
                high = middle
            else:
                low = middle + 1
        return low

    def _skip_filler(self) -> None:
        self.min_offset = self._first(self.min_offset, self.max_offset, lambda entry: ENTRY.pack(*entry) != FILLER)

    def end_of_log(self) -> int:
        """Where the record of the last entry ends; 0 for an empty queue."""
        last = self.entry(self.max_offset - 1)
        return last[0] + last[1] if last else 0
