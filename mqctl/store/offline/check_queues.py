"""Consume queues against the log: every record has its entry, and every entry leads to its record.

What the log says gathers queue by queue; whole pieces of it are compared with the files at once, and only a piece
that differs is looked at entry by entry. Entries the log did not ask for are then followed one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from mqctl.store import record
from mqctl.store.consumequeue import ENTRY, ENTRY_SIZE, LOST_SIZE
from mqctl.store.javahash import java_hash
from mqctl.store.offline.findings import Report
from mqctl.store.offline.logscan import RawRecord
from mqctl.store.offline.order import Kind, QueueOrder, Step
from mqctl.store.offline.queuefiles import QueueFiles
from mqctl.store.properties import INNER_MULTI_DISPATCH, TAGS, get_property
from mqctl.store.rebuild import NOT_FOR_CONSUMERS
from mqctl.store.schedule import SCHEDULE_TOPIC, TIMER_TOPIC

# Expected entries are compared when so many have gathered.
PIECE: Final = 4096 * ENTRY_SIZE

MAX_PER_QUEUE: Final = 1000  # findings about one queue that are kept; the rest is counted

WAITING_TOPICS: Final = (SCHEDULE_TOPIC, TIMER_TOPIC)  # there the tags code is a time of delivery
MAX_EXT_ADDRESS: Final = -(1 << 31) - 1  # tags codes up to this are addresses in consumequeue_ext
SYS_INNER_BATCH: Final = 0x80  # 5.x: such records are listed in batchconsumequeue, not here


def has_entry(sys_flag: int) -> bool:
    """Whether a record with this flag is listed in a consume queue."""
    return sys_flag & record.SYS_TRANSACTION_MASK not in NOT_FOR_CONSUMERS and not sys_flag & SYS_INNER_BATCH


def place_problem(topic: bytes, queue_id: int) -> str | None:
    """Why there can be no such queue, None if there can: no CRC covers a record's topic and queue."""
    if not topic or b"\0" in topic or b"/" in topic or topic in (b".", b".."):
        return f"the topic {topic!r} cannot be one"
    return f"the queue {queue_id} cannot be one" if queue_id < 0 else None


class _Listed(NamedTuple):
    """A record that should be in a queue."""

    phys_offset: int
    size: int
    entry: bytes


class QueueChecks:
    """All queues of a store. `add` every record in the order of the log, then `finish`."""

    def __init__(self, report: Report, existing_topics: set[str] | None) -> None:
        self._report = report
        self._store = report.store
        # Before the log: whatever a queue holds by now has its record there when the scan comes by.
        self._checks = {
            (queue.topic.encode(errors="surrogateescape"), queue.queue_id): _QueueCheck(queue)
            for queue in report.store.queues
        }
        self._clean = report.clean
        self._existing_topics = existing_topics

    def add(self, raw: RawRecord) -> None:
        fields, topic = raw.fields, raw.topic
        if not has_entry(fields[7]):
            return
        check = self._checks.get((topic, fields[3]))
        if check is None:
            problem = place_problem(topic, fields[3])
            if problem is not None:
                self._report.log_damage(fields[6], fields[6] + fields[0], problem)
                return
            check = self._checks[topic, fields[3]] = _QueueCheck(None)
        entry = ENTRY.pack(fields[6], fields[0], tags_code(raw.properties))
        if check.order.is_next(fields[5]):
            check.order.next_offset += 1
            check.expect(entry)
        else:
            for step in check.order.take(fields[5], _Listed(fields[6], fields[0], entry)):
                self._step(topic, fields[3], check, step)

    def _step(self, topic: bytes, queue_id: int, check: _QueueCheck, step: Step[_Listed]) -> None:
        phys_offset, size, entry = step.item
        where = f"record of {topic.decode(errors='replace')}/{queue_id}@{step.queue_offset}"
        if step.kind is Kind.WRONG:
            self._report.log_damage(phys_offset, phys_offset + size, f"the queue offset cannot be right; {where}")
            self._report.queues.add((topic, queue_id))
        elif step.kind is Kind.BACK:
            what = f"the queue offset goes back, and no consumer can reach the message; {where}"
            self._report.in_log(phys_offset, what)
        else:
            if step.kind is not Kind.NEXT:
                check.jump(restart=step.kind is Kind.RESTART)
            check.begin(step.queue_offset)
            check.expect(entry)

    def finish(self) -> None:
        for (topic, queue_id), check in sorted(self._checks.items(), key=lambda item: item[0]):
            for step in check.order.finish(refuted=check.refutes_last()):
                self._step(topic, queue_id, check, step)
            check.compare()
            self._take(topic, queue_id, check)

    # -- findings -----------------------------------------------------------------------------------

    def _take(self, topic: bytes, queue_id: int, check: _QueueCheck) -> None:
        queue = check.queue
        name = topic.decode(errors="replace")
        directory = self._store.root / "consumequeue" / name / str(queue_id)
        if check.missing:
            self._say_missing(topic, queue_id, directory, check)
        if queue is None:
            return
        self._report.entries += queue.messages
        for queue_offset, what in check.findings:
            self._entry_damage(queue, queue_offset, what)
        if check.more:
            self._report.damage(directory, None, f"{check.more} more entries that differ from their records")
        damaged = bool(check.findings)
        for start, stop in check.unasked():
            for queue_offset, entry in enumerate(queue.entries(start, stop), start):
                complaint = self._follow(queue, queue_offset, entry)
                if complaint is not None:
                    self._entry_damage(queue, queue_offset, complaint)
                    damaged = True
        if damaged:
            self._report.queues.add((topic, queue_id))

    def _say_missing(self, topic: bytes, queue_id: int, directory: Path, check: _QueueCheck) -> None:
        what = f"{check.missing} entries are missing, from queue offset {check.first_missing} on"
        name = topic.decode(errors="replace")
        if check.queue is None and self._existing_topics is not None and name not in self._existing_topics:
            what = f"the topic is gone; {check.missing} of its records are still in the log"
            self._report.note(directory, None, what)
        elif not self._clean and check.lags:
            what = f"{what}: the store is in use or was not closed, a start adds them"
            self._report.note(directory, None, what)
        else:
            self._report.damage(directory, None, what)
            self._report.queues.add((topic, queue_id))

    def _entry_damage(self, queue: QueueFiles, queue_offset: int, what: str) -> None:
        file = queue.files.file_at(queue_offset * ENTRY_SIZE)
        path = queue.files.directory if file is None else file.path
        position = None if file is None else queue_offset * ENTRY_SIZE - file.start
        self._report.damage(path, position, f"queue offset {queue_offset}: {what}")

    def _follow(self, queue: QueueFiles, queue_offset: int, entry: tuple[int, int, int]) -> str | None:
        """What is wrong with an entry that the log did not ask for."""
        phys_offset, size, _ = entry
        if size <= 0:
            return "an empty entry"
        if size == LOST_SIZE:
            return None  # recovery says that this message is lost
        file = self._store.log.file_at(phys_offset)
        if file is not None and not file.path.exists():
            return None  # deleted while we were reading
        try:
            found = self._store.record_at(phys_offset)
        except record.RecordError:
            return f"points to log offset {phys_offset}, where no sound record is"
        if found.size != size:
            return f"says {size} bytes, the record at {phys_offset} has {found.size}"
        if (found.topic, found.queue_id) == (queue.topic, queue.queue_id) and found.queue_offset >= queue_offset:
            return None  # a later one stands for a message that is lost
        if queue.topic in (get_property(found.properties, INNER_MULTI_DISPATCH) or "").split(","):
            return None
        return f"points to the record of {found.topic}/{found.queue_id}@{found.queue_offset} at {phys_offset}"


def tags_code(properties: bytes) -> int:
    """Most texts are cut down to the one pair before anything is decoded."""
    at = properties.rfind(b"TAGS\x01")
    if at < 0:
        return 0
    end = properties.find(b"\x02", at)
    if at == 0 or properties[at - 1] == 2:
        tags = properties[at + 5 : end if end >= 0 else None].decode(errors="replace")
    else:  # the end of another name, or within a value
        tags = get_property(properties.decode(errors="replace"), TAGS) or ""
    return java_hash(tags) if tags else 0


class _QueueCheck:
    """What the log says about one queue, compared with the queue's files piece by piece."""

    __slots__ = ("_asked", "_expected", "_start", "findings", "first_missing", "missing", "more", "order", "queue")

    def __init__(self, queue: QueueFiles | None) -> None:
        self.queue = queue
        self.order: QueueOrder[_Listed] = QueueOrder()
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
