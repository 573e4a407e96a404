"""Checking a store against itself, without changing it.

The log is the truth. One pass over it checks every record (layout, place, CRC) and collects, queue by queue, the
entries that must be in the consume queues; whole pieces of those are compared with the files at once, and only a
piece that differs is looked at entry by entry. Entries the log did not ask for are then followed one by one.

A finding is damage, or a note about something that is normal under the circumstances: the records of a deleted
topic, or a queue that lags behind the log while a broker runs or after a crash (the next start adds the entries).
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

from mqctl.store import record
from mqctl.store.consumequeue import ENTRY, ENTRY_SIZE
from mqctl.store.inspect import CHUNK, DataFiles, QueueFiles, RawRecord, StoreFolder
from mqctl.store.javahash import java_hash
from mqctl.store.properties import INNER_MULTI_DISPATCH, TAGS, get_property
from mqctl.store.recover import NOT_FOR_CONSUMERS

# Expected entries are compared when so many have gathered.
PIECE: Final = 4096 * ENTRY_SIZE

# More findings than this about one file are only counted: a lost file can make millions.
MAX_PER_FILE: Final = 20
MAX_PER_QUEUE: Final = 1000

WAITING_TOPICS: Final = (SCHEDULE_TOPIC, TIMER_TOPIC)  # there the tags code is a time of delivery
MAX_EXT_ADDRESS: Final = -(1 << 31) - 1  # tags codes up to this are addresses in consumequeue_ext
SYS_INNER_BATCH: Final = 0x80  # 5.x: such records are listed in batchconsumequeue, not here


class Severity(StrEnum):
    DAMAGE = "damage"
    NOTE = "note"


class Finding(NamedTuple):
    """`file` is relative to the store, `position` a byte in it."""

    severity: Severity
    file: str
    position: int | None
    what: str


@dataclass(slots=True)
class Report:
    records: int = 0
    entries: int = 0
    findings: list[Finding] = field(default_factory=list)
    _per_file: Counter[tuple[Severity, str]] = field(default_factory=Counter)

    def add(self, finding: Finding) -> None:
        key = (finding.severity, finding.file)
        self._per_file[key] += 1
        if self._per_file[key] <= MAX_PER_FILE:
            self.findings.append(finding)

    def finish(self) -> None:
        """Says how many findings were only counted."""
        for (severity, file), count in self._per_file.items():
            if count > MAX_PER_FILE:
                self.findings.append(Finding(severity, file, None, f"{count - MAX_PER_FILE} more of these"))

    @property
    def damaged(self) -> bool:
        return any(finding.severity is Severity.DAMAGE for finding in self.findings)


def verify(
    store: StoreFolder,
    parse_json: Callable[[bytes], Any],
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Report:
    """`parse_json` raises ValueError for what it cannot read; `on_progress` gets bytes of the log."""
    return _Verification(store, parse_json, on_progress).run()


class _Verification:
    def __init__(
        self, store: StoreFolder, parse_json: Callable[[bytes], Any], on_progress: Callable[[int, int], None]
    ) -> None:
        self._store = store
        self._parse_json = parse_json
        self._on_progress = on_progress
        self._report = Report()
        # Before the log: whatever a queue holds by now has its record there when the scan comes by.
        queues = store.queues
        self._clean = store.clean
        self._checks = {
            (queue.topic.encode(errors="surrogateescape"), queue.queue_id): _QueueCheck(queue) for queue in queues
        }
        self._existing_topics: set[str] | None = None

    def run(self) -> Report:
        self._check_config()
        self._check_files(self._store.log)
        for check in self._checks.values():
            if check.queue is not None:
                self._check_files(check.queue.files)
        self._check_log()
        for (topic, queue_id), check in sorted(self._checks.items()):
            check.compare()
            self._take(topic.decode(errors="replace"), queue_id, check)
        self._report.finish()
        return self._report

    def _damage(self, path: Path, position: int | None, what: str) -> None:
        self._report.add(Finding(Severity.DAMAGE, self._name(path), position, what))

    def _note(self, path: Path, position: int | None, what: str) -> None:
        self._report.add(Finding(Severity.NOTE, self._name(path), position, what))

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self._store.root))

    # -- files --------------------------------------------------------------------------------------

    def _check_config(self) -> None:
        for path in self._store.config_files():
            try:
                data = path.read_bytes()
                content = self._parse_json(data) if data else None
            except FileNotFoundError:
                continue  # replaced at this moment
            except OSError as error:
                self._damage(path, None, f"cannot be read: {error.strerror}")
                continue
            except ValueError as error:
                self._damage(path, None, f"is not JSON: {error}")
                continue
            if not data:
                self._note(path, None, "is empty; a broker reads the backup instead")
            elif path.name == "topics.json" and isinstance(content, dict):
                self._existing_topics = set(content.get("topicConfigTable") or ())

    def _check_files(self, sequence: DataFiles) -> None:
        """A broker wants files of one size, one behind the other."""
        files = sequence.files
        usual = Counter(file.size for file in files).most_common(1)[0][0] if files else 0
        for number, file in enumerate(files):
            if file.size == 0:
                self._note(file.path, None, "is empty: its process ended before it had its size")
            elif file.size != usual:
                self._damage(file.path, None, f"has {file.size} bytes where the others have {usual}")
            if number and files[number - 1].start + usual < file.start:
                self._damage(file.path, None, f"nothing is there between {files[number - 1].path.name} and this file")

    # -- the log ------------------------------------------------------------------------------------

    def _check_log(self) -> None:
        log = self._store.log
        begin, total, next_step = log.begin, log.end - log.begin, log.begin + CHUNK
        crc32, pack, checks = zlib.crc32, ENTRY.pack, self._checks
        scan = self._store.scan(self._log_damage)
        records = 0
        for raw in scan:
            records += 1
            buffer, _, fields, body_at, topic, properties = raw
            if fields[-1] and crc32(memoryview(buffer)[body_at : body_at + fields[-1]]) & record.CRC_MASK != fields[2]:
                self._log_damage(fields[6], f"the body's CRC does not match; {_place(raw)}")
            if fields[7] & record.SYS_TRANSACTION_MASK in NOT_FOR_CONSUMERS or fields[7] & SYS_INNER_BATCH:
                continue
            check = checks.get((topic, fields[3]))
            if check is None:
                if not topic or b"\0" in topic or b"/" in topic or topic in (b".", b".."):
                    self._log_damage(fields[6], f"the topic {topic!r} cannot be one")  # no CRC covers it
                    continue
                check = checks[topic, fields[3]] = _QueueCheck(None)
            if fields[5] != check.next_offset and not check.jump(fields[5]):
                self._log_damage(fields[6], f"the queue offset goes back from {check.last_offset}; {_place(raw)}")
            check.add(pack(fields[6], fields[0], _tags_code(properties)))
            if scan.place >= next_step:
                self._on_progress(scan.place - begin, total)
                next_step = scan.place + CHUNK
        self._report.records = records

    def _log_damage(self, phys_offset: int, what: str) -> None:
        file = self._store.log.file_at(phys_offset)
        if file is not None:
            self._damage(file.path, phys_offset - file.start, what)

    # -- queues -------------------------------------------------------------------------------------

    def _take(self, topic: str, queue_id: int, check: _QueueCheck) -> None:
        queue = check.queue
        directory = self._store.root / "consumequeue" / topic / str(queue_id)
        if check.missing:
            self._say_missing(topic, directory, check)
        if queue is None:
            return
        self._report.entries += queue.messages
        for queue_offset, what in check.findings:
            self._entry_damage(queue, queue_offset, what)
        if check.more:
            self._damage(directory, None, f"{check.more} more entries that differ from their records")
        for start, stop in check.unasked():
            for queue_offset, entry in enumerate(queue.entries(start, stop), start):
                complaint = self._follow(queue, queue_offset, entry)
                if complaint is not None:
                    self._entry_damage(queue, queue_offset, complaint)

    def _say_missing(self, topic: str, directory: Path, check: _QueueCheck) -> None:
        what = f"{check.missing} entries are missing, from queue offset {check.first_missing} on"
        if check.queue is None and self._existing_topics is not None and topic not in self._existing_topics:
            self._note(directory, None, f"the topic is gone; {check.missing} of its records are still in the log")
        elif not self._clean and check.lags:
            self._note(directory, None, f"{what}: the store is in use or was not closed, a start adds them")
        else:
            self._damage(directory, None, what)

    def _entry_damage(self, queue: QueueFiles, queue_offset: int, what: str) -> None:
        file = queue.files.file_at(queue_offset * ENTRY_SIZE)
        path = queue.files.directory if file is None else file.path
        position = None if file is None else queue_offset * ENTRY_SIZE - file.start
        self._damage(path, position, f"queue offset {queue_offset}: {what}")

    def _follow(self, queue: QueueFiles, queue_offset: int, entry: tuple[int, int, int]) -> str | None:
        """What is wrong with an entry that the log did not ask for."""
        phys_offset, size, _ = entry
        if size <= 0:
            return "an empty entry"
        file = self._store.log.file_at(phys_offset)
        if file is not None and not file.path.exists():
            return None  # deleted while we were reading
        try:
            found = self._store.record_at(phys_offset)
        except record.RecordError:
            return f"points to log offset {phys_offset}, where no sound record is"
        if found.size != size:
            return f"says {size} bytes, the record at {phys_offset} has {found.size}"
        if (found.topic, found.queue_id, found.queue_offset) == (queue.topic, queue.queue_id, queue_offset):
            return None
        if queue.topic in (get_property(found.properties, INNER_MULTI_DISPATCH) or "").split(","):
            return None
        return f"points to the record of {found.topic}/{found.queue_id}@{found.queue_offset} at {phys_offset}"


def _tags_code(properties: bytes) -> int:
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


def _place(raw: RawRecord) -> str:
    return f"record of {raw.topic.decode(errors='replace')}/{raw.fields[3]}@{raw.fields[5]}"


class _QueueCheck:
    """What the log says about one queue, compared with the queue's files piece by piece."""

    __slots__ = ("_asked", "_expected", "findings", "first_missing", "missing", "more", "next_offset", "queue")

    def __init__(self, queue: QueueFiles | None) -> None:
        self.queue = queue
        self.next_offset = -1  # before the first record
        self._expected = bytearray()
        self._forget()

    def _forget(self) -> None:
        self._expected.clear()
        self._asked: list[tuple[int, int]] = []
        self.findings: list[tuple[int, str]] = []
        self.missing = 0
        self.first_missing = 0
        self.more = 0  # findings that are only counted

    @property
    def last_offset(self) -> int:
        """Of the record before the one that jumped."""
        return self._asked[-1][1] - 1 if self._asked else -1

    @property
    def lags(self) -> bool:
        """Whether all that is missing is missing at the queue's end."""
        return self.queue is None or self.first_missing >= self.queue.max_offset

    def jump(self, queue_offset: int) -> bool:
        """The next record has another queue offset than the one before it led to expect. Ahead: there is damage
        between them, which is found elsewhere. Back to 0: the topic was deleted and made again, and what its
        queue held before is gone. Returns False for any other way back."""
        if queue_offset == 0:
            self._forget()
        self.compare()
        back = queue_offset < self.next_offset and queue_offset != 0
        self.next_offset = queue_offset
        return not back

    def add(self, entry: bytes) -> None:
        self._expected += entry
        self.next_offset += 1
        if len(self._expected) >= PIECE:
            self.compare()

    def compare(self) -> None:
        expected = bytes(self._expected)
        self._expected.clear()
        if not expected:
            return
        start = self.next_offset - len(expected) // ENTRY_SIZE
        self._asked.append((start, self.next_offset))
        size = len(expected)
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
        phys_offset, size, tags_code = ENTRY.unpack(expected)
        has_phys_offset, has_size, has_tags_code = ENTRY.unpack(have)
        if has_phys_offset != phys_offset:
            what = f"points to log offset {has_phys_offset}, its record is at {phys_offset}"
        elif has_size != size:
            what = f"says {has_size} bytes, the record at {phys_offset} has {size}"
        elif has_tags_code <= MAX_EXT_ADDRESS or (self.queue is not None and self.queue.topic in WAITING_TOPICS):
            return
        else:
            what = f"has tags code {has_tags_code}, the tag of the record at {phys_offset} has {tags_code}"
        if len(self.findings) < MAX_PER_QUEUE:
            self.findings.append((queue_offset, what))
        else:
            self.more += 1

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
