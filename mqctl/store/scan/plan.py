"""The parts in which messages are read, each by one task.

Byte ranges of the log; or, where topics were named, slices of their queues, which lead straight to the records. The
queues on disk may lack the last seconds of a broker that runs or was killed: those are looked for in the log.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from mqctl.store.scan.folder import DataFile, StoreFolder
from mqctl.store.scan.logreader import FileReader, Found, LogRange, read_places, read_range
from mqctl.store.scan.messages import Wanted, batches
from mqctl.store.scan.queuefiles import Queue, QueueSlice, read_slice, together
from mqctl.store.scan.records import Mask, Records
from mqctl.store.scan.texts import slices

# A task costs Spark some 30 ms, which read 20 MiB; there should be several tasks in a file of the log all the same.
PART_BYTES: Final = 256 * 1024 * 1024
PART_ENTRIES: Final = 250_000

# How far before the end of the log records of a certain age are looked for at first.
STEP_BACK: Final = 16 * 1024 * 1024

# A queue of ours reaches its file after five seconds at most, one of Apache's at once.
UNLISTED_MS: Final = 15_000

# How far a clock may have been set back between two records without one of them being overlooked.
CLOCK_STEP_MS: Final = 60_000

# The end of each queue takes a few reads, which behind a URI take long.
REMOTE_QUEUES: Final = 64

_NEVER: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class LogPart:
    """A range of the log. With `listed`, only what the queues on disk have no entry for: records from these queue
    offsets on, by topic and queue."""

    store: StoreFolder
    range: LogRange
    listed: Mapping[tuple[str, int], int] | None = None

    def batches(self, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        found = read_range(self.store, self.range)
        if self.listed is not None:
            found = (Found(file, records.select(_unlisted(records, self.listed))) for file, records in found)
        return batches(self.store.name, found, wanted)


@dataclass(frozen=True, slots=True)
class QueuePart:
    """What some entries of queues lead to."""

    store: StoreFolder
    slices: tuple[QueueSlice, ...]

    def batches(self, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        return batches(self.store.name, self._found(), wanted)

    def _found(self) -> Iterator[Found]:
        log_files = self.store.log_files()
        log_begin = log_files[0].start if log_files else 0
        entries = np.concatenate([read_slice(self.store, each, log_begin)[1] for each in self.slices])
        yield from read_places(self.store, entries["phys_offset"].astype(np.int64), entries["size"].astype(np.int64))


Part = LogPart | QueuePart


def message_parts(store: StoreFolder, wanted: Wanted, part_bytes: int = PART_BYTES) -> list[Part]:
    if wanted.topics and not wanted.from_log:
        queues = [Queue(store, each) for each in store.queues(wanted.topics, wanted.queue_id)]
        if wanted.topics - {queue.topic for queue in queues} <= _without_messages(store, wanted.topics):
            return _queue_parts(store, queues, wanted)
    plan = LogPlan(store)
    return [LogPart(store, each) for each in _bounded(plan, plan.ranges(part_bytes), wanted)]


def _without_messages(store: StoreFolder, topics: frozenset[str]) -> frozenset[str]:
    """Those that have no queue because there is nothing in them, as opposed to a queue that was lost."""
    if next(store.queues(), None) is None:
        return frozenset()
    return topics - frozenset(store.config("topics.json").get("topicConfigTable", {}))


def _queue_parts(store: StoreFolder, queues: list[Queue], wanted: Wanted) -> list[Part]:
    listed_slices = (each for queue in queues for each in queue.slices(PART_ENTRIES))
    parts: list[Part] = [QueuePart(store, each) for each in together(listed_slices, PART_ENTRIES)]
    if not store.clean:
        listed = {(queue.topic, queue.queue_id): queue.stop for queue in queues}
        plan = LogPlan(store)
        parts += [LogPart(store, each, listed) for each in _bounded(plan, plan.last(UNLISTED_MS), wanted)]
    return parts


def _unlisted(records: Records, listed: Mapping[tuple[str, int], int]) -> Mask:
    topics = slices(records.data, records.topic_at, records.topic_size).dictionary_encode()
    names = [topic.decode(errors="replace") for topic in topics.dictionary.to_pylist()]
    code, queue_id = topics.indices.to_numpy().astype(np.int64), records.field("queue_id").astype(np.int64)
    queues, which = np.unique(code << 32 | queue_id, return_inverse=True)
    first = [listed.get((names[queue >> 32], queue & 0xFFFFFFFF), 0) for queue in queues.tolist()]
    unlisted: Mask = records.field("queue_offset") >= np.array(first, np.int64)[which]
    return unlisted


# -- the log ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class LogPlan:
    """The log of a store as it was when this was made."""

    store: StoreFolder
    files: list[DataFile] = field(init=False)
    known: int = field(init=False)  # the place of a record up to which the log is known to go on

    def __post_init__(self) -> None:
        self.files = self.store.log_files()
        self.known = self._last_listed()

    @property
    def begin(self) -> int:
        return self.files[0].start if self.files else 0

    def ranges(self, part_bytes: int) -> list[LogRange]:
        """All of it. The last range is what no queue vouches for."""
        if not self.files:
            return []
        return [*split(self.files, self.begin, self.known, part_bytes), LogRange(self.known, self.files[-1].end, True)]

    def last(self, milliseconds: int) -> list[LogRange]:
        """At least what was stored so long before the last known record, and all that follows."""
        if not self.files:
            return []
        start, step = self.known, STEP_BACK
        before = self.time_at(LogRange(self.known, self.known)) - milliseconds
        while start > self.begin and self.time_at(LogRange(start, start)) >= before:
            start, step = max(self.begin, start - step), step * 2
        return [*split(self.files, start, self.known, PART_BYTES), LogRange(self.known, self.files[-1].end, True)]

    def end(self, start: int, most: int | None = None) -> int:
        """Where the last whole record ends that lies behind `start`, where one begins; `start` if there is none. With
        `most`, only so many bytes further, and up to the end of the record that is there."""
        if not self.files:
            return start
        if most is not None and start + most < self.known:
            found = self.record_from(start + most)
            return self.known if found is None else found.base
        place = max(start, self.known)
        for _, records in read_range(self.store, LogRange(place, self.files[-1].end, True)):
            place = records.base + int(records.at[-1] + records.heads["size"][-1])
        return place

    def time_at(self, part: LogRange) -> int:
        """The store time of the first record from there on."""
        found = self.record_from(part.start)
        return _NEVER if found is None else int(found.field("store_time")[0])

    def record_from(self, place: int) -> Records | None:
        for file in self.files:
            if place < file.end:
                found = FileReader(self.store, file).find(max(place, file.start), file.end)
                if found is not None:
                    return found
        return None

    def _last_listed(self) -> int:
        """The last place that a queue leads to, or else where the last file with records begins."""
        queues = list(self.store.queues())
        if "://" in self.store.root:
            queues = queues[:REMOTE_QUEUES]
        places = sorted({Queue(self.store, each).last_place() or 0 for each in queues}, reverse=True)
        for place in places:
            found = self.record_from(place)
            if found is not None and found.base == place:
                return place
        for file in reversed(self.files):
            if any(self.store.storage.read(file.path, 0, 8)):
                return file.start
        return self.begin


def split(files: list[DataFile], start: int, stop: int, part_bytes: int) -> Iterator[LogRange]:
    """[start, stop) in ranges of so many bytes, none of them over the border of a file."""
    for file in files:
        low, high = max(start, file.start), min(stop, file.end)
        for begin in range(low, high, part_bytes):
            yield LogRange(begin, min(begin + part_bytes, high))


def _bounded(plan: LogPlan, ranges: list[LogRange], wanted: Wanted) -> list[LogRange]:
    """Those that may hold what is wanted."""
    low, high = wanted.from_offset or 0, _NEVER if wanted.to_offset is None else wanted.to_offset
    ranges = [
        LogRange(each.start if each.to_end else max(each.start, low), min(each.stop, high), each.to_end)
        for each in ranges
        if each.start < high and low < each.stop
    ]
    first, last = 0, len(ranges)
    if wanted.until_ms is not None:
        last = bisect_right(ranges, wanted.until_ms + CLOCK_STEP_MS, key=plan.time_at)
    if wanted.since_ms is not None:
        # The range before the first that begins late enough may reach into it.
        first = max(0, bisect_left(ranges, wanted.since_ms - CLOCK_STEP_MS, 0, last, key=plan.time_at) - 1)
    return ranges[first:last]
