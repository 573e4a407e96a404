"""What the log says about one queue, compared with the queue's files.

It gathers until there is a piece that is worth a read; whole pieces are compared at once, and only one that differs is
looked at entry by entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from mqctl.names import SCHEDULE_TOPIC, TIMER_TOPIC
from mqctl.store.consumequeue import ENTRY, ENTRY_SIZE
from mqctl.store.offline.order import QueueOrder
from mqctl.store.offline.queuefiles import QueueFiles

# Expected entries are compared when so many have gathered.
PIECE: Final = 4096 * ENTRY_SIZE

MAX_PER_QUEUE: Final = 1000  # findings about one queue that are kept; the rest is counted

WAITING_TOPICS: Final = (SCHEDULE_TOPIC, TIMER_TOPIC)  # there the tags code is a time of delivery
MAX_EXT_ADDRESS: Final = -(1 << 31) - 1  # tags codes up to this are addresses in consumequeue_ext


class Listed(NamedTuple):
    """A record that should be in a queue."""

    phys_offset: int
    size: int
    entry: bytes


class QueueCheck:
    """One queue; None where the log has records of one that has no files."""

    __slots__ = ("_asked", "_expected", "_start", "findings", "first_missing", "missing", "more", "order", "queue")

    def __init__(self, queue: QueueFiles | None) -> None:
        self.queue = queue
        self.order: QueueOrder[Listed] = QueueOrder()
        self._expected = bytearray()
        self._forget()

    def _forget(self) -> None:
        self._start = 0  # queue offset of the first entry in `_expected`
        self._expected.clear()
        self._asked: list[tuple[int, int]] = []
        self.findings: list[tuple[int, str]] = []
        self.missing = 0
        self.first_missing = 0
        self.more = 0  # findings that are only counted

    @property
    def lags(self) -> bool:
        """Whether all that is missing is missing at the queue's end."""
        return self.queue is None or self.first_missing >= self.queue.max_offset

    def refutes_last(self) -> bool:
        """Whether the queue has the log's last record of it at the offset that was expected."""
        if self.queue is None or self.order.suspect is None:
            return False
        entry = self.queue.entry(self.order.next_offset) if self.order.next_offset >= 0 else None
        return entry is not None and entry[0] == self.order.suspect[1].phys_offset

    def jump(self, *, restart: bool) -> None:
        """The next record does not follow the one before. After a restart what came before is gone: the topic
        was deleted and made again."""
        if restart:
            self._forget()
        self.compare()

    def begin(self, queue_offset: int) -> None:
        """The next entry has this queue offset."""
        if not self._expected:
            self._start = queue_offset

    def expect(self, entry: bytes) -> None:
        self._expected += entry
        if len(self._expected) >= PIECE:
            self.compare()

    def compare(self) -> None:
        expected = bytes(self._expected)
        self._expected.clear()
        if not expected:
            return
        start, size = self._start, len(expected)
        self._start += size // ENTRY_SIZE
        self._asked.append((start, self._start))
        have = b"" if self.queue is None else self.queue.files.read_through(start * ENTRY_SIZE, size)
        if have != expected:
            for number in range(size // ENTRY_SIZE):
                at = number * ENTRY_SIZE
                if have[at : at + ENTRY_SIZE] != expected[at : at + ENTRY_SIZE]:
                    self._differs(start + number, have[at : at + ENTRY_SIZE], expected[at : at + ENTRY_SIZE])

    def _differs(self, queue_offset: int, have: bytes, expected: bytes) -> None:
        if self.queue is not None and len(have) < ENTRY_SIZE:
            # The piece may have ended at a file that is gone. One that went while we read is no damage.
            file = self.queue.files.file_at(queue_offset * ENTRY_SIZE)
            if file is not None and not file.path.exists():
                return
            have = self.queue.files.read(queue_offset * ENTRY_SIZE, ENTRY_SIZE)
            if have == expected:
                return
        if len(have) < ENTRY_SIZE or not any(have):
            self.first_missing = queue_offset if not self.missing else min(self.first_missing, queue_offset)
            self.missing += 1
            return
        what = self._difference(ENTRY.unpack(have), ENTRY.unpack(expected))
        if what is None:
            return
        if len(self.findings) < MAX_PER_QUEUE:
            self.findings.append((queue_offset, what))
        else:
            self.more += 1

    def _difference(self, have: tuple[int, int, int], expected: tuple[int, int, int]) -> str | None:
        phys_offset, size, code = expected
        if have[0] != phys_offset:
            return f"points to log offset {have[0]}, its record is at {phys_offset}"
        if have[1] != size:
            return f"says {have[1]} bytes, the record at {phys_offset} has {size}"
        if have[2] <= MAX_EXT_ADDRESS or (self.queue is not None and self.queue.topic in WAITING_TOPICS):
            return None
        return f"has tags code {have[2]}, the tag of the record at {phys_offset} has {code}"

    def unasked(self) -> Iterator[tuple[int, int]]:
        """Ranges of the queue's entries that no record of the log asked for."""
        assert self.queue is not None
        cursor = self.queue.min_offset
        for start, stop in sorted(self._asked):
            if cursor < start:
                yield cursor, min(start, self.queue.max_offset)
            cursor = max(cursor, stop)
        if cursor < self.queue.max_offset:
            yield cursor, self.queue.max_offset
