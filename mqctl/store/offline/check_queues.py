"""Consume queues against the log: every record has its entry, and every entry leads to its record.

The entries that the records ask for are compared queue by queue (`check_queue`). Entries that no record asked for are
then followed one by one.
"""

from __future__ import annotations

from pathlib import Path

from mqctl.store import record
from mqctl.store.consumequeue import ENTRY, ENTRY_SIZE, LOST_SIZE
from mqctl.store.offline.check_queue import Listed, QueueCheck
from mqctl.store.offline.entries import has_entry, place_problem, tags_code
from mqctl.store.offline.findings import Report
from mqctl.store.offline.logscan import RawRecord
from mqctl.store.offline.order import Kind, Step
from mqctl.store.offline.queuefiles import QueueFiles
from mqctl.store.properties import INNER_MULTI_DISPATCH, get_property


class QueueChecks:
    """All queues of a store. `add` every record in the order of the log, then `finish`."""

    def __init__(self, report: Report, existing_topics: set[str] | None) -> None:
        self._report = report
        self._store = report.store
        # Before the log: whatever a queue holds by now has its record there when the scan comes by.
        self._checks = {
            (queue.topic.encode(errors="surrogateescape"), queue.queue_id): QueueCheck(queue)
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
            check = self._checks[topic, fields[3]] = QueueCheck(None)
        entry = ENTRY.pack(fields[6], fields[0], tags_code(raw.properties))
        if check.order.is_next(fields[5]):
            check.order.next_offset += 1
            check.expect(entry)
        else:
            for step in check.order.take(fields[5], Listed(fields[6], fields[0], entry)):
                self._step(topic, fields[3], check, step)

    def _step(self, topic: bytes, queue_id: int, check: QueueCheck, step: Step[Listed]) -> None:
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

    def _take(self, topic: bytes, queue_id: int, check: QueueCheck) -> None:
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

    def _say_missing(self, topic: bytes, queue_id: int, directory: Path, check: QueueCheck) -> None:
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
