"""Reading a queue: which records a pull at some offset gets, and where the next pull begins.

The statuses and their rules are those of GetMessageStatus in Apache's store; consumers depend on them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Set
from enum import Enum, auto
from pathlib import Path
from typing import Final, NamedTuple

from mqctl.store.commitlog import CommitLog
from mqctl.store.consumequeue import ENTRY, ConsumeQueue
from mqctl.store.sift import PropertyFilter, sift, stretches
from mqctl.store.store import MessageStore

# A filter that matches little must not scan a whole queue in one go: at least this many entries are looked
# at per pull, as in Apache's store (16,000 bytes of 20-byte entries).
SCAN_ENTRIES: Final = 800
# A filter by properties with more conditions than this looks at fewer messages in one go.
CHEAP_CONDITIONS: Final = 16

# A gap of this many bytes is sooner copied than avoided by a second read. Producers send to all queues in turn, so
# the records of one queue rarely touch.
NEAR_BYTES: Final = 8 * 1024

# What a pull is after: tags, by their hashes; whatever a filter lets through; None for all.
Wanted = Set[int] | PropertyFilter | None


class FetchStatus(Enum):
    FOUND = auto()
    NO_MATCHED_MESSAGE = auto()
    MESSAGE_WAS_REMOVING = auto()
    OFFSET_FOUND_NULL = auto()
    OFFSET_OVERFLOW_BADLY = auto()
    OFFSET_OVERFLOW_ONE = auto()
    OFFSET_TOO_SMALL = auto()
    NO_MATCHED_LOGIC_QUEUE = auto()
    NO_MESSAGE_IN_QUEUE = auto()


class Fetched(NamedTuple):
    status: FetchStatus
    next_offset: int
    min_offset: int
    max_offset: int
    found: int = 0
    records: bytes = b""


class Place(NamedTuple):
    path: Path
    position: int
    size: int


class Limits(NamedTuple):
    """How much one pull may return. The first record comes whatever its size."""

    messages: int
    size_bytes: int


class _Span:
    """Records that lie near each other in one file of the log: one read brings them all, with what lies between."""

    __slots__ = ("end", "records", "start")

    def __init__(self, start: int) -> None:
        self.start = self.end = start
        self.records: list[tuple[int, int]] = []  # where each begins and ends in the span


def fetch(
    store: MessageStore,
    topic: str,
    queue_id: int,
    queue_offset: int,
    limits: Limits,
    wanted: Wanted = None,
) -> Fetched:
    """Never raises for any offset."""
    queue = store.queues.get((topic, queue_id))
    if queue is None:
        return Fetched(FetchStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
    wrong = _offset_status(queue, queue_offset)
    if wrong is not None:
        return Fetched(*wrong, queue.min_offset, queue.max_offset)
    entries = _entries(queue, queue_offset, limits, wanted)
    if not entries:
        following = queue.next_file_offset(queue_offset)
        return Fetched(FetchStatus.OFFSET_FOUND_NULL, following, queue.min_offset, queue.max_offset)
    if wanted is None or isinstance(wanted, Set):
        spans, scanned = _select(entries, limits, wanted, store.log.segments.file_size)
        pieces = _read(store.log, spans)
        was_removed = bool(spans) and not pieces
    else:
        pieces, scanned, was_removed = sift(store.log, entries, limits.messages, limits.size_bytes, wanted)
    if pieces:
        status = FetchStatus.FOUND
    else:
        status = FetchStatus.MESSAGE_WAS_REMOVING if was_removed else FetchStatus.NO_MATCHED_MESSAGE
    return Fetched(status, queue_offset + scanned, queue.min_offset, queue.max_offset, len(pieces), b"".join(pieces))


def places(
    store: MessageStore,
    topic: str,
    queue_id: int,
    queue_offset: int,
    limits: Limits,
    wanted: Wanted = None,
) -> list[Place]:
    """Where a fetch with the same arguments would read in the log, for `read_ahead`."""
    queue = store.queues.get((topic, queue_id))
    if queue is None or _offset_status(queue, queue_offset) is not None:
        return []
    entries = _entries(queue, queue_offset, limits, wanted)
    segments = store.log.segments
    if wanted is None or isinstance(wanted, Set):
        spans, _ = _select(entries, limits, wanted, segments.file_size)
        parts = [(span.start, span.end - span.start) for span in spans]
    else:
        parts = [(stretch.start, sum(stretch.sizes)) for stretch in stretches(entries)]
    return [
        Place(segments.path(start), phys_offset - start, size)
        for phys_offset, size in parts
        if segments.has(start := segments.start_of(phys_offset))
    ]


def read_ahead(wanted: list[Place]) -> None:
    """Brings these places into the page cache, in a thread that may wait for the disk; the fetch that follows
    then does not. What cannot be read is left to that fetch to report."""
    for place in wanted:
        with contextlib.suppress(OSError):
            descriptor = os.open(place.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.pread(descriptor, place.size, place.position)
            finally:
                os.close(descriptor)


def _offset_status(queue: ConsumeQueue, queue_offset: int) -> tuple[FetchStatus, int] | None:
    """(status, where to go instead) for an offset outside the queue, None for one inside."""
    if queue.max_offset == 0:
        return FetchStatus.NO_MESSAGE_IN_QUEUE, 0
    if queue_offset < queue.min_offset:
        return FetchStatus.OFFSET_TOO_SMALL, queue.min_offset
    if queue_offset == queue.max_offset:
        return FetchStatus.OFFSET_OVERFLOW_ONE, queue_offset
    if queue_offset > queue.max_offset:
        return FetchStatus.OFFSET_OVERFLOW_BADLY, queue.max_offset
    return None


def _entries(queue: ConsumeQueue, queue_offset: int, limits: Limits, wanted: Wanted) -> bytes:
    """As many as may be returned; with a filter as many as may be looked at."""
    if wanted is None:
        count = limits.messages
    elif isinstance(wanted, Set):
        count = max(SCAN_ENTRIES, limits.messages)
    else:
        count = max(1, SCAN_ENTRIES * CHEAP_CONDITIONS // max(CHEAP_CONDITIONS, wanted.size))
    return queue.read(queue_offset, count)


def _select(entries: bytes, limits: Limits, tag_codes: Set[int] | None, file_size: int) -> tuple[list[_Span], int]:
    """The records to return and how many entries were looked at to find them."""
    spans: list[_Span] = []
    scanned = selected = size_bytes = 0
    span = _Span(0)
    span_start = span_end = file_end = 0
    reach = -1
    for phys_offset, size, tags_code in ENTRY.iter_unpack(entries):
        if tag_codes is None or _as_int32(tags_code) in tag_codes:
            if selected and (selected >= limits.messages or size_bytes + size > limits.size_bytes):
                break
            if not span_end <= phys_offset <= reach:
                span = _Span(phys_offset)
                spans.append(span)
                span_start = phys_offset
                file_end = phys_offset - phys_offset % file_size + file_size
            span.end = span_end = phys_offset + size
            span.records.append((phys_offset - span_start, span_end - span_start))
            reach = min(span_end + NEAR_BYTES, file_end - 1)
            selected += 1
            size_bytes += size
        scanned += 1
    return spans, scanned


def _read(log: CommitLog, spans: list[_Span]) -> list[bytes]:
    """What is still there of the records."""
    pieces: list[bytes] = []
    for span in spans:
        data = log.read(span.start, span.end - span.start)
        if data is not None:
            pieces += [data[begin:end] for begin, end in span.records]
    return pieces


def _as_int32(tags_code: int) -> int:
    """Java compares the low 32 bits of the stored code."""
    return (tags_code + 0x80000000 & 0xFFFFFFFF) - 0x80000000


def search_by_time(store: MessageStore, queue: ConsumeQueue, timestamp_ms: int) -> int:
    """The offset of the message stored nearest to a time: an exact hit wins, else the nearer neighbour (the
    earlier one if both are as near); before all -> the first, after all -> the last."""
    low, high = queue.min_offset, queue.max_offset
    while low < high:
        middle = (low + high) // 2
        if _stored_at(store, queue, middle) < timestamp_ms:
            low = middle + 1
        else:
            high = middle
    if low == queue.min_offset:
        return low
    if low == queue.max_offset:
        return low - 1
    earlier = timestamp_ms - _stored_at(store, queue, low - 1)
    later = _stored_at(store, queue, low) - timestamp_ms
    return low if later == 0 or later < earlier else low - 1


def _stored_at(store: MessageStore, queue: ConsumeQueue, queue_offset: int) -> int:
    return stored_at(store, queue, queue_offset) or 0


def stored_at(store: MessageStore, queue: ConsumeQueue, queue_offset: int) -> int | None:
    """When the message at this offset was stored; None where there is none."""
    entry = queue.entry(queue_offset)
    return store.log.store_timestamp(entry[0]) if entry is not None else None
